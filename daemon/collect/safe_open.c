/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/safe_open.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/network_fs.h"
#include "base/process_info.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#define LINKS_MAX     40
#define FD_PATH_MAX   40
#define BENEATH_PLAIN (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

static bool safe_is_link(int dir_fd, const char *name)
{
    struct stat st;
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

/* The equivalent of openat2() for kernels and filters without it: every component is opened by itself, and none
 * that is a link. */
static int safe_open_step_by_step(int dir_fd, const char *path, int flags)
{
    _cleanup_(closep) int fd = -1;
    char rest[PATH_MAX], name[NAME_MAX + 1];
    int at = dir_fd;

    if (path[0] == '/')
        return -EXDEV;
    if (snprintf(rest, sizeof(rest), "%s", path) >= (int)sizeof(rest))
        return -ENAMETOOLONG;
    do {
        int r = path_take_component(rest, name);
        if (r < 0)
            return r;
        if (streq(name, ".."))
            return -EXDEV;
        int next = openat(at, name, O_CLOEXEC | O_NOFOLLOW | (rest[0] ? O_PATH | O_DIRECTORY : flags));
        if (next < 0)
            return errno == ENOTDIR && safe_is_link(at, name) ? -ELOOP : -errno;
        closep(&fd);
        at = fd = next;
    } while (rest[0]);
    return TAKE_FD(fd);
}

static int safe_open_beneath(int dir_fd, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC), .resolve = BENEATH_PLAIN};
    int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

    if (fd < 0 && errno == ENOSYS)
        return safe_open_step_by_step(dir_fd, path, flags);
    return fd < 0 ? -errno : fd;
}

/* -- Resolving a path -- */

struct path_walk {
    size_t n_anchor;   /* length of "/proc/7/root", another process's view; 0: none */
    char at[PATH_MAX]; /* walked so far, without links, no slash at its end */
    char rest[PATH_MAX];
    unsigned n_links;
    bool crosses_link;    /* another user's */
    bool crosses_several; /* links of more than one other user */
    uid_t link_owner;
};

static size_t path_anchor_length(const char *path)
{
    static const char proc[] = "/proc/", root[] = "/root";
    const char *p = path + strlen(proc);

    if (!starts_with(path, proc) || !isdigit((unsigned char)*p))
        return 0;
    p += strspn(p, "0123456789");
    size_t n = (size_t)(p - path) + strlen(root);
    return starts_with(p, root) && (path[n] == '/' || path[n] == '\0') ? n : 0;
}

int path_process_started(const char *path, int64_t *ret)
{
    struct process_stat stat;

    *ret = RECORD_NONE;
    if (path_anchor_length(path) == 0)
        return 0;
    int r = process_stat_read((pid_t)strtol(path + strlen("/proc/"), NULL, 10), &stat);
    if (r >= 0)
        *ret = (int64_t)stat.started;
    return r;
}

static void walk_up(struct path_walk *w)
{
    char *slash = strrchr(w->at, '/');

    if (slash && (size_t)(slash - w->at) >= w->n_anchor)
        *slash = '\0';
}

/* w->at is a link: its target is prepended to the rest of the path. */
static int walk_link(struct path_walk *w, const struct stat *st)
{
    char target[PATH_MAX], longer[PATH_MAX];
    ssize_t n = readlink(w->at, target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    if (++w->n_links > LINKS_MAX)
        return -ELOOP;
    if (snprintf(longer, sizeof(longer), "%s/%s", target, w->rest) >= (int)sizeof(longer))
        return -ENAMETOOLONG;
    if (st->st_uid != 0 && st->st_uid != geteuid()) {
        w->crosses_several = w->crosses_several || (w->crosses_link && w->link_owner != st->st_uid);
        w->crosses_link = true;
        w->link_owner = st->st_uid;
    }
    strcpy(w->rest, longer);
    if (target[0] == '/')
        w->at[w->n_anchor] = '\0';
    else
        walk_up(w);
    return 0;
}

static int walk_component(struct path_walk *w, const char *name)
{
    size_t length = strlen(w->at);
    struct stat st;

    if (streq(name, "."))
        return 0;
    if (streq(name, "..")) {
        walk_up(w);
        return 0;
    }
    if (snprintf(w->at + length, sizeof(w->at) - length, "/%s", name) >= (int)(sizeof(w->at) - length))
        return -ENAMETOOLONG;
    /* A component that does not exist yet is no link either, until it does. */
    if (lstat(w->at, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    return S_ISLNK(st.st_mode) ? walk_link(w, &st) : 0;
}

static int walk_path(struct path_walk *w, const char *path)
{
    char name[NAME_MAX + 1];
    int r;

    w->n_anchor = path_anchor_length(path);
    if (strlen(path) >= PATH_MAX)
        return -ENAMETOOLONG;
    snprintf(w->at, sizeof(w->at), "%.*s", (int)w->n_anchor, path);
    strcpy(w->rest, path + w->n_anchor);
    while ((r = path_take_component(w->rest, name)) == 0 && name[0])
        if ((r = walk_component(w, name)) < 0)
            break;
    return r;
}

/* A process that has the same start time before and after had the number in between. */
static int walk_open_anchor(const struct path_walk *w, int64_t *ret_process_started)
{
    _cleanup_(freep) char *anchor = w->n_anchor ? xstrndup(w->at, w->n_anchor) : xstrdup("/");
    int64_t after;

    int r = path_process_started(anchor, ret_process_started);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = open(anchor, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    r = path_process_started(anchor, &after);
    if (r < 0 || after != *ret_process_started)
        return r < 0 ? r : -ESRCH;
    return TAKE_FD(fd);
}

static int location_refuse(char **ret_refusal, char *take_refusal)
{
    *ret_refusal = take_refusal;
    return -ELOOP;
}

/* The path must lead where it led to before. */
static int location_check(const char *path, const char *real, int64_t process_started,
                          struct dir_location *location, char **ret_refusal)
{
    if (!location->real) {
        location->real = xstrdup(real);
        location->process_started = process_started;
        return 0;
    }
    if (!streq(location->real, real))
        return location_refuse(ret_refusal,
                               xasprintf("%s was swapped: by a symbolic link it leads to %s instead of %s: "
                                         "nothing in it is collected",
                                         path, real, location->real));
    if (location->process_started != process_started)
        return location_refuse(
            ret_refusal, xasprintf("%s is another directory: the process that it belonged to has ended, "
                                   "and its number is another process's: nothing in it is collected",
                                   path));
    return 0;
}

static int location_check_link_owner(const char *path, const struct path_walk *w, int fd, char **ret_refusal)
{
    struct stat st;

    if (!w->crosses_link)
        return 0;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!w->crosses_several && st.st_uid == w->link_owner)
        return 0;
    return location_refuse(ret_refusal,
                           xasprintf("%s is reached by a symbolic link of uid %u, and belongs to uid %u: "
                                     "nothing in it is collected",
                                     path, w->link_owner, st.st_uid));
}

/* Another host named it; on a disk of this host the name is another directory's. */
static int location_check_network(const char *path, int fd, char **ret_refusal)
{
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return -errno;
    const unsigned long type = (unsigned int)fs.f_type;
    if (type == FUSE_SUPER_MAGIC || network_fs_name(type))
        return 0;
    return location_refuse(
        ret_refusal, xasprintf("%s was on a file system that hosts share, and is on a disk of this host: "
                               "nothing in it is collected",
                               path));
}

int safe_open_dir(const char *path, struct dir_location *location, char **ret_refusal)
{
    _cleanup_(freep) struct path_walk *w = xcalloc(1, sizeof(*w));
    int64_t process_started;

    int r = walk_path(w, path);
    if (r < 0)
        return r;
    _cleanup_(closep) int anchor_fd = walk_open_anchor(w, &process_started);
    if (anchor_fd < 0)
        return anchor_fd;
    r = location_check(path, w->at[0] ? w->at : "/", process_started, location, ret_refusal);
    if (r < 0)
        return r;
    /* Without a link between the anchor and the end, whatever was put there since it was walked. */
    const char *below = w->at + w->n_anchor;
    _cleanup_(closep) int fd =
        safe_open_beneath(anchor_fd, below[0] ? below + 1 : ".", O_RDONLY | O_DIRECTORY);
    if (fd == -ELOOP || fd == -EXDEV)
        return location_refuse(ret_refusal,
                               xasprintf("%s is a symbolic link at times: nothing in it is collected", path));
    if (fd < 0)
        return fd;
    r = location_check_link_owner(path, w, fd, ret_refusal);
    if (r == 0 && location->on_network)
        r = location_check_network(path, fd, ret_refusal);
    return r < 0 ? r : TAKE_FD(fd);
}

int safe_open_dir_beneath(int dir_fd, const char *name)
{
    return safe_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

void location_copy(const struct dir_location *from, struct dir_location *to)
{
    *to = (struct dir_location){.real = xstrdup(from->real),
                                .process_started = from->process_started,
                                .on_network = from->on_network};
}

void location_below(const struct dir_location *from, const char *below, struct dir_location *to)
{
    *to = (struct dir_location){.real = from->real ? xasprintf("%s/%s", from->real, below) : NULL,
                                .process_started = from->process_started,
                                .on_network = from->on_network};
}

void location_done(struct dir_location *l)
{
    free(l->real);
    *l = (struct dir_location){0};
}

/* -- Files -- */

static const struct {
    mode_t type;
    int err;
    const char *name;
} irregular_kinds[] = {
    {S_IFLNK, -ELOOP, "a symbolic link"}, {S_IFIFO, -EINVAL, "a named pipe"},
    {S_IFDIR, -EINVAL, "a directory"},    {S_IFCHR, -EINVAL, "a device"},
    {S_IFBLK, -EINVAL, "a device"},       {S_IFSOCK, -EINVAL, "a socket"},
};

const char *file_kind(mode_t mode, int *ret_error)
{
    for (size_t i = 0; i < ARRAY_SIZE(irregular_kinds); i++)
        if ((mode & S_IFMT) == irregular_kinds[i].type) {
            *ret_error = irregular_kinds[i].err;
            return irregular_kinds[i].name;
        }
    return NULL;
}

int safe_open_file(int dir_fd, const char *name, struct stat *ret_st, const char **ret_kind)
{
    char path[FD_PATH_MAX];
    struct stat st;
    int error;

    /* Opening a device, or a pipe, would affect it; a name with a slash would be a path. */
    if (strchr(name, '/'))
        return -EINVAL;
    _cleanup_(closep) int path_fd = safe_open_beneath(dir_fd, name, O_PATH | O_NOFOLLOW);
    if (path_fd < 0)
        return path_fd;
    if (fstat(path_fd, &st) < 0)
        return -errno;
    const char *kind = file_kind(st.st_mode, &error);
    if (kind) {
        *ret_kind = kind;
        return error;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    *ret_st = st;
    return fd;
}

/* Compressed blocks of a file system take little space, and are no holes. */
int64_t file_holes(int fd, const struct stat *st)
{
    int64_t holes = 0;
    off_t at = 0;

    if ((int64_t)st->st_blocks * STAT_BLOCK_BYTES >= st->st_size)
        return 0;
    while (holes <= FILE_HOLES_MAX && at < st->st_size) {
        off_t hole = lseek(fd, at, SEEK_HOLE);
        if (hole < 0 || hole >= st->st_size)
            break;
        off_t data = lseek(fd, hole, SEEK_DATA);
        at = data < 0 ? st->st_size : data;
        holes += at - hole;
    }
    lseek(fd, 0, SEEK_SET);
    return holes;
}

/* -- References -- */

void reference_of(const struct trace_record *t, struct file_reference *ret)
{
    *ret = (struct file_reference){.path = xstrdup(t->path),
                                   .in_store = t->stored,
                                   .owner_uid = t->owner_uid,
                                   .process_started = t->process_started,
                                   .device = t->device,
                                   .inode = t->inode,
                                   .size = t->size,
                                   .recorded_at = t->recorded_at};
}

void reference_of_stored(const char *path, struct file_reference *ret)
{
    *ret = (struct file_reference){.path = xstrdup(path), .in_store = true, .process_started = RECORD_NONE};
}

void reference_done(struct file_reference *r)
{
    free(r->path);
    *r = (struct file_reference){0};
}

int reference_open_new(const char *path, struct stat *ret_st, int64_t *ret_process_started)
{
    int64_t before, after;

    int r = path_process_started(path, &before);
    _cleanup_(closep) int fd = r < 0 ? r : open_regular(AT_FDCWD, path, ret_st);
    if (fd < 0)
        return fd;
    r = path_process_started(path, &after);
    if (r < 0 || before != after)
        return r < 0 ? r : -ESTALE;
    *ret_process_started = before;
    return TAKE_FD(fd);
}

static bool reference_is_same(const struct file_reference *r, const struct stat *st, int64_t process_started)
{
    if (r->in_store)
        return true;
    if (r->owner_uid != (int64_t)st->st_uid)
        return false;
    if (process_started == RECORD_NONE)
        return true;
    return r->process_started == process_started && r->device == (int64_t)st->st_dev &&
           r->inode == (int64_t)st->st_ino && r->size == st->st_size &&
           r->recorded_at == st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec;
}

int reference_open(const struct file_reference *r, struct stat *ret_st)
{
    int64_t process_started;

    _cleanup_(closep) int fd = reference_open_new(r->path, ret_st, &process_started);
    if (fd < 0)
        return fd;
    return reference_is_same(r, ret_st, process_started) ? TAKE_FD(fd) : -ESTALE;
}
