/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/original.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/fsuid.h>
#include <sys/random.h>
#include <sys/syscall.h>

#define PRIVATE_PREFIX   ".profd-removed-"
#define PRIVATE_NAME_MAX 40

/* -- The owner's rights ------------------------------------------------------------------------------- */

/* Of the calling thread, before it took the owner's. */
struct rights {
    bool changed;
    gid_t groups[NGROUPS_MAX];
    int n_groups;
};

/* Not setgroups(): that of libc changes all threads. */
static int set_groups(int n, const gid_t *groups)
{
    return (int)syscall(SYS_setgroups, n, groups);
}

/* Also ends the capabilities by which root passes over the permissions of files. -EPERM for a root who may
 * not change users. */
static int take_rights(const struct original *o, struct rights *before)
{
    if (geteuid() != 0 || o->uid == 0)
        return 0;
    before->n_groups = getgroups(NGROUPS_MAX, before->groups);
    before->changed = before->n_groups >= 0 && set_groups(0, NULL) == 0;
    if (!before->changed)
        return -EPERM;
    setfsgid(o->gid);
    setfsuid(o->uid);
    /* Neither reports an error; an invalid id changes nothing and shows the present one. */
    return setfsgid((gid_t)-1) == (int)o->gid && setfsuid((uid_t)-1) == (int)o->uid ? 0 : -EPERM;
}

static void give_back_rights(const struct rights *before)
{
    if (!before->changed)
        return;
    setfsuid(geteuid());
    setfsgid(getegid());
    set_groups(before->n_groups, before->groups);
}

/* -- The file ----------------------------------------------------------------------------------------- */

static int compare(const struct original *o, int dir_fd, const char *name)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    bool same = S_ISREG(st.st_mode) && st.st_dev == o->device && st.st_ino == o->inode &&
                st.st_size == o->size && st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec == o->mtime_ns;
    return same ? 0 : -ESTALE;
}

static int unlink_beneath(int dir_fd, const char *name)
{
    return unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
}

static int rename_beneath(int dir_fd, const char *from, const char *to)
{
    return renameat2(dir_fd, from, dir_fd, to, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

static int remove_beneath(struct original *o, int dir_fd)
{
    char private[PRIVATE_NAME_MAX];
    uint64_t number;

    int r = compare(o, dir_fd, o->name);
    if (r < 0)
        return r;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        return -EIO;
    snprintf(private, sizeof(private), PRIVATE_PREFIX "%016" PRIx64, number);
    r = rename_beneath(dir_fd, o->name, private);
    /* A file system that cannot rename without replacing (NFS): between comparing and removing its users can
     * put another file of this directory in its place, and no other. */
    if (r == -EINVAL || r == -ENOSYS)
        return unlink_beneath(dir_fd, o->name);
    if (r < 0)
        return r;
    r = compare(o, dir_fd, private);
    if (r == 0)
        r = unlink_beneath(dir_fd, private);
    if (r == 0 || r == -ENOENT)
        return 0;
    if (rename_beneath(dir_fd, private, o->name) < 0)
        o->left_as = xstrdup(private);
    return r;
}

int original_remove(struct original *o, char **ret_refusal)
{
    struct rights *before = xcalloc(1, sizeof(*before));

    /* The way to a directory may be one that profd alone can go: /proc/PID/root. */
    _cleanup_(closep) int dir_fd = place_open(o->dir_path, &o->place, ret_refusal);
    int r = MIN(dir_fd, 0);
    if (r == 0) {
        r = take_rights(o, before);
        if (r == 0)
            r = remove_beneath(o, dir_fd);
        give_back_rights(before);
    }
    free(before);
    return r == -ENOENT ? 0 : r;
}

void original_free(struct original *o)
{
    free(o->dir_path);
    free(o->name);
    free(o->left_as);
    place_done(&o->place);
    free(o);
}
