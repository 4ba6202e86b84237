/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/sampling.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* A driver that nobody uses takes seconds to begin. */
#define BEGIN_NS (30 * NS_PER_S)
/* One look that hangs is waited for, and one more is taken. */
#define RESULT_NS   (5 * NS_PER_S)
#define RESULT_MAX  (16u << 20)
#define RESULT_ROOM (64u << 10)

#define SAMPLER_FD  3

struct sampling {
    pid_t pid;
    int fd;
};

/* -- The sampler's process ---------------------------------------------------------------------------- */

struct sampler_loop {
    struct event_base *base;
    struct sampler *sampler;
};

static void on_asked(evutil_socket_t fd, short what, void *arg)
{
    struct sampler_loop *l = arg;
    char byte;

    if (read(fd, &byte, 1) == 1) {
        _cleanup_json_ result = sampler_result(l->sampler);
        _cleanup_(freep) char *text = json_dumps(result, JSON_COMPACT);
        if (text)
            write_all(fd, text, strlen(text));
    }
    event_base_loopbreak(l->base);
}

static int keep_only(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(fd, SAMPLER_FD) < 0)
        return -errno;
    return close_range(SAMPLER_FD + 1, ~0U, 0) < 0 ? -errno : 0;
}

/* What is sent to the group of processes is for the one that ends it. */
static int run_sampler(int fd, const struct sampler_target *targets, size_t n)
{
    struct sampler_loop l = {.base = NULL};

    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    int r = keep_only(fd);
    if (r < 0)
        return r;
    l.base = event_base_new();
    struct event *asked = l.base ? event_new(l.base, SAMPLER_FD, EV_READ | EV_PERSIST, on_asked, &l) : NULL;
    r = asked && event_add(asked, NULL) == 0 ? sampler_new(l.base, targets, n, &l.sampler) : -ENOMEM;
    if (r < 0 || write_all(SAMPLER_FD, "", 1) < 0)
        return -EIO;
    event_base_dispatch(l.base);
    return 0;
}

/* -- Who asks ----------------------------------------------------------------------------------------- */

/* What comes until the deadline: 0 at the end, -ETIMEDOUT. */
static ssize_t read_until(int fd, void *bytes, size_t size, int64_t deadline_ns)
{
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left_ms = MAX(INT64_C(0), deadline_ns - mono_ns()) / NS_PER_MS;
        int r = poll(&ready, 1, (int)left_ms);
        ssize_t n = r > 0 ? read(fd, bytes, size) : r < 0 ? r : -ETIMEDOUT;

        if (r == 0 || n >= 0)
            return n;
        if (errno != EINTR)
            return -errno;
    }
}

int sampling_new(const struct sampler_target *targets, size_t n, struct sampling **ret)
{
    int fds[2];
    char byte;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_sampler(fds[1], targets, n) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
    int err = pid < 0 ? -errno : 0;
    close(fds[1]);
    struct sampling *s = xcalloc(1, sizeof(*s));
    *s = (struct sampling){.pid = pid, .fd = fds[0]};
    if (err == 0 && read_until(s->fd, &byte, 1, mono_ns() + BEGIN_NS) != 1)
        err = -EIO;
    if (err < 0)
        sampling_free(s);
    else
        *ret = s;
    return err;
}

json_t *sampling_result(struct sampling *s)
{
    int64_t deadline_ns = mono_ns() + RESULT_NS;
    _cleanup_(freep) char *text = NULL;
    size_t size = 0, room = 0;
    ssize_t n = write(s->fd, "", 1) == 1 ? 1 : -1;
    char error[200];

    while (n > 0 && size < RESULT_MAX) {
        if (size == room) {
            room = MAX(2 * room, (size_t)RESULT_ROOM);
            text = xrealloc(text, room, 1);
        }
        n = read_until(s->fd, text + size, room - size, deadline_ns);
        size += n > 0 ? (size_t)n : 0;
    }
    return n == 0 && size > 0 ? json_parse(text, size, error) : NULL;
}

struct sampling *sampling_free(struct sampling *s)
{
    if (!s)
        return NULL;
    close(s->fd);
    /* One that hangs in a driver is nobody's to wait for, and dies with this process. */
    if (s->pid > 0)
        waitpid(s->pid, NULL, WNOHANG);
    free(s);
    return NULL;
}
