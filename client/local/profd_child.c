/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/profd_child.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "client/local/program.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define READY_LINE    "ready\n"
#define STDERR_MAX    (16 << 10)
#define EXCERPT_LINES 4

extern char **environ;

/* The manager that these are for is profctl's own, where it has one. */
static const char *const not_inherited[] = {"NOTIFY_SOCKET=", "WATCHDOG_USEC=", "LISTEN_FDS="};

static bool is_inherited(const char *variable)
{
    for (size_t i = 0; i < ARRAY_SIZE(not_inherited); i++)
        if (starts_with(variable, not_inherited[i]))
            return false;
    return true;
}

/* The strings are environ's. */
static char **make_environment(void)
{
    size_t n = 0, kept = 0;

    while (environ[n])
        n++;
    char **copy = xcalloc(n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        if (is_inherited(environ[i]))
            copy[kept++] = environ[i];
    return copy;
}

static int spawn(const struct profd_order *o, int stdout_fd, int stderr_fd, pid_t *ret)
{
    _cleanup_(freep) char **environment = make_environment();
    posix_spawn_file_actions_t actions;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, o->stdin_fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, stdout_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, stderr_fd, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    if (o->is_to_stay)
        posix_spawn_file_actions_addchdir_np(&actions, "/");
    int r = (o->is_to_stay ? program_spawn_apart : program_spawn)(o->program, &actions, o->argv, environment,
                                                                  ret);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

/* 0, or -ETIMEDOUT, or -EPIPE where it ended instead. */
static int wait_ready(int stdout_fd, unsigned patience)
{
    const int64_t deadline = mono_ns() + patience * NS_PER_S;
    char text[sizeof(READY_LINE)] = "";
    size_t size = 0;

    while (size < strlen(READY_LINE)) {
        struct pollfd fd = {.fd = stdout_fd, .events = POLLIN};
        int64_t left_ms = (deadline - mono_ns()) / NS_PER_MS;
        if (left_ms <= 0 || poll(&fd, 1, (int)left_ms) == 0)
            return -ETIMEDOUT;
        ssize_t n = read(stdout_fd, text + size, strlen(READY_LINE) - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -EPIPE;
        size += (size_t)n;
    }
    return streq(text, READY_LINE) ? 0 : -EPIPE;
}

/* The last lines that it said, which name what kept it from starting. */
static char *last_words(int stderr_fd)
{
    _cleanup_(freep) char *text = xcalloc(STDERR_MAX + 1, 1);
    struct stat st = {0};

    fstat(stderr_fd, &st);
    ssize_t n = pread(stderr_fd, text, STDERR_MAX, MAX(st.st_size - STDERR_MAX, 0));
    char *end = text + MAX(n, 0), *begin;
    while (end > text && end[-1] == '\n')
        *--end = '\0';
    begin = end;
    for (int lines = 0; begin > text; begin--)
        if (begin[-1] == '\n' && ++lines == EXCERPT_LINES)
            break;
    return xstrdup(begin);
}

static int fail(const struct profd_order *o, int err, int stderr_fd, struct problem *p)
{
    _cleanup_(freep) char *words = last_words(stderr_fd);

    if (err == -ETIMEDOUT)
        problem_set(p, err, PROBLEM_INTERNAL, "no profd is running, and %s did not get ready within %u s",
                    o->purpose, o->patience);
    else
        problem_set(p, err, PROBLEM_INTERNAL, "no profd is running, and %s ended at once", o->purpose);
    if (*words)
        problem_remedy(p, "It said:\n%s", words);
    return err;
}

int profd_child_start(const struct profd_order *o, pid_t *ret, struct problem *p)
{
    _cleanup_(closep) int stderr_fd = memfd_create("profd-stderr", MFD_CLOEXEC), from = -1, to = -1;
    int ends[2];

    if (stderr_fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return problem_set(p, -errno, PROBLEM_INTERNAL, "cannot start %s: %s", o->program, strerror(errno));
    from = ends[0];
    to = ends[1];
    int r = spawn(o, to, stderr_fd, ret);
    if (r < 0)
        return problem_set(p, r, PROBLEM_INTERNAL, "cannot start %s: %s", o->program, strerror(-r));
    closep(&to);
    to = -1;
    r = wait_ready(from, o->patience);
    return r < 0 ? fail(o, r, stderr_fd, p) : 0;
}
