/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into profd: a worker that acts at the worst moment. Just before profd first renames or removes a
 * file whose name begins with "rank", the paths $SWAP_FIRST and $SWAP_SECOND exchange what is there.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static void swap_before(const char *path)
{
    static bool done;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *first = getenv("SWAP_FIRST"), *second = getenv("SWAP_SECOND");

    if (done || !first || !second || strncmp(name, "rank", 4) != 0)
        return;
    done = true;
    int rights = setfsuid(geteuid()); /* profd may have the worker's */
    syscall(SYS_renameat2, AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE);
    setfsuid((uid_t)rights);
}

int unlink(const char *path)
{
    swap_before(path);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int dir_fd, const char *path, int flags)
{
    swap_before(path);
    return (int)syscall(SYS_unlinkat, dir_fd, path, flags);
}

int renameat2(int old_fd, const char *old_path, int new_fd, const char *new_path, unsigned flags)
{
    swap_before(old_path);
    return (int)syscall(SYS_renameat2, old_fd, old_path, new_fd, new_path, flags);
}
