/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query/bounded.h"

#include "base/fs.h"
#include "client/cli/screen.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/* Interval in which the parent checks the deadline of the child, which moves while its output waits. */
#define LOOK_MS 50
/* Time for a killed child to disappear; a child that hangs in the kernel is left there. */
#define LEAVE_MS 1000

struct bounded *bounded_new(int64_t time_limit_ns, int64_t memory_bytes)
{
    struct bounded *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (b == MAP_FAILED)
        return NULL;
    b->time_limit_ns = time_limit_ns;
    b->memory_bytes = memory_bytes;
    return b;
}

struct bounded *bounded_free(struct bounded *b)
{
    if (b)
        munmap(b, sizeof(*b));
    return NULL;
}

/* -- Child -------------------------------------------------------------------------------------------- */

void bounded_begin(struct bounded *b, unsigned line)
{
    b->line = line;
    b->rows = b->rows_before = 0;
    b->has_noticed = false;
    b->deadline_ns = b->time_limit_ns > 0 ? mono_ns() + b->time_limit_ns : DEADLINE_NEVER;
}

bool bounded_is_over(struct bounded *b)
{
    if (!b->signal && mono_ns() < b->deadline_ns)
        return false;
    b->has_noticed = true;
    return true;
}

/* Stops the clock until the reader has taken it. */
static ssize_t bounded_write(void *arg, const char *data, size_t size)
{
    struct bounded *b = arg;
    int64_t deadline_ns = b->deadline_ns, begin_ns = mono_ns();

    b->is_writing = true;
    b->n_pending = 0;
    b->deadline_ns = DEADLINE_NEVER;
    int r = write_all(STDOUT_FILENO, data, size);
    b->deadline_ns = deadline_ns == DEADLINE_NEVER ? DEADLINE_NEVER : deadline_ns + mono_ns() - begin_ns;
    b->rows_before = b->rows;
    b->is_writing = false;
    if (r < 0)
        b->output_error = -r;
    return r < 0 ? 0 : (ssize_t)size;
}

FILE *bounded_output(struct bounded *b, bool is_terminal)
{
    FILE *output = fopencookie(b, "w", (cookie_io_functions_t){.write = bounded_write});

    if (output)
        setvbuf(output, b->buffer, is_terminal ? _IOLBF : _IOFBF, sizeof(b->buffer));
    return output;
}

int bounded_flush(struct bounded *b, FILE *output)
{
    fflush(output);
    return -b->output_error;
}

void bounded_put_rows(struct bounded *b, FILE *output, int64_t rows)
{
    b->rows = rows;
    b->n_pending = __fpending(output);
}

/* In addition to the memory of the parent, which with a sanitizer is terabytes. */
static void bounded_limit_memory(int64_t bytes)
{
    unsigned long long pages = 0;
    struct rlimit limit;
    FILE *statm = fopen("/proc/self/statm", "re");

    bool is_known = statm && fscanf(statm, "%*u %*u %*u %*u %*u %llu", &pages) == 1;
    fclosep(&statm);
    if (!is_known || getrlimit(RLIMIT_DATA, &limit) < 0)
        return;
    limit.rlim_cur = MIN(limit.rlim_cur, (rlim_t)bytes + pages * (rlim_t)sysconf(_SC_PAGESIZE));
    setrlimit(RLIMIT_DATA, &limit);
}

static _Noreturn void bounded_run_child(struct bounded *b, pid_t parent, int (*work)(void *arg), void *arg)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    bounded_limit_memory(b->memory_bytes);
    exit(work(arg));
}

/* -- Parent ------------------------------------------------------------------------------------------- */

struct bounded_child {
    pid_t pid;
    int pid_fd, signal_fd;
    bool was_killed;
};

static void bounded_child_close(struct bounded_child *c)
{
    closep(&c->pid_fd);
    closep(&c->signal_fd);
}

static int bounded_child_start(struct bounded_child *c, struct bounded *b, int (*work)(void *arg), void *arg)
{
    const sigset_t set = screen_signals();
    pid_t self = getpid();

    c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (c->signal_fd < 0)
        return -errno;
    c->pid = fork();
    if (c->pid == 0)
        bounded_run_child(b, self, work, arg);
    if (c->pid < 0)
        return -errno;
    c->pid_fd = pidfd_open(c->pid, 0);
    if (c->pid_fd >= 0)
        return 0;
    int r = -errno;
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    return r;
}

/* Returns whether the child must be killed at once, after a second signal. */
static bool bounded_take_signal(struct bounded *b, const struct bounded_child *c, int64_t *signal_ns)
{
    struct signalfd_siginfo info;

    if (read(c->signal_fd, &info, sizeof(info)) != sizeof(info))
        return false;
    bool is_first = b->signal == 0;
    b->signal = (int)info.ssi_signo;
    if (is_first)
        *signal_ns = mono_ns();
    return !is_first;
}

static int64_t bounded_kill_time(const struct bounded *b, int64_t signal_ns)
{
    int64_t deadline_ns = b->deadline_ns, over_ns = MIN(signal_ns, deadline_ns);

    if (over_ns == DEADLINE_NEVER)
        return DEADLINE_NEVER;
    return over_ns + BOUNDED_GRACE_NS + (b->has_noticed ? BOUNDED_PRINT_NS : 0);
}

/* Until the child has ended, or was killed. */
static void bounded_supervise(struct bounded *b, struct bounded_child *c)
{
    int64_t signal_ns = DEADLINE_NEVER;

    for (;;) {
        struct pollfd fds[] = {{.fd = c->pid_fd, .events = POLLIN}, {.fd = c->signal_fd, .events = POLLIN}};
        poll(fds, ARRAY_SIZE(fds), LOOK_MS);
        if (fds[0].revents)
            return;
        bool is_repeated = fds[1].revents && bounded_take_signal(b, c, &signal_ns);
        if (!is_repeated && mono_ns() < bounded_kill_time(b, signal_ns))
            continue;
        kill(c->pid, SIGKILL);
        c->was_killed = true;
        poll(fds, 1, LEAVE_MS);
        return;
    }
}

/* A child that was killed within a call of a function has left complete rows in the buffer. */
static int64_t finish_output(struct bounded *b)
{
    if (b->is_writing)
        return b->rows_before;
    write_all(STDOUT_FILENO, b->buffer, MIN(b->n_pending, sizeof(b->buffer)));
    return b->rows;
}

static struct bounded_end bounded_collect(struct bounded *b, const struct bounded_child *c)
{
    struct bounded_end end = {.signal = b->signal};
    siginfo_t info = {0};

    waitid(P_PIDFD, (id_t)c->pid_fd, &info, WEXITED | WNOHANG);
    if (c->was_killed || b->was_ended)
        end.how = b->signal ? BOUNDED_INTERRUPTED : BOUNDED_LATE;
    else if (info.si_code != CLD_EXITED)
        end.how = BOUNDED_DIED;
    end.status = info.si_status;
    end.rows = info.si_code == CLD_EXITED ? b->rows : finish_output(b);
    return end;
}

int bounded_run(struct bounded *b, int (*work)(void *arg), void *arg, struct bounded_end *ret)
{
    _cleanup_(bounded_child_close) struct bounded_child c = {.pid_fd = -1, .signal_fd = -1};

    b->was_ended = b->wants_quit = b->is_writing = false;
    b->signal = b->output_error = 0;
    b->n_pending = 0;
    bounded_begin(b, 1);
    fflush(NULL);
    int r = bounded_child_start(&c, b, work, arg);
    if (r < 0)
        return r;
    bounded_supervise(b, &c);
    *ret = bounded_collect(b, &c);
    return 0;
}
