/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/listen.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/words.h"
#include <arpa/inet.h>
#include <errno.h>
#include <event2/util.h>
#include <grp.h>
#include <libgen.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#define SOCKET_MODE     0660
#define SYSTEM_DIR_MODE 0755
#define OWN_DIR_MODE    0700

/* -- TCP ---------------------------------------------------------------------------------------------- */

static bool has_port(const struct sockaddr *address)
{
    return address->sa_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                         : ((const struct sockaddr_in6 *)address)->sin6_port;
}

static int parse_address(const char *text, struct listen_address *ret, const char **reason)
{
    static const char local_name[] = "localhost:";
    struct listen_address a = {.size = sizeof(a.address)};
    char numeric[sizeof(a.text)];
    int size = sizeof(a.address);

    snprintf(numeric, sizeof(numeric), "%s%s", starts_with(text, local_name) ? "127.0.0.1:" : "",
             starts_with(text, local_name) ? text + strlen(local_name) : text);
    if (strlen(text) >= sizeof(numeric) ||
        evutil_parse_sockaddr_port(numeric, (struct sockaddr *)&a.address, &size) < 0 ||
        !has_port((struct sockaddr *)&a.address)) {
        *reason = "must be an address and a port, such as 127.0.0.1:9460";
        return -EINVAL;
    }
    a.size = (socklen_t)size;
    address_of_socket((struct sockaddr *)&a.address, &a.ip);
    strcpy(a.text, text);
    *ret = a;
    return 0;
}

int listen_address_of(int fd, struct listen_address *ret)
{
    struct listen_address a = {.size = sizeof(a.address)};
    const struct sockaddr *address = (struct sockaddr *)&a.address;
    char host[INET6_ADDRSTRLEN], port[8];

    if (getsockname(fd, (struct sockaddr *)&a.address, &a.size) < 0)
        return -errno;
    if (!address_of_socket(address, &a.ip) ||
        getnameinfo(address, a.size, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
        return -EINVAL;
    snprintf(a.text, sizeof(a.text), address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    *ret = a;
    return 0;
}

int listen_addresses_parse(const char *text, struct listen_address *ret, size_t max, size_t *ret_n,
                           const char **reason)
{
    const char *word;
    size_t n = 0, size;

    while ((size = words_next(&text, &word)) > 0) {
        _cleanup_(freep) char *address = xstrndup(word, size);
        if (n == max) {
            *reason = "must be at most 16 addresses";
            return -EINVAL;
        }
        if (parse_address(address, &ret[n++], reason) < 0)
            return -EINVAL;
    }
    *ret_n = n;
    return 0;
}

static int bind_tcp(const struct listen_address *a, int *ret_fd)
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
    int r = bind_tcp(address, ret_fd);

    if (r < 0) {
        problem_set(p, r, PROBLEM_INTERNAL, "cannot listen on %s: %s", address->text, strerror(-r));
        problem_remedy(p, "Name another port: [profd] listen= of profd.conf, or --listen.");
    }
    return r;
}

/* -- Unix --------------------------------------------------------------------------------------------- */

static int prepare_directory(const char *path, struct problem *p)
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
        problem_remedy(p, "Name another place: [profd] socket= of profd.conf, or --socket.");
    }
    return r;
}

/* 0 where the path is free (again). */
static int clear_path(const char *path, const struct sockaddr_un *address, struct problem *p)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return 0;
    if (!S_ISSOCK(st.st_mode)) {
        problem_set(p, -EEXIST, PROBLEM_CONFLICT, "cannot listen on %s: it is there, and no socket", path);
        problem_remedy(p, "Remove it, or name another place by --socket.");
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
    problem_set(p, -EADDRINUSE, PROBLEM_CONFLICT, "cannot listen on %s: another process does", path);
    problem_remedy(p, "Another profd runs there: systemctl stop profd, or name another place by --socket.");
    return -EADDRINUSE;
}

/* Group names are only looked up in /etc/group: a directory service may take its time. */
static gid_t find_group(const char *name)
{
    _cleanup_(fclosep) FILE *f = fopen("/etc/group", "re");
    const struct group *g;

    while (f && (g = fgetgrent(f)))
        if (streq(g->gr_name, name))
            return g->gr_gid;
    return (gid_t)-1;
}

static int bind_unix(const char *path, const struct sockaddr_un *address, const char *group, int *ret_fd)
{
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
        return -errno;
    gid_t gid = group && geteuid() == 0 ? find_group(group) : (gid_t)-1;
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
        problem_set(p, -ENAMETOOLONG, PROBLEM_BAD_REQUEST, "the socket's path is longer than %zu bytes: %s",
                    sizeof(address.sun_path) - 1, path);
        problem_remedy(p, "Name a shorter one by --socket.");
        return -ENAMETOOLONG;
    }
    strcpy(address.sun_path, path);
    int r = prepare_directory(path, p);
    if (r == 0)
        r = clear_path(path, &address, p);
    if (r < 0)
        return r;
    r = bind_unix(path, &address, group, ret_fd);
    if (r < 0) {
        problem_set(p, r, PROBLEM_STORAGE, "cannot listen on %s: %s", path, strerror(-r));
        problem_remedy(p, "Name another place: [profd] socket= of profd.conf, or --socket.");
    }
    return r;
}

void listen_unix_remove(const char *path, dev_t device, ino_t inode)
{
    struct stat st;
    if (lstat(path, &st) == 0 && st.st_dev == device && st.st_ino == inode && unlink(path) < 0)
        log_debug("cannot remove %s: %s", path, strerror(errno));
}
