/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/kineto/socket.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/kineto/holder.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>

#define SOCKET_MODE 0666 /* the directory's mode decides who may use it */
#define DIR_MODE    0700
/* Of files that one sweep looks at. */
#define SWEEP_FILES_MAX 10000
/* A client binds its socket before it sends its first poll. */
#define SWEEP_AGE_S 60
#define UUID_BYTES  36

/* -- Addresses ------------------------------------------------------------------------------------------ */

/* The closing NUL is part of the name in both forms, as Endpoint.h counts it. */
static socklen_t socket_address(const char *dir, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = dir ? snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/" KINETO_SOCKET_NAME, dir)
                : 1 + snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, KINETO_SOCKET_NAME);

    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 1);
}

/* The name of a client's file in the directory; NULL where it is elsewhere. It comes from the client: nothing outside
 * of the directory is ever looked up. */
static const char *socket_client_file(const char *dir, const struct kineto_datagram *d)
{
    size_t n = strlen(dir), size = d->from_size - offsetof(struct sockaddr_un, sun_path);
    const char *path = d->from.sun_path;

    if (strnlen(path, size) <= n + 1 || strncmp(path, dir, n) != 0 || path[n] != '/')
        return NULL;
    const char *name = path + n + 1;
    return strchr(name, '/') || streq(name, ".") || streq(name, "..") || streq(name, KINETO_SOCKET_NAME)
               ? NULL
               : name;
}

bool kineto_socket_can_answer(const struct kineto_socket *s, const struct kineto_datagram *d)
{
    if (d->from_size <= offsetof(struct sockaddr_un, sun_path))
        return false;
    return s->dir ? socket_client_file(s->dir, d) != NULL : d->from.sun_path[0] == '\0';
}

/* A file by its descriptor, so that nobody can put another one in its place meanwhile: a link could lead to a file
 * system that does not answer. */
static socklen_t socket_address_of_fd(int fd, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d", fd);

    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 1);
}

/* -- Opening -------------------------------------------------------------------------------------------- */

char *kineto_dir_refusal(const char *dir, const struct stat *st, uid_t own_uid, char **ret_remedy)
{
    if (!S_ISDIR(st->st_mode)) {
        *ret_remedy = xasprintf("Name a directory in [kineto] listen=.");
        return xasprintf("%s is not a directory", dir);
    }
    if (st->st_uid != own_uid && st->st_uid != 0) {
        *ret_remedy = xasprintf("Let profd's user own the directory: its owner can replace the socket.");
        return xasprintf("%s belongs to user %u", dir, (unsigned)st->st_uid);
    }
    if ((st->st_mode & (S_IWGRP | S_IWOTH)) && !(st->st_mode & S_ISVTX)) {
        *ret_remedy = xasprintf(
            "Run chmod +t %s: without it, everybody who may write there can replace the socket.", dir);
        return xasprintf("%s is writable by others and has no sticky bit (mode %04o)", dir,
                         (unsigned)st->st_mode & 07777);
    }
    return NULL;
}

/* As kineto_dir_refusal(), also of the directories above: who can rename one of them can replace the socket, too. */
static char *socket_path_refusal(const char *dir, const struct stat *st, char **ret_remedy)
{
    _cleanup_(freep) char *above = xstrdup(dir);
    char *reason = kineto_dir_refusal(dir, st, geteuid(), ret_remedy);
    struct stat parent;

    for (char *slash = strrchr(above, '/'); slash && !reason; slash = strrchr(above, '/')) {
        *slash = '\0';
        const char *path = *above ? above : "/";
        if (lstat(path, &parent) < 0)
            return xasprintf("cannot look at %s: %s", path, strerror(errno));
        reason = kineto_dir_refusal(path, &parent, geteuid(), ret_remedy);
    }
    return reason;
}

static int socket_open_dir(const char *dir, int *ret_fd, struct problem *p)
{
    _cleanup_(freep) char *real = NULL, *remedy = NULL, *reason = NULL;
    _cleanup_(closep) int fd = -1;
    struct stat st;

    if (mkdir(dir, DIR_MODE) < 0 && errno != EEXIST) {
        int r = -errno;
        problem_remedy(p, "Create the directory, and let profd's user own it.");
        return problem_set(p, r, PROBLEM_STORAGE, "cannot create %s: %s", dir, strerror(-r));
    }
    fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    real = realpath(dir, NULL);
    if (real && !streq(real, dir)) {
        problem_remedy(p, "Write [kineto] listen=%s, and KINETO_IPC_SOCKET_DIR=%s for the processes.", real,
                       real);
        return problem_set(p, -ELOOP, PROBLEM_BAD_REQUEST, "%s leads through a symbolic link", dir);
    }
    if (fd < 0 || !real || fstat(fd, &st) < 0) {
        int r = -errno;
        return problem_set(p, r, PROBLEM_STORAGE, "cannot open %s: %s", dir, strerror(-r));
    }
    reason = socket_path_refusal(dir, &st, &remedy);
    if (reason) {
        if (remedy)
            problem_remedy(p, "%s", remedy);
        return problem_set(p, -EPERM, PROBLEM_DENIED, "%s", reason);
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Whether a process receives on the socket at the address: 0, or -ECONNREFUSED where nobody does. */
static int socket_probe(const struct sockaddr_un *address, socklen_t size)
{
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd < 0 || connect(fd, (const struct sockaddr *)address, size) < 0 ? -errno : 0;
}

/* A file that a daemon left when it ended is removed; one that a daemon listens on is not. */
static int socket_make_room(int dir_fd, const struct sockaddr_un *address, socklen_t size)
{
    struct stat st;

    if (fstatat(dir_fd, KINETO_SOCKET_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode))
        return -ENOTSOCK;
    int r = socket_probe(address, size);
    if (r == 0)
        return -EADDRINUSE;
    if (r != -ECONNREFUSED)
        return r;
    return unlinkat(dir_fd, KINETO_SOCKET_NAME, 0) < 0 ? -errno : 0;
}

static int socket_bind(struct kineto_socket *s, const struct sockaddr_un *address, socklen_t size)
{
    struct stat st;
    int on = 1;

    s->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Before the name exists: each datagram has them. */
    if (s->fd < 0 || setsockopt(s->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
        setsockopt(s->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) < 0)
        return -errno;
    if (bind(s->fd, (const struct sockaddr *)address, size) < 0)
        return -errno;
    if (!s->dir)
        return 0;
    if (fstatat(s->dir_fd, KINETO_SOCKET_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode) ||
        fchmodat(s->dir_fd, KINETO_SOCKET_NAME, SOCKET_MODE, 0) < 0)
        return -errno;
    s->device = st.st_dev;
    s->inode = st.st_ino;
    return 0;
}

static int socket_explain(const char *dir, int r, struct problem *p)
{
    if (r != -EADDRINUSE)
        return problem_set(p, r, PROBLEM_STORAGE, "cannot listen on %s%s: %s",
                           dir ? dir : "the abstract name ",
                           dir ? "/" KINETO_SOCKET_NAME : KINETO_SOCKET_NAME, strerror(-r));
    _cleanup_(freep) char *holder = kineto_holder(dir);
    problem_remedy(
        p, "Only one daemon can serve Kineto under a name: end the other one (dynolog, or the one that Ray's "
           "dashboard agent starts), or use a directory: [kineto] listen=DIR, and KINETO_IPC_SOCKET_DIR=DIR "
           "for the processes.");
    return problem_set(p, r, PROBLEM_BUSY, "%s%s is in use by %s", dir ? dir : "the abstract name ",
                       dir ? "/" KINETO_SOCKET_NAME : KINETO_SOCKET_NAME,
                       holder ? holder : "a process that profd cannot see");
}

int kineto_socket_open(const char *dir, struct kineto_socket *ret, struct problem *p)
{
    struct kineto_socket s = KINETO_SOCKET_CLOSED;
    struct sockaddr_un address;
    const socklen_t size = socket_address(dir, &address);

    s.dir = xstrdup(dir);
    int r = dir ? socket_open_dir(dir, &s.dir_fd, p) : 0;
    if (r >= 0) {
        r = dir ? socket_make_room(s.dir_fd, &address, size) : 0;
        if (r >= 0)
            r = socket_bind(&s, &address, size);
        if (r < 0)
            socket_explain(dir, r, p);
    }
    if (r < 0) {
        kineto_socket_close(&s);
        return r;
    }
    *ret = s;
    return 0;
}

bool kineto_socket_is_in(const char *dir, dev_t device, ino_t inode)
{
    _cleanup_(freep) char *path = xasprintf("%s/" KINETO_SOCKET_NAME, dir);
    struct stat st;

    return lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_dev == device && st.st_ino == inode;
}

void kineto_socket_close(struct kineto_socket *s)
{
    if (s->fd >= 0 && s->dir && kineto_socket_is_in(s->dir, s->device, s->inode))
        unlinkat(s->dir_fd, KINETO_SOCKET_NAME, 0);
    closep(&s->fd);
    closep(&s->dir_fd);
    free(s->dir);
    *s = KINETO_SOCKET_CLOSED;
}

/* -- Datagrams ------------------------------------------------------------------------------------------ */

static void socket_close_passed(const struct cmsghdr *c)
{
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

    for (size_t i = 0; i < n; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
        close(fd);
    }
}

/* What the kernel adds; whether both are there. */
static bool socket_take_control(struct msghdr *m, struct kineto_datagram *d)
{
    bool has_sender = false, has_time = false;
    struct timespec t;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len >= CMSG_LEN(sizeof(d->sender))) {
            memcpy(&d->sender, CMSG_DATA(c), sizeof(d->sender));
            has_sender = true;
        } else if (c->cmsg_type == SCM_TIMESTAMPNS && c->cmsg_len >= CMSG_LEN(sizeof(t))) {
            memcpy(&t, CMSG_DATA(c), sizeof(t));
            d->received_at = (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
            has_time = true;
        } else if (c->cmsg_type == SCM_RIGHTS) {
            socket_close_passed(c);
        }
    }
    return has_sender && has_time;
}

int kineto_socket_receive(const struct kineto_socket *s, struct kineto_datagram *ret)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(struct timespec)) + CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec iov = {ret->data, sizeof(ret->data)};
    struct msghdr m = {.msg_name = &ret->from,
                       .msg_namelen = sizeof(ret->from),
                       .msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};

    memset(&ret->from, 0, sizeof(ret->from));
    ssize_t n = recvmsg(s->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return -errno;
    bool is_complete = socket_take_control(&m, ret);
    ret->size = (size_t)n;
    ret->from_size = m.msg_namelen;
    if (m.msg_namelen > sizeof(ret->from) || (m.msg_flags & MSG_TRUNC))
        return -EBADMSG;
    return is_complete ? 0 : -EBADMSG;
}

/* The file of the sender, if it is a socket of the user who sent the poll. */
static int socket_open_client(const struct kineto_socket *s, const struct kineto_datagram *d)
{
    const char *name = socket_client_file(s->dir, d);
    struct stat st;

    if (!name)
        return -EADDRNOTAVAIL;
    int fd = openat(s->dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = fstat(fd, &st) < 0 ? -errno : S_ISSOCK(st.st_mode) && st.st_uid == d->sender.uid ? 0 : -EPERM;
    if (r < 0) {
        close(fd);
        return r;
    }
    return fd;
}

int kineto_socket_answer(const struct kineto_socket *s, const struct kineto_datagram *d,
                         enum kineto_message_type type, const void *payload, size_t size)
{
    _cleanup_(closep) int fd = -1;
    unsigned char head[KINETO_METADATA_BYTES];
    struct sockaddr_un to = d->from;
    socklen_t to_size = d->from_size;
    struct iovec iov[] = {{head, sizeof(head)}, {(void *)payload, size}};

    if (!kineto_socket_can_answer(s, d))
        return -EADDRNOTAVAIL;
    if (s->dir) {
        fd = socket_open_client(s, d);
        if (fd < 0)
            return fd;
        to_size = socket_address_of_fd(fd, &to);
    }
    kineto_answer_head(type, size, head);
    struct msghdr m = {
        .msg_name = &to, .msg_namelen = to_size, .msg_iov = iov, .msg_iovlen = size > 0 ? 2 : 1};
    return sendmsg(s->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* -- Sockets that clients left -------------------------------------------------------------------------- */

static bool sweep_is_client(const char *name)
{
    const char *uuid = starts_with(name, KINETO_CLIENT_PREFIX) ? name + strlen(KINETO_CLIENT_PREFIX) : "";

    return strlen(uuid) == UUID_BYTES && strspn(uuid, "0123456789abcdef-") == UUID_BYTES;
}

/* No name is ever used twice, so nobody binds it between the look and the removal. */
static bool sweep_file(int dir_fd, const char *name)
{
    _cleanup_(closep) int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct sockaddr_un address;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode) ||
        st.st_mtim.tv_sec > (time_t)(wall_ns() / NS_PER_S) - SWEEP_AGE_S)
        return false;
    socklen_t size = socket_address_of_fd(fd, &address);
    return socket_probe(&address, size) == -ECONNREFUSED && unlinkat(dir_fd, name, 0) == 0;
}

unsigned kineto_socket_sweep(const char *path)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct dirent *entry;
    struct stat st;
    unsigned n = 0;

    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid())
        return 0;
    DIR *dir = fdopendir(fd);
    if (!dir)
        return 0;
    TAKE_FD(fd);
    for (size_t i = 0; i < SWEEP_FILES_MAX && (entry = readdir(dir)); i++)
        if (sweep_is_client(entry->d_name))
            n += sweep_file(dirfd(dir), entry->d_name);
    closedir(dir);
    return n;
}
