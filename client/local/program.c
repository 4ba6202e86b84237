/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/program.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/spawning.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

const struct program program_profd = {
    "profd", "keeps the catalog", {"profd", "../daemon/profd"}, PROFD_BINDIR "/profd"};
const struct program program_ingest = {"profd-ingest",
                                       "reads trace files",
                                       {"../libexec/profd/profd-ingest", "../daemon/ingest/profd-ingest"},
                                       PROFD_LIBEXECDIR "/profd-ingest"};

char *program_find(const struct program *program, struct problem *p)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    exe[MAX(n, 0)] = '\0';
    char *slash = strrchr(exe, '/');
    for (size_t i = 0; slash && i < ARRAY_SIZE(program->relative); i++) {
        char *path = xasprintf("%.*s/%s", (int)(slash - exe), exe, program->relative[i]);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    if (access(program->installed, X_OK) == 0)
        return xstrdup(program->installed);
    problem_set(p, -errno, PROBLEM_INTERNAL, "cannot use %s, which %s: %s", program->installed,
                program->purpose, strerror(errno));
    problem_remedy(p, "Reinstall profd: the package contains both programs.");
    return NULL;
}

int program_spawn(const char *path, const posix_spawn_file_actions_t *actions, char *const argv[],
                  char *const environment[], pid_t *ret)
{
    return spawn_clean(path, actions, argv, environment, POSIX_SPAWN_SETPGROUP, ret);
}

/* -- profd as a child ------------------------------------------------------------------------------------- */

#define READY_LINE    "ready\n"
#define STDERR_MAX    (16 << 10)
#define EXCERPT_LINES 4

extern char **environ;

/* Variables of the service manager, which are for profctl. */
static const char *const not_inherited[] = {"NOTIFY_SOCKET=", "WATCHDOG_USEC=", "LISTEN_FDS="};

/* The strings are environ's. */
static char **make_environment(void)
{
    size_t n = 0, n_kept = 0;

    while (environ[n])
        n++;
    char **copy = xcalloc(n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++) {
        bool is_inherited = true;
        for (size_t k = 0; k < ARRAY_SIZE(not_inherited); k++)
            is_inherited &= !starts_with(environ[i], not_inherited[k]);
        if (is_inherited)
            copy[n_kept++] = environ[i];
    }
    return copy;
}

static int profd_spawn(const struct profd_start *start, int stdout_fd, int stderr_fd, pid_t *ret)
{
    _cleanup_(freep) char **environment = make_environment();
    posix_spawn_file_actions_t actions;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, start->stdin_fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, stdout_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, stderr_fd, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    if (start->is_to_stay)
        posix_spawn_file_actions_addchdir_np(&actions, "/");
    int r = spawn_clean(start->program, &actions, start->argv, environment,
                        start->is_to_stay ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP, ret);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

/* 0, -ETIMEDOUT, or -EPIPE if it ended. */
static int profd_wait_ready(int stdout_fd, unsigned timeout_s)
{
    const int64_t deadline = mono_ns() + timeout_s * NS_PER_S;
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

/* The last lines of its stderr, which name the reason. */
static char *last_stderr_lines(int stderr_fd)
{
    _cleanup_(freep) char *text = xcalloc(STDERR_MAX + 1, 1);
    struct stat st = {0};

    fstat(stderr_fd, &st);
    ssize_t n = pread(stderr_fd, text, STDERR_MAX, MAX(st.st_size - STDERR_MAX, 0));
    char *end = text + MAX(n, 0), *begin;
    while (end > text && end[-1] == '\n')
        *--end = '\0';
    begin = end;
    for (int n_lines = 0; begin > text; begin--)
        if (begin[-1] == '\n' && ++n_lines == EXCERPT_LINES)
            break;
    return xstrdup(begin);
}

static int profd_start_failed(const struct profd_start *start, int err, int stderr_fd, struct problem *p)
{
    _cleanup_(freep) char *lines = last_stderr_lines(stderr_fd);

    if (err == -ETIMEDOUT)
        problem_set(p, err, PROBLEM_INTERNAL, "no profd is running, and %s was not ready within %u s",
                    start->purpose, start->timeout_s);
    else
        problem_set(p, err, PROBLEM_INTERNAL, "no profd is running, and %s ended immediately",
                    start->purpose);
    if (*lines)
        problem_remedy(p, "Its last messages:\n%s", lines);
    return err;
}

int profd_start_wait(const struct profd_start *start, pid_t *ret, struct problem *p)
{
    _cleanup_(closep) int stderr_fd = memfd_create("profd-stderr", MFD_CLOEXEC), from = -1, to = -1;
    int ends[2];

    if (stderr_fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return problem_set(p, -errno, PROBLEM_INTERNAL, "cannot start %s: %s", start->program,
                           strerror(errno));
    from = ends[0];
    to = ends[1];
    int r = profd_spawn(start, to, stderr_fd, ret);
    if (r < 0)
        return problem_set(p, r, PROBLEM_INTERNAL, "cannot start %s: %s", start->program, strerror(-r));
    closep(&to);
    to = -1;
    r = profd_wait_ready(from, start->timeout_s);
    return r < 0 ? profd_start_failed(start, r, stderr_fd, p) : 0;
}
