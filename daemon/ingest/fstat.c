/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fstat() for this program and the libraries that it is linked with (SQLite): the system call that takes a
 * descriptor and nothing else. glibc's asks newfstatat() for an empty path, of which a filter sees the
 * address and not the text: who may ask that may ask for any path, and learn which files there are.
 */
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int fstat(int fd, struct stat *ret)
{
    return (int)syscall(SYS_fstat, fd, ret);
}
