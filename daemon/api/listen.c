/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/listen.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/log.h"
#include <errno.h>
#include <grp.h>
#include <libgen.h>
#include <netinet/in.h>
#include <sys/un.h>

#define SOCKET_MODE     0660
#define SYSTEM_DIR_MODE 0755
#define OWN_DIR_MODE    0700

/* -- TCP ---------------------------------------------------------------------------------------------- */

static int listen_bind_tcp(const struct listen_address *a, int *ret_fd)
{
    const int yes = 1;
    _cleanup_(closep) int fd = socket(a->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
        (a->address.ss_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes)) < 0) ||
        bind(fd, (const struct sockaddr *)&a->address, a->size) < 0 || listen(fd, SOMAXCONN) < 0)
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int listen_tcp(const struct listen_address *address, int *ret_fd, struct problem *p)
{
    int r = listen_bind_tcp(address, ret_fd);

    if (r < 0) {
        problem_set(p, r, PROBLEM_INTERNAL, "cannot listen on %s: %s", address->text, strerror(-r));
        problem_remedy(p, "Choose another port: [profd] listen= of profd.conf, or --listen.");
    }
    return r;
}

/* -- Unix --------------------------------------------------------------------------------------------- */

static int listen_make_directory(const char *path, struct problem *p)
{
    _cleanup_(freep) char *copy = xstrdup(path);
    const char *directory = dirname(copy);
    struct stat st;

    if (stat(directory, &st) == 0)
        return 0;
    bool is_system = geteuid() == 0;
    int r = make_dirs(directory, is_system ? SYSTEM_DIR_MODE : OWN_DIR_MODE);
    /* The umask would keep the group out of a directory that only it needs. */
    if (r == 0 && is_system && chmod(directory, SYSTEM_DIR_MODE) < 0)
        r = -errno;
    if (r < 0) {
        problem_set(p, r, PROBLEM_STORAGE, "cannot make %s for the socket: %s", directory, strerror(-r));
        problem_remedy(p, "Choose another path: [profd] socket= of profd.conf, or --socket.");
    }
    return r;
}

/* 0 where the path is free. */
static int listen_clear_path(const char *path, const struct sockaddr_un *address, struct problem *p)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return 0;
    if (!S_ISSOCK(st.st_mode)) {
        problem_set(p, -EEXIST, PROBLEM_CONFLICT, "cannot listen on %s: it exists and is not a socket", path);
        problem_remedy(p, "Remove it, or choose another path with --socket.");
        return -EEXIST;
    }
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return problem_set(p, -errno, PROBLEM_INTERNAL, "socket: %s", strerror(errno));
    if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 && errno == ECONNREFUSED)
        return unlink(path) < 0 && errno != ENOENT
                   ? problem_set(p, -errno, PROBLEM_STORAGE, "cannot remove the stale socket %s: %s", path,
                                 strerror(errno))
                   : 0;
    problem_set(p, -EADDRINUSE, PROBLEM_CONFLICT, "cannot listen on %s: address already in use", path);
    problem_remedy(p,
                   "Another profd uses it: run systemctl stop profd, or choose another path with --socket.");
    return -EADDRINUSE;
}

/* Group names are only looked up in /etc/group: a directory service may take its time. */
static gid_t listen_find_group(const char *name)
{
    _cleanup_(fclosep) FILE *f = fopen("/etc/group", "re");
    const struct group *g;

    while (f && (g = fgetgrent(f)))
        if (streq(g->gr_name, name))
            return g->gr_gid;
    return (gid_t)-1;
}

static int listen_bind_unix(const char *path, const struct sockaddr_un *address, const char *group,
                            int *ret_fd)
{
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
        return -errno;
    gid_t gid = group && geteuid() == 0 ? listen_find_group(group) : (gid_t)-1;
    if (gid != (gid_t)-1 && lchown(path, (uid_t)-1, gid) < 0)
        return -errno;
    /* Nobody gets in before it listens. */
    if (chmod(path, SOCKET_MODE) < 0 || listen(fd, SOMAXCONN) < 0)
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int listen_unix(const char *path, const char *group, int *ret_fd, struct problem *p)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path)) {
        problem_set(p, -ENAMETOOLONG, PROBLEM_BAD_REQUEST,
                    "the path of the socket is longer than %zu bytes: %s", sizeof(address.sun_path) - 1,
                    path);
        problem_remedy(p, "Choose a shorter path with --socket.");
        return -ENAMETOOLONG;
    }
    strcpy(address.sun_path, path);
    int r = listen_make_directory(path, p);
    if (r == 0)
        r = listen_clear_path(path, &address, p);
    if (r < 0)
        return r;
    r = listen_bind_unix(path, &address, group, ret_fd);
    if (r < 0) {
        problem_set(p, r, PROBLEM_STORAGE, "cannot listen on %s: %s", path, strerror(-r));
        problem_remedy(p, "Choose another path: [profd] socket= of profd.conf, or --socket.");
    }
    return r;
}

void listen_unix_remove(const char *path, dev_t device, ino_t inode)
{
    struct stat st;
    if (lstat(path, &st) == 0 && st.st_dev == device && st.st_ino == inode && unlink(path) < 0)
        log_debug("cannot remove %s: %s", path, strerror(errno));
}

/* -- Sockets from systemd ----------------------------------------------------------------------------- */

#if WITH_SYSTEMD
#include <systemd/sd-daemon.h>

/* FileDescriptorName= as profd ships it, and the names that systemd gives a socket without one. */
static const char *const activation_names[] = {"http", "profd.socket", "unknown"};

static bool activation_knows(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(activation_names); i++)
        if (streq(activation_names[i], name))
            return true;
    return false;
}

/* The reason why a socket cannot be served; NULL where it can. */
static const char *activation_find_fault(int fd, const char *name, struct activated *ret)
{
    ret->local = sd_is_socket(fd, AF_UNIX, SOCK_STREAM, 1) > 0;
    if (!activation_knows(name))
        return "FileDescriptorName= must be http";
    if (ret->local)
        return NULL;
    if (sd_is_socket(fd, AF_INET, SOCK_STREAM, 1) <= 0 && sd_is_socket(fd, AF_INET6, SOCK_STREAM, 1) <= 0)
        return "it is not a listening stream socket (ListenStream=)";
    return listen_address_of(fd, &ret->address) < 0 ? "it has no address" : NULL;
}

static void activation_free_names(char **list, int n)
{
    for (int i = 0; list && i < n; i++)
        free(list[i]);
    free(list);
}

int activation_take(struct activation *ret, struct problem *p)
{
    struct activation a = {0};
    char **list = NULL;
    int n = sd_listen_fds_with_names(1, &list), r = MIN(n, 0);

    for (int i = 0; i < n; i++) {
        int fd = SD_LISTEN_FDS_START + i;
        struct activated socket = {.fd = fd};
        const char *fault = i < ACTIVATION_MAX ? activation_find_fault(fd, list[i], &socket)
                                               : "profd accepts 8 sockets at most";
        if (fault && r == 0) {
            r = problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "cannot listen on socket %s from systemd: %s",
                            list[i], fault);
            problem_remedy(p, "Correct the socket unit (systemctl edit profd.socket), or disable it.");
        }
        if (fault) {
            close(fd);
            continue;
        }
        a.sockets[a.n++] = socket;
        a.n_local += socket.local;
    }
    activation_free_names(list, n);
    if (r < 0)
        activation_done(&a);
    else
        *ret = a;
    return r;
}

#else
int activation_take(struct activation *ret, struct problem *p)
{
    return 0;
}
#endif

void activation_done(struct activation *a)
{
    for (size_t i = 0; i < a->n; i++)
        closep(&a->sockets[i].fd);
    *a = (struct activation){0};
}
