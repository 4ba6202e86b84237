/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/shared_fs.h"

#include "base/alloc.h"
#include "base/network_fs.h"
#include "base/process_info.h"
#include "daemon/fleet/mount_table.h"
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

void shared_dir_done(struct shared_dir *d)
{
    free(d->source);
    free(d->fstype);
    free(d->root);
    *d = (struct shared_dir){0};
}

bool shared_dir_is_same(const struct shared_dir *a, const struct shared_dir *b)
{
    return a->source && b->source && streq(a->source, b->source) && streq(a->fstype, b->fstype) &&
           streq(a->root, b->root);
}

/* "server:/exported": the host and its colon, and the path that is mounted; a mount of a directory below is then the same
 * file system. "//server/share" and names of clusters are taken as they are. */
static char *source_split(const struct network_fs *fs, const char *source, const char **ret_path)
{
    const char *colon = fs->source == NETWORK_FS_PATH ? strstr(source, ":/") : NULL;

    if (colon && !starts_with(colon, "://")) {
        *ret_path = colon + 1;
        return xstrndup(source, (size_t)(colon + 1 - source));
    }
    *ret_path = "/";
    return xstrdup(source);
}

/* A path on a host ("/dev/sda1", a directory that a file system in user space mirrors) names nothing on another one. */
static bool source_is_named(const struct network_fs *fs, const char *source)
{
    if (fs->source == NETWORK_FS_UNNAMED || !source[0] || streq(source, "none"))
        return false;
    return fs->source == NETWORK_FS_CLUSTER || strchr(source, ':') || starts_with(source, "//") ||
           strchr(source, '=');
}

/* "/a/" and "/a" are one directory. */
static char *path_without_slash(char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    return path;
}

static bool mount_take_shared(const struct mount *m, const char *below, struct shared_dir *ret)
{
    const struct network_fs *fs = m->type && m->source ? network_fs_find(m->type) : NULL;
    const char *exported;

    if (!fs || !source_is_named(fs, m->source))
        return false;
    _cleanup_(freep) char *source = source_split(fs, m->source, &exported);
    _cleanup_(freep) char *top = path_without_slash(xstrdup(exported));
    _cleanup_(freep) char *inside = mount_path_join(m->root, below);
    *ret = (struct shared_dir){.source = TAKE_PTR(source),
                               .fstype = xstrdup(fs->name),
                               .root = path_without_slash(mount_path_join(top, inside))};
    return true;
}

bool shared_dir_find(const char *mounts, size_t size, const char *path, struct shared_dir *ret)
{
    _cleanup_(mount_done) struct mount m = {0};

    *ret = (struct shared_dir){0};
    return mounts_cover(mounts, size, path, &m) &&
           mount_take_shared(&m, mount_path_below(path, m.point), ret);
}

/* -- Reading ------------------------------------------------------------------------------------------- */

char *shared_dir_resolve(const char *path)
{
    char resolved[PATH_MAX];
    _cleanup_(freep) char *at = xstrdup(path);
    const char *rest = "";

    if (at[0] != '/')
        return NULL;
    while (!realpath(at, resolved)) {
        char *slash = strrchr(at, '/');
        if (slash == at)
            return xstrdup(path);
        *slash = '\0';
        rest = path + (slash - at);
    }
    return mount_path_join(resolved, rest);
}

bool shared_dir_read(const char *local_dir, pid_t pid, const char *dir, struct shared_dir *ret)
{
    const bool through_proc = starts_with(local_dir, "/proc/");
    _cleanup_(freep) char *mounts = NULL, *path = NULL;
    size_t size;

    *ret = (struct shared_dir){0};
    if (through_proc)
        path = pid > 0 && dir && dir[0] == '/' ? xstrdup(dir) : NULL;
    else
        path = shared_dir_resolve(local_dir);
    return path &&
           process_read(through_proc ? pid : getpid(), "mountinfo", MOUNTS_SIZE_MAX, &mounts, &size) == 0 &&
           shared_dir_find(mounts, size, path, ret);
}
