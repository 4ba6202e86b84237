/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/runs/child.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/spawning.h"
#include "daemon/sandbox/restrict.h"
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Bytes of its lines that are read before the loop does something else. */
#define TURN_BYTES (64u << 10)
/* Number of such portions that the pipe of a child that has ended may contain. */
#define LAST_TURNS 32

struct load_child {
    struct load_child_handlers handlers;
    int pid_fd, lines_fd, commands_fd;
    struct event *on_lines, *on_exit;
    char *buffer;
    size_t size, capacity, scanned;
    char *fate;
};

/* A file in memory: a slow reader does not block profd. */
static int spec_file(const char *spec, size_t size, int *ret_fd)
{
    _cleanup_(closep) int fd = memfd_create("profd-load-spec", MFD_CLOEXEC);

    if (fd < 0)
        return -errno;
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, spec + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t)n;
    }
    if (lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int pipe_ends(int *ret_read, int *ret_write)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    *ret_read = fds[0];
    *ret_write = fds[1];
    return 0;
}

/* -- Lines -------------------------------------------------------------------------------------------- */

static void load_child_pass_lines(struct load_child *c)
{
    size_t begin = 0;

    while (!c->fate) {
        char *newline = memchr(c->buffer + c->scanned, '\n', c->size - c->scanned);
        if (!newline)
            break;
        size_t end = (size_t)(newline - c->buffer);
        c->scanned = end + 1;
        c->handlers.line(c->buffer + begin, end - begin, c->handlers.arg);
        begin = end + 1;
    }
    memmove(c->buffer, c->buffer + begin, c->size - begin);
    c->size -= begin;
    c->scanned = c->size;
    if (c->size > LOAD_LINE_MAX)
        load_child_kill(c, "profd-load sent a line of more than %d bytes", LOAD_LINE_MAX);
}

/* Reads one portion. False if the pipe is empty, or at its end. */
static bool load_child_read(struct load_child *c)
{
    if (c->capacity - c->size < TURN_BYTES) {
        c->capacity = MAX(2 * c->capacity, c->size + TURN_BYTES);
        c->buffer = xrealloc(c->buffer, c->capacity, 1);
    }
    ssize_t n = read(c->lines_fd, c->buffer + c->size, TURN_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        event_del(c->on_lines);
        return false;
    }
    c->size += (size_t)n;
    if (!c->fate)
        load_child_pass_lines(c);
    return true;
}

static void load_child_on_lines(evutil_socket_t fd, short what, void *arg)
{
    load_child_read(arg);
}

/* -- Its end ------------------------------------------------------------------------------------------ */

static char *describe_end(const siginfo_t *end)
{
    if (end->si_code != CLD_EXITED) {
        const char *name = sigabbrev_np(end->si_status);
        return xasprintf("profd-load was killed by SIG%s", name ? name : "?");
    }
    return end->si_status != 0 ? xasprintf("profd-load ended with status %d", end->si_status) : NULL;
}

static void load_child_reap(struct load_child *c, siginfo_t *end)
{
    while (waitid(P_PIDFD, (id_t)c->pid_fd, end, WEXITED) < 0 && errno == EINTR)
        ;
    close(c->pid_fd);
    c->pid_fd = -1;
}

static void load_child_on_exit(evutil_socket_t fd, short what, void *arg)
{
    struct load_child *c = arg;
    siginfo_t end = {0};

    load_child_reap(c, &end);
    for (int i = 0; i < LAST_TURNS && !c->fate && load_child_read(c); i++)
        ;
    event_del(c->on_lines);
    if (!c->fate)
        c->fate = describe_end(&end);
    c->handlers.ended(c->fate, c->handlers.arg);
}

/* -- Its life ----------------------------------------------------------------------------------------- */

static int load_child_watch(struct load_child *c, struct event_base *base)
{
    c->on_lines = event_new(base, c->lines_fd, EV_READ | EV_PERSIST, load_child_on_lines, c);
    c->on_exit = event_new(base, c->pid_fd, EV_READ, load_child_on_exit, c);
    if (!c->on_lines || !c->on_exit || event_add(c->on_lines, NULL) < 0 || event_add(c->on_exit, NULL) < 0)
        return -ENOMEM;
    return 0;
}

static void load_child_set_limits(pid_t pid, int64_t memory_max)
{
    const struct rlimit memory = {(rlim_t)memory_max, (rlim_t)memory_max}, none = {0, 0};

    prlimit(pid, RLIMIT_CORE, &none, NULL);
    /* The address space of what a sanitizer watches is all there is. */
    if (!SANDBOX_WITHOUT_FILTER)
        prlimit(pid, RLIMIT_DATA, &memory, NULL);
}

static int load_child_spawn(struct load_child *c, const char *program, int64_t memory_max, const char *spec,
                            size_t size)
{
    char *argv[] = {"profd-load", NULL}, *environment[] = {"LC_ALL=C", NULL};
    int fds[LOAD_FD_COMMANDS + 1] = {-1, -1, -1, -1};
    pid_t pid;

    int r = spec_file(spec, size, &fds[LOAD_FD_SPEC]);
    if (r >= 0)
        r = pipe_ends(&c->lines_fd, &fds[LOAD_FD_LINES]);
    if (r >= 0)
        r = pipe_ends(&fds[LOAD_FD_COMMANDS], &c->commands_fd);
    if (r >= 0 &&
        (fcntl(c->lines_fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(c->commands_fd, F_SETFL, O_NONBLOCK) < 0))
        r = -errno;
    if (r >= 0)
        r = spawn_with(program, fds, (int)ARRAY_SIZE(fds), argv, environment, 0, &pid, &c->pid_fd);
    if (r >= 0)
        load_child_set_limits(pid, memory_max);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        closep(&fds[i]);
    return r;
}

int load_child_start(struct event_base *base, const char *program, int64_t memory_max, const char *spec,
                     size_t size, const struct load_child_handlers *handlers, struct load_child **ret)
{
    struct load_child *c = xcalloc(1, sizeof(*c));

    *c = (struct load_child){.handlers = *handlers, .pid_fd = -1, .lines_fd = -1, .commands_fd = -1};
    int r = load_child_spawn(c, program, memory_max, spec, size);
    if (r >= 0)
        r = load_child_watch(c, base);
    if (r < 0)
        load_child_free(c);
    else
        *ret = c;
    return r;
}

void load_child_command(struct load_child *c, const char *word)
{
    _cleanup_(freep) char *line = xasprintf("%s\n", word);

    /* EPIPE: the child has exited, which its pidfd reports soon. */
    if (write(c->commands_fd, line, strlen(line)) < 0 && errno != EPIPE)
        load_child_kill(c, "profd-load takes no commands: %s", strerror(errno));
}

void load_child_kill(struct load_child *c, const char *format, ...)
{
    va_list ap;

    if (c->fate)
        return;
    va_start(ap, format);
    c->fate = xvasprintf(format, ap);
    va_end(ap);
    if (c->pid_fd >= 0)
        pidfd_send_signal(c->pid_fd, SIGKILL, NULL, 0);
}

struct load_child *load_child_free(struct load_child *c)
{
    siginfo_t end;

    if (!c)
        return NULL;
    if (c->on_lines)
        event_free(c->on_lines);
    if (c->on_exit)
        event_free(c->on_exit);
    if (c->pid_fd >= 0) {
        pidfd_send_signal(c->pid_fd, SIGKILL, NULL, 0);
        load_child_reap(c, &end);
    }
    if (c->lines_fd >= 0)
        close(c->lines_fd);
    if (c->commands_fd >= 0)
        close(c->commands_fd);
    free(c->buffer);
    free(c->fate);
    free(c);
    return NULL;
}
