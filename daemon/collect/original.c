/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes a worker's file after its copy is safe, and no other file, whatever the worker puts under its name or
 * in the place of its directory meanwhile. On a thread of the offload.
 *
 * The directory is opened at the location where the file was copied (safe_open.h), and the file is removed
 * beneath it. A profd of root does this with the rights of the file's owner: what they do not permit fails. The
 * file is first renamed to a name that nobody else uses, so that the file that is compared is the one that is
 * removed; another file gets its name back.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/collect/pipeline.h"
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

/* The worker's file. */
struct original {
    char *dir_path, *name;
    struct dir_location location; /* of the directory, when the file was opened */
    int64_t size, mtime_ns;
    struct stat st;
    char *left_as; /* set where another file, renamed instead of this one, could not get its name back */
    char *refusal; /* of safe_open_dir() */
    int err;       /* 0: it is gone; -ESTALE: its name is another file's, which stays */
};

/* -- The owner's rights -- */

/* Of the calling thread, before it took the owner's. */
struct thread_rights {
    bool changed;
    gid_t groups[NGROUPS_MAX];
    int n_groups;
};

/* Not setgroups(): that of libc changes all threads. */
static int rights_set_groups(int n, const gid_t *groups)
{
    return (int)syscall(SYS_setgroups, n, groups);
}

/* Also ends the capabilities by which root passes over the permissions of files. -EPERM for a root who may
 * not change users. */
static int rights_take(const struct original *o, struct thread_rights *before)
{
    if (geteuid() != 0 || o->st.st_uid == 0)
        return 0;
    before->n_groups = getgroups(NGROUPS_MAX, before->groups);
    before->changed = before->n_groups >= 0 && rights_set_groups(0, NULL) == 0;
    if (!before->changed)
        return -EPERM;
    setfsgid(o->st.st_gid);
    setfsuid(o->st.st_uid);
    /* Neither reports an error; an invalid id changes nothing and shows the present one. */
    return setfsgid((gid_t)-1) == (int)o->st.st_gid && setfsuid((uid_t)-1) == (int)o->st.st_uid ? 0 : -EPERM;
}

static void rights_give_back(const struct thread_rights *before)
{
    if (!before->changed)
        return;
    setfsuid(geteuid());
    setfsgid(getegid());
    rights_set_groups(before->n_groups, before->groups);
}

/* -- The file -- */

static int original_compare(const struct original *o, int dir_fd, const char *name)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    bool same = S_ISREG(st.st_mode) && st.st_dev == o->st.st_dev && st.st_ino == o->st.st_ino &&
                st.st_size == o->size && st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec == o->mtime_ns;
    return same ? 0 : -ESTALE;
}

static int original_unlink(int dir_fd, const char *name)
{
    return unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
}

static int original_rename(int dir_fd, const char *from, const char *to)
{
    return renameat2(dir_fd, from, dir_fd, to, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

static int original_remove_beneath(struct original *o, int dir_fd)
{
    char private[PRIVATE_NAME_MAX];
    uint64_t number;

    int r = original_compare(o, dir_fd, o->name);
    if (r < 0)
        return r;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        return -EIO;
    snprintf(private, sizeof(private), PRIVATE_PREFIX "%016" PRIx64, number);
    r = original_rename(dir_fd, o->name, private);
    /* A file system that cannot rename without replacing (NFS): between comparing and removing its users can
     * put another file of this directory in its place, and no other. */
    if (r == -EINVAL || r == -ENOSYS)
        return original_unlink(dir_fd, o->name);
    if (r < 0)
        return r;
    r = original_compare(o, dir_fd, private);
    if (r == 0)
        r = original_unlink(dir_fd, private);
    if (r == 0 || r == -ENOENT)
        return 0;
    if (original_rename(dir_fd, private, o->name) < 0)
        o->left_as = xstrdup(private);
    return r;
}

static void original_remove_work(void *arg)
{
    struct original *o = arg;
    _cleanup_(freep) struct thread_rights *before = xcalloc(1, sizeof(*before));
    /* Profd alone may be able to reach the directory: /proc/PID/root. */
    _cleanup_(closep) int dir_fd = safe_open_dir(o->dir_path, &o->location, &o->refusal);

    o->err = MIN(dir_fd, 0);
    if (o->err == 0) {
        o->err = rights_take(o, before);
        if (o->err == 0)
            o->err = original_remove_beneath(o, dir_fd);
        rights_give_back(before);
    }
    o->err = o->err == -ENOENT ? 0 : o->err;
}

/* That a worker wrote another file in the meantime is nothing to report. */
static void original_on_removed(void *arg)
{
    struct original *o = arg;

    if (o->refusal)
        log_warning("%s; %s, which was copied, stays there", o->refusal, o->name);
    else if (o->err < 0 && o->err != -ESTALE)
        log_warning("cannot remove %s/%s, which was copied: %s", o->dir_path, o->name, strerror(-o->err));
    if (o->left_as)
        log_warning("%s/%s was replaced by two files while it was removed: one of them is now named %s",
                    o->dir_path, o->name, o->left_as);
    free(o->dir_path);
    free(o->name);
    free(o->left_as);
    free(o->refusal);
    location_done(&o->location);
    free(o);
}

void original_remove(const struct import_job *job)
{
    struct original *o = xcalloc(1, sizeof(*o));

    *o = (struct original){.dir_path = xstrdup(job->dir_path),
                           .name = xstrdup(job->name),
                           .size = job->size,
                           .mtime_ns = job->mtime_ns,
                           .st = job->st};
    location_copy(&job->location, &o->location);
    offload_run_in(job->collector->offload, offload_queue_of_device(o->st.st_dev), original_remove_work,
                   original_on_removed, o);
}
