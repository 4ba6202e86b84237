/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers to be inspected: the test program starts itself again as one, with whatever command line,
 * environment, user and namespaces a test asks for. Its main() calls serve() where ROLE_VARIABLE is set.
 */
#pragma once

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/fleet/process.h"
#include "tests/unit/cmocka-all.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* How a server is told what to be: letters of this variable; it reports on descriptor 3 and lives as long as
 * its end of the pipe on descriptor 4. */
#define ROLE_VARIABLE   "TEST_SERVER"
#define REPORT_FD       3
#define LIFE_FD         4

#define NOBODY          65534
#define CONTAINER_IP    "10.123.45.67"
#define PORTS_MAX       1000
#define CLOCK_TICK_US   30000
#define INSPECT_TIME_NS (5 * NS_PER_S)

struct report {
    pid_t pid; /* of the process that listens */
    uint16_t ports[PORTS_MAX];
};

/* -- the server -- */

/* 0: any port. */
static inline int bind_port(uint16_t *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY), .sin_port = htons(*port)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        _exit(20);
    *port = ntohs(address.sin_port);
    return fd;
}

static inline int listen_port(uint16_t *port)
{
    int fd = bind_port(port);
    if (listen(fd, 8) < 0)
        _exit(20);
    return fd;
}

/* A second address on the loopback device, as a container has one of its own. */
static inline void own_network(void)
{
    struct ifreq request = {.ifr_name = "lo:1"};
    struct sockaddr_in *address = (struct sockaddr_in *)&request.ifr_addr;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (unshare(CLONE_NEWNET) < 0)
        _exit(21);
    close(fd);
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    address->sin_family = AF_INET;
    inet_pton(AF_INET, CONTAINER_IP, &address->sin_addr);
    if (ioctl(fd, SIOCSIFADDR, &request) < 0)
        _exit(22);
    close(fd);
}

static inline void own_root(const char *root, bool own_mounts)
{
    if (own_mounts && (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                       mount("tmpfs", root, "tmpfs", 0, "size=1m") < 0))
        _exit(23);
    if (chroot(root) < 0 || chdir("/") < 0)
        _exit(24);
    if (own_mounts && (mkdir("/traces", 0755) < 0 || symlink("/traces", "/link") < 0 ||
                       creat("/traces/rank0.json", 0644) < 0))
        _exit(25);
}

static inline void serve(const char *role)
{
    struct report report = {0};
    char byte;

    /* First, since descriptors stay open across it. */
    if (strchr(role, 'f') && fork() > 0) {
        /* The launcher stays as the parent of the front end that listens. */
        close(REPORT_FD);
        (void)!read(LIFE_FD, &byte, 1);
        _exit(0);
    }
    if (strchr(role, 't')) {
        static const char title[] = "VLLM::APIServer_0";
        prctl(PR_SET_NAME, title);
        execve("/proc/self/exe", (char *const[]){(char *)title, NULL},
               (char *const[]){ROLE_VARIABLE "=-", NULL});
    }
    if (strchr(role, 'n')) {
        /* Kept here, where nobody else gets it then: by its port alone it is looked for. */
        bind_port(&report.ports[0]);
        own_network();
    }
    if (strchr(role, 'm') || strchr(role, 'c'))
        own_root(getenv("TEST_ROOT"), strchr(role, 'm'));
    if (strchr(role, 'w') && open(getenv("TEST_OPEN"), O_WRONLY) < 0)
        _exit(26);
    if (strchr(role, 'u') && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
        _exit(27);
    if (strchr(role, 'g') && seteuid(NOBODY) < 0)
        _exit(31);
    if (strchr(role, 'p'))
        prctl(PR_SET_NAME, "docker-proxy");
    size_t n = strchr(role, 'k') ? PORTS_MAX : strchr(role, 'h') ? 0 : 1;
    for (size_t i = 0; i < n; i++)
        listen_port(&report.ports[i]);
    report.pid = getpid();
    if (strchr(role, 'g') && seteuid(0) < 0)
        _exit(31);
    /* A child that inherits the socket, as a forking server's have it; younger by more than a clock tick. */
    if (strchr(role, 'i') && usleep(CLOCK_TICK_US) == 0 && fork() == 0) {
        (void)!read(LIFE_FD, &byte, 1);
        _exit(0);
    }
    if (write(REPORT_FD, &report, sizeof(report)) != sizeof(report))
        _exit(28);
    (void)!read(LIFE_FD, &byte, 1);
    _exit(0);
}

/* -- the tests' side of it -- */

struct server {
    pid_t child;
    int life;
    struct report report;
    char dir[PATH_MAX]; /* empty, its working directory */
};

static inline void start(struct server *s, const char *role, const char *const argv[],
                         const char *const variables[])
{
    int report[2], life[2];
    char *env[16];
    size_t n = 0;

    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    assert_int_equal(pipe2(life, O_CLOEXEC), 0);
    env[n++] = xasprintf(ROLE_VARIABLE "=%s", role);
    env[n++] = xasprintf("TEST_ROOT=%s", s->dir);
    for (size_t i = 0; variables && variables[i]; i++)
        env[n++] = xstrdup(variables[i]);
    env[n] = NULL;
    s->child = fork();
    if (s->child == 0) {
        /* The pipes may have gotten these very numbers. */
        int report_fd = fcntl(report[1], F_DUPFD, 10), life_fd = fcntl(life[0], F_DUPFD, 10);
        if (dup2(report_fd, REPORT_FD) < 0 || dup2(life_fd, LIFE_FD) < 0 || chdir(s->dir) < 0)
            _exit(29);
        close(report_fd);
        close(life_fd);
        execve("/proc/self/exe", (char *const *)argv, env);
        _exit(30);
    }
    close(report[1]);
    close(life[0]);
    s->life = life[1];
    ssize_t got = read(report[0], &s->report, sizeof(s->report));
    close(report[0]);
    for (size_t i = 0; i < n; i++)
        free(env[i]);
    assert_int_equal(got, sizeof(s->report));
}

static inline void server_init(struct server *s)
{
    *s = (struct server){.life = -1};
    strcpy(s->dir, "/tmp/profd-test-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    assert_int_equal(chmod(s->dir, 0755), 0);
}

static inline void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
            continue;
        _cleanup_(freep) char *inner = xasprintf("%s/%s", path, entry->d_name);
        if (unlink(inner) < 0)
            remove_tree(inner);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

static inline void server_stop(struct server *s)
{
    if (s->life >= 0)
        close(s->life);
    s->life = -1;
    if (s->child > 0)
        waitpid(s->child, NULL, 0);
    s->child = 0;
}

static inline void server_done(struct server *s)
{
    server_stop(s);
    remove_tree(s->dir);
}

static inline char *server_path(const struct server *s, const char *name)
{
    return xasprintf("%s/%s", s->dir, name);
}

static inline struct fleet *fleet_of(const char *host, uint16_t port, enum engine engine, const char *version)
{
    struct fleet *f = xcalloc(1, sizeof(*f));
    struct worker *w = fleet_add_worker(f);
    w->url = xasprintf("http://%s:%u", host, port);
    w->engine = engine;
    w->version = xstrdup(version);
    return f;
}

static inline struct fleet *inspect(const struct server *s, enum engine engine, const char *version)
{
    const struct fleet_settings settings = {0};
    struct fleet *f = fleet_of("127.0.0.1", s->report.ports[0], engine, version);
    processes_inspect(f, &settings, NULL);
    return f;
}

#define _cleanup_fleet_  _cleanup_(fleet_freep) struct fleet *
#define _cleanup_server_ _cleanup_(server_done) struct server

static inline void assert_found_by(const struct worker *w, const char *what, pid_t pid)
{
    _cleanup_(freep) char *want = xasprintf("%s of process %d", what, (int)pid);
    assert_non_null(w->location.found_by);
    assert_string_equal(w->location.found_by, want);
}

static inline void need_root(void)
{
    if (geteuid() == 0)
        return;
    print_message("skipped: other users and namespaces need root\n");
    skip();
}
