/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into profd: directories whose name has "nfs" in it are on NFS, those with "lustre" on Lustre. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

int statfs(const char *path, struct statfs *ret)
{
    int (*real)(const char *, struct statfs *) =
        (int (*)(const char *, struct statfs *))dlsym(RTLD_NEXT, "statfs");
    int r = real ? real(path, ret) : -1;

    if (r == 0 && strstr(path, "nfs"))
        ret->f_type = 0x6969;
    if (r == 0 && strstr(path, "lustre"))
        ret->f_type = 0x0bd00bd0;
    return r;
}
