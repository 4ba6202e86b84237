/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/place.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/process_info.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#define LINKS_MAX     40
#define FD_PATH_MAX   40
#define BENEATH_PLAIN (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

static bool is_link(int dir_fd, const char *name)
{
    struct stat st;
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

/* What openat2() does in one call, for kernels and filters that have none: every component on the way is
 * opened by itself, and none that is a link. */
static int open_step_by_step(int dir_fd, const char *path, int flags)
{
    _cleanup_(closep) int fd = -1;
    int at = dir_fd;

    for (const char *p = path;;) {
        char name[NAME_MAX + 1];
        size_t n = strcspn(p, "/");
        bool last = p[n + strspn(p + n, "/")] == '\0';
        if (n > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(name, p, n);
        name[n] = '\0';
        if (path[0] == '/' || streq(name, ".."))
            return -EXDEV;
        int next = openat(at, name, O_CLOEXEC | O_NOFOLLOW | (last ? flags : O_PATH | O_DIRECTORY));
        if (next < 0)
            return errno == ENOTDIR && is_link(at, name) ? -ELOOP : -errno;
        closep(&fd);
        at = fd = next;
        if (last)
            return TAKE_FD(fd);
        p += n + strspn(p + n, "/");
    }
}

static int open_beneath(int dir_fd, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC), .resolve = BENEATH_PLAIN};
    int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

    if (fd < 0 && errno == ENOSYS)
        return open_step_by_step(dir_fd, path, flags);
    return fd < 0 ? -errno : fd;
}

/* -- The way ------------------------------------------------------------------------------------------ */

struct way {
    size_t n_anchor;   /* of path: "/proc/7/root", another process's view, or nothing */
    char at[PATH_MAX]; /* walked so far, without links, no slash at its end */
    char rest[PATH_MAX];
    unsigned n_links;
    bool led; /* by another user's link */
    bool led_by_many;
    uid_t leader;
};

static size_t anchor_length(const char *path)
{
    static const char proc[] = "/proc/", root[] = "/root";
    const char *p = path + strlen(proc);

    if (!starts_with(path, proc) || !isdigit((unsigned char)*p))
        return 0;
    p += strspn(p, "0123456789");
    size_t n = (size_t)(p - path) + strlen(root);
    return starts_with(p, root) && (path[n] == '/' || path[n] == '\0') ? n : 0;
}

int place_process_started(const char *path, int64_t *ret)
{
    struct process_stat stat;

    *ret = RECORD_NONE;
    if (anchor_length(path) == 0)
        return 0;
    int r = process_stat_read((pid_t)strtol(path + strlen("/proc/"), NULL, 10), &stat);
    if (r >= 0)
        *ret = (int64_t)stat.started;
    return r;
}

static int append(struct way *w, const char *name, size_t n)
{
    size_t have = strlen(w->at);

    if (have + 1 + n >= sizeof(w->at))
        return -ENAMETOOLONG;
    snprintf(w->at + have, sizeof(w->at) - have, "/%.*s", (int)n, name);
    return 0;
}

static void go_up(struct way *w)
{
    char *slash = strrchr(w->at, '/');

    if (slash && (size_t)(slash - w->at) >= w->n_anchor)
        *slash = '\0';
}

static void note_leader(struct way *w, uid_t uid)
{
    if (uid == 0 || uid == geteuid())
        return;
    w->led_by_many = w->led_by_many || (w->led && w->leader != uid);
    w->led = true;
    w->leader = uid;
}

/* w->at is a link: what it says goes before the rest of the way. */
static int follow(struct way *w, const struct stat *st)
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
    note_leader(w, st->st_uid);
    strcpy(w->rest, longer);
    if (target[0] == '/')
        w->at[w->n_anchor] = '\0';
    else
        go_up(w);
    return 0;
}

static int step(struct way *w, const char *name, size_t n)
{
    struct stat st;

    if (n == 1 && name[0] == '.')
        return 0;
    if (n == 2 && name[0] == '.' && name[1] == '.') {
        go_up(w);
        return 0;
    }
    int r = append(w, name, n);
    /* What is not there yet is no link either, until it is. */
    if (r < 0 || lstat(w->at, &st) < 0)
        return r < 0 ? r : errno == ENOENT ? 0 : -errno;
    return S_ISLNK(st.st_mode) ? follow(w, &st) : 0;
}

static int walk(struct way *w, const char *path)
{
    w->n_anchor = anchor_length(path);
    if (strlen(path) >= PATH_MAX)
        return -ENAMETOOLONG;
    snprintf(w->at, sizeof(w->at), "%.*s", (int)w->n_anchor, path);
    strcpy(w->rest, path + w->n_anchor);
    for (;;) {
        char name[NAME_MAX + 1];
        const char *p = w->rest + strspn(w->rest, "/");
        size_t n = strcspn(p, "/");
        if (n == 0)
            return 0;
        if (n > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(name, p, n);
        name[n] = '\0';
        memmove(w->rest, p + n, strlen(p + n) + 1);
        int r = step(w, name, n);
        if (r < 0)
            return r;
    }
}

/* Whichever process was asked for at both times had the number in between. */
static int open_anchor(const struct way *w, int64_t *ret_process_started)
{
    _cleanup_(freep) char *anchor = w->n_anchor ? xstrndup(w->at, w->n_anchor) : xstrdup("/");
    int64_t after;

    int r = place_process_started(anchor, ret_process_started);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = open(anchor, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    r = place_process_started(anchor, &after);
    if (r < 0 || after != *ret_process_started)
        return r < 0 ? r : -ESRCH;
    return TAKE_FD(fd);
}

/* Without a link between the anchor and its end, whatever was put there since it was walked. */
static int open_way(const struct way *w, int anchor_fd)
{
    const char *below = w->at + w->n_anchor;
    return open_beneath(anchor_fd, below[0] ? below + 1 : ".", O_RDONLY | O_DIRECTORY);
}

/* -- Directories -------------------------------------------------------------------------------------- */

static int refuse(char **ret_refusal, char *refusal)
{
    *ret_refusal = refusal;
    return -ELOOP;
}

static int check_leader(const char *path, const struct way *w, int fd, char **ret_refusal)
{
    struct stat st;

    if (!w->led)
        return 0;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!w->led_by_many && st.st_uid == w->leader)
        return 0;
    return refuse(ret_refusal, xasprintf("%s is reached by a symbolic link of uid %u, and belongs to uid %u: "
                                         "nothing in it is collected",
                                         path, w->leader, st.st_uid));
}

/* Where the way leads to must be where it led to before. */
static int check_place(const char *path, const char *to, int64_t process_started, struct place *at,
                       char **ret_refusal)
{
    if (!at->real) {
        at->real = xstrdup(to);
        at->process_started = process_started;
        return 0;
    }
    if (!streq(at->real, to))
        return refuse(ret_refusal,
                      xasprintf("%s was swapped: by a symbolic link it leads to %s instead of %s: "
                                "nothing in it is collected",
                                path, to, at->real));
    if (at->process_started != process_started)
        return refuse(ret_refusal,
                      xasprintf("%s is another directory: the process whose it was has ended, and another "
                                "one has its number: nothing in it is collected",
                                path));
    return 0;
}

int place_open(const char *path, struct place *at, char **ret_refusal)
{
    _cleanup_(freep) struct way *w = xcalloc(1, sizeof(*w));
    int64_t process_started;

    int r = walk(w, path);
    if (r < 0)
        return r;
    _cleanup_(closep) int anchor_fd = open_anchor(w, &process_started);
    if (anchor_fd < 0)
        return anchor_fd;
    r = check_place(path, w->at[0] ? w->at : "/", process_started, at, ret_refusal);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = open_way(w, anchor_fd);
    if (fd == -ELOOP || fd == -EXDEV)
        return refuse(ret_refusal,
                      xasprintf("%s is a symbolic link at times: nothing in it is collected", path));
    if (fd < 0)
        return fd;
    r = check_leader(path, w, fd, ret_refusal);
    return r < 0 ? r : TAKE_FD(fd);
}

void place_copy(const struct place *from, struct place *to)
{
    *to = (struct place){.real = xstrdup(from->real), .process_started = from->process_started};
}

void place_done(struct place *p)
{
    free(p->real);
    *p = (struct place){0};
}

/* -- Files -------------------------------------------------------------------------------------------- */

static const struct {
    mode_t type;
    int err;
    const char *what;
} no_files[] = {
    {S_IFLNK, -ELOOP, "a symbolic link"}, {S_IFIFO, -EINVAL, "a named pipe"},
    {S_IFDIR, -EINVAL, "a directory"},    {S_IFCHR, -EINVAL, "a device"},
    {S_IFBLK, -EINVAL, "a device"},       {S_IFSOCK, -EINVAL, "a socket"},
};

static int find_kind(mode_t mode)
{
    for (int i = 0; i < (int)ARRAY_SIZE(no_files); i++)
        if ((mode & S_IFMT) == no_files[i].type)
            return i;
    return -1;
}

const char *place_describe(mode_t mode)
{
    int kind = find_kind(mode);
    return kind >= 0 ? no_files[kind].what : NULL;
}

int place_open_file(int dir_fd, const char *name, struct stat *ret_st, const char **ret_what)
{
    char path[FD_PATH_MAX];
    struct stat st;

    /* Opening a device, or a pipe, would do something to it; so would a name that is more than one. */
    if (strchr(name, '/'))
        return -EINVAL;
    _cleanup_(closep) int looked = open_beneath(dir_fd, name, O_PATH | O_NOFOLLOW);
    if (looked < 0)
        return looked;
    if (fstat(looked, &st) < 0)
        return -errno;
    int kind = find_kind(st.st_mode);
    if (kind >= 0) {
        *ret_what = no_files[kind].what;
        return no_files[kind].err;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", looked);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    *ret_st = st;
    return fd;
}

/* What a file system compresses takes little room, and is no hole. */
int64_t place_holes(int fd, const struct stat *st)
{
    int64_t holes = 0;
    off_t at = 0;

    if ((int64_t)st->st_blocks * STAT_BLOCK_BYTES >= st->st_size)
        return 0;
    while (holes <= PLACE_HOLES_MAX && at < st->st_size) {
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
