/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/process.h"

#include "base/alloc.h"
#include "base/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

/* Links that are followed, and times that one of them leads up. */
#define TURNS_MAX   40
#define FD_PATH_MAX 40

/* -- Rights ------------------------------------------------------------------------------------------- */

static int mode_allows(const struct process_status *user, const struct stat *st, unsigned bits)
{
    bool in_group = user->gid == st->st_gid;
    for (size_t i = 0; i < user->n_groups; i++)
        in_group |= user->groups[i] == st->st_gid;
    unsigned class = user->uid == st->st_uid ? st->st_mode >> 6 : in_group ? st->st_mode >> 3 : st->st_mode;
    return (class & bits) == bits;
}

/* An ACL may grant or deny anything to all users except the owner: the result is then unknown. */
int process_user_may(const struct process_status *user, const char *path, const struct stat *st,
                     unsigned bits)
{
    if (user->capabilities & (UINT64_C(1) << CAP_DAC_OVERRIDE))
        return 1;
    if (user->uid != st->st_uid && getxattr(path, "system.posix_acl_access", NULL, 0) > 0)
        return -1;
    int allowed = mode_allows(user, st, bits);
    return !allowed && user->groups_cut ? -1 : allowed;
}

/* -- The way ------------------------------------------------------------------------------------------ */

struct process_path_walk {
    int root_fd;
    const struct process_status *user;
    int fd;              /* of the directory that was reached, O_PATH */
    struct stat st;      /* of fd */
    char at[PATH_MAX];   /* its path without links; "" is the root */
    char rest[PATH_MAX]; /* of the way */
    unsigned n_turns;
    char *reason;
};

static int walk_refuse(struct process_path_walk *w, int error, char *take_reason)
{
    free(w->reason);
    w->reason = take_reason;
    return error;
}

static const char *walk_shown(const struct process_path_walk *w)
{
    return w->at[0] ? w->at : "/";
}

/* On a network file system, only its server decides about permissions. */
static int walk_check_search(struct process_path_walk *w)
{
    char path[FD_PATH_MAX];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", w->fd);
    if (process_user_may(w->user, path, &w->st, 1) != 0 || is_remote_fs(path))
        return 0;
    return walk_refuse(w, -EACCES, xasprintf("its user may not search %s", walk_shown(w)));
}

/* What lies in a directory that everybody may write to. With the sticky bit only its owner, that of the
 * directory and root replace it. */
static int walk_check_replaceable(struct process_path_walk *w, const char *name, const struct stat *st)
{
    bool is_owned = st->st_uid == 0 || st->st_uid == w->user->uid || st->st_uid == w->st.st_uid;

    if (!(w->st.st_mode & S_IWOTH) || (w->st.st_mode & S_ISVTX && is_owned))
        return 0;
    if (w->st.st_mode & S_ISVTX)
        return walk_refuse(w, -EPERM,
                           xasprintf("%s/%s belongs to uid %u, in a directory that everybody may write to",
                                     w->at, name, st->st_uid));
    return walk_refuse(w, -EPERM, xasprintf("everybody may replace what is in %s", walk_shown(w)));
}

static int walk_begin_at_root(struct process_path_walk *w)
{
    closep(&w->fd);
    w->at[0] = '\0';
    w->fd = openat(w->root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return w->fd < 0 || fstat(w->fd, &w->st) < 0 ? -errno : 0;
}

/* Before what is left of the way. */
static int walk_prepend(struct process_path_walk *w, const char *way)
{
    char longer[PATH_MAX];

    if (++w->n_turns > TURNS_MAX)
        return -ELOOP;
    if (snprintf(longer, sizeof(longer), "%s/%s", way, w->rest) >= (int)sizeof(longer))
        return -ENAMETOOLONG;
    strcpy(w->rest, longer);
    return 0;
}

/* From the root again: what ".." of an open directory is may have changed meanwhile. */
static int walk_go_up(struct process_path_walk *w)
{
    char above[PATH_MAX];
    const char *slash = strrchr(w->at, '/');

    snprintf(above, sizeof(above), "%.*s", slash ? (int)(slash - w->at) : 0, w->at);
    int r = walk_prepend(w, above);
    return r < 0 ? r : walk_begin_at_root(w);
}

/* Links of /proc lead where only the kernel knows. */
static int walk_follow_link(struct process_path_walk *w, int link_fd)
{
    char target[PATH_MAX];
    struct statfs fs;
    ssize_t n = readlinkat(link_fd, "", target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    if (fstatfs(link_fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC)
        return -ELOOP;
    int r = walk_prepend(w, target);
    return r < 0 || target[0] != '/' ? r : walk_begin_at_root(w);
}

static int walk_one_step(struct process_path_walk *w, const char *name)
{
    struct stat st;

    if (streq(name, "."))
        return 0;
    if (streq(name, ".."))
        return walk_go_up(w);
    int r = walk_check_search(w);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    r = walk_check_replaceable(w, name, &st);
    if (r < 0)
        return r;
    if (S_ISLNK(st.st_mode))
        return walk_follow_link(w, fd);
    size_t have = strlen(w->at);
    if (snprintf(w->at + have, sizeof(w->at) - have, "/%s", name) >= (int)(sizeof(w->at) - have))
        return -ENAMETOOLONG;
    closep(&w->fd);
    w->fd = TAKE_FD(fd);
    w->st = st;
    return 0;
}

static int walk_to_end(struct process_path_walk *w)
{
    char name[NAME_MAX + 1];
    int r = walk_begin_at_root(w);

    while (r == 0 && (r = path_take_component(w->rest, name)) == 0 && name[0])
        r = walk_one_step(w, name);
    return r;
}

int process_walk(int root_fd, const char *path, const struct process_status *user, char **ret_reason)
{
    if (strlen(path) >= PATH_MAX)
        return -ENAMETOOLONG;
    _cleanup_(freep) struct process_path_walk *w = xcalloc(1, sizeof(*w));
    w->root_fd = root_fd;
    w->user = user;
    w->fd = -1;
    strcpy(w->rest, path);
    int r = walk_to_end(w);
    *ret_reason = w->reason;
    if (r < 0)
        closep(&w->fd);
    return r < 0 ? r : w->fd;
}

/* -- Files -- */

#define PROC_PATH_MAX 64

/* The kernel generates these files for the process that reads them, independent of their modes. */
static bool is_made_for_reader(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC;
}

/* Only a regular file, and only one that the process's user could read too, and not everybody write. */
static int process_read_opened(const struct process_status *user, int path_fd, size_t max,
                               struct process_file *ret)
{
    char link[PROC_PATH_MAX];
    struct stat st;

    if (fstat(path_fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
    if (process_user_may(user, link, &st, 4) == 0) {
        ret->refusal = xstrdup("its user may not read it");
        return -EACCES;
    }
    if (st.st_mode & S_IWOTH) {
        ret->refusal = xstrdup("everybody may write to it");
        return -EPERM;
    }
    if (is_made_for_reader(path_fd)) {
        ret->refusal = xstrdup("its content depends on who reads it");
        return -EPERM;
    }
    return read_file(AT_FDCWD, link, max, &ret->data, &ret->size);
}

int process_read_file(pid_t pid, const char *path, size_t max, struct process_file *ret)
{
    struct process_status user;
    char link[PROC_PATH_MAX];
    int r = process_status_read(pid, &user);

    *ret = (struct process_file){0};
    if (r < 0)
        return r;
    if (!process_same_user_namespace(pid))
        user.capabilities = 0;
    snprintf(link, sizeof(link), "/proc/%d/root", (int)pid);
    _cleanup_(closep) int root_fd = open(link, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(freep) char *local = root_fd < 0 ? process_translate_by_mounts(pid, path) : NULL;
    if (root_fd < 0 && local)
        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return -ENOENT;
    _cleanup_(closep) int fd = process_walk(root_fd, local ? local : path, &user, &ret->refusal);
    return fd < 0 ? fd : process_read_opened(&user, fd, max, ret);
}

void process_file_done(struct process_file *f)
{
    free(f->data);
    free(f->refusal);
    *f = (struct process_file){0};
}
