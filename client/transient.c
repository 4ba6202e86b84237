/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transient.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "client/program.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define READY_LINE    "ready\n"
#define READY_NS      (10 * NS_PER_S)
#define END_NS        (15 * NS_PER_S)
#define END_LOOK_US   5000
#define TURN_LOOK_US  20000
#define SAY_AFTER_NS  NS_PER_S
#define TURN_MAX_NS   (30 * NS_PER_S)
#define STDERR_MAX    (16 << 10)
#define EXCERPT_LINES 4

extern char **environ;

struct transient {
    char *socket;
    pid_t pid;
    int turn_fd;   /* locked while it is our turn */
    int stdin_fd;  /* its end is profd's */
    int stderr_fd; /* a nameless file, to be shown where profd does not get ready */
};

static int take_turn(struct client *c, struct transient *t, const char *directory)
{
    _cleanup_(freep) char *path = xasprintf("%s/transient.lock", directory);
    const int64_t begin_ns = mono_ns();
    bool said = false;

    t->turn_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (t->turn_fd < 0)
        return -errno;
    while (flock(t->turn_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return -errno;
        if (mono_ns() - begin_ns > TURN_MAX_NS)
            return -ETIMEDOUT;
        if (!said && mono_ns() - begin_ns > SAY_AFTER_NS) {
            client_say(c, "another profctl uses the catalog; waiting");
            said = true;
        }
        usleep(TURN_LOOK_US);
    }
    return 0;
}

/* In the directory that a profd of this user would have. Others may look into root's: a directory that is
 * closed to them would look like a profd that they may not use. The socket itself is closed to them. */
static int choose_socket(struct client *c, struct transient *t, const char *beside, struct problem *p)
{
    const char *slash = strrchr(beside, '/');
    _cleanup_(freep) char *directory = xstrndup(beside, slash ? (size_t)(slash - beside) : 0);
    int r = make_dirs(directory, geteuid() == 0 ? 0755 : 0700);

    if (r >= 0)
        r = take_turn(c, t, directory);
    if (r == -ETIMEDOUT) {
        problem_set(p, r, PROBLEM_STORAGE, "another profctl has used the catalog for 30 s");
        problem_remedy(p, "Run it again once that one has ended, or start profd, which serves many at once.");
        return r;
    }
    if (r < 0)
        return problem_set(p, r, PROBLEM_STORAGE, "cannot use directory %s: %s", directory, strerror(-r));
    t->socket = xasprintf("%s/transient-%d.sock", directory, (int)getpid());
    return 0;
}

static int spawn(struct transient *t, const char *program, int stdin_fd, int stdout_fd)
{
    char *argv[] = {"profd", "--transient", "--socket", t->socket, NULL};
    posix_spawn_file_actions_t actions;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, stdin_fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, stdout_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, t->stderr_fd, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    int r = program_spawn(program, &actions, argv, environ, &t->pid);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

/* 0, or -ETIMEDOUT, or -EPIPE where it ended instead. */
static int wait_ready(int stdout_fd)
{
    const int64_t deadline = mono_ns() + READY_NS;
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
static char *last_words(const struct transient *t)
{
    _cleanup_(freep) char *text = xcalloc(STDERR_MAX + 1, 1);
    struct stat st = {0};

    fstat(t->stderr_fd, &st);
    ssize_t n = pread(t->stderr_fd, text, STDERR_MAX, MAX(st.st_size - STDERR_MAX, 0));
    char *end = text + MAX(n, 0), *begin = end;
    while (end > text && end[-1] == '\n')
        *--end = '\0';
    begin = end;
    for (int lines = 0; begin > text; begin--)
        if (begin[-1] == '\n' && ++lines == EXCERPT_LINES)
            break;
    return xstrdup(begin);
}

static int fail(const struct transient *t, int err, struct problem *p)
{
    _cleanup_(freep) char *words = last_words(t);

    problem_set(p, err, PROBLEM_INTERNAL, "no profd is running, and one for this call %s",
                err == -ETIMEDOUT ? "did not get ready within 10 s" : "ended at once");
    if (*words)
        problem_remedy(p, "It said:\n%s", words);
    return err;
}

static int start(struct client *c, struct transient *t, const char *program, const char *beside,
                 struct problem *p)
{
    int to[2] = {-1, -1}, from[2] = {-1, -1};
    int r = choose_socket(c, t, beside, p);

    if (r < 0)
        return r;
    t->stderr_fd = memfd_create("profd-stderr", MFD_CLOEXEC);
    r = t->stderr_fd < 0 || pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0 ? -errno : 0;
    if (r >= 0)
        r = spawn(t, program, to[0], from[1]);
    closep(&to[0]);
    closep(&from[1]);
    t->stdin_fd = to[1];
    if (r < 0)
        problem_set(p, r, PROBLEM_INTERNAL, "cannot start %s: %s", program, strerror(-r));
    else if ((r = wait_ready(from[0])) < 0)
        fail(t, r, p);
    closep(&from[0]);
    return r;
}

int transient_start(struct client *c, const char *socket, struct transient **ret, struct problem *p)
{
    _cleanup_(freep) char *program = program_find(PROGRAM_PROFD, p);

    if (!program)
        return -ENOENT;
    struct transient *t = xcalloc(1, sizeof(*t));
    t->turn_fd = t->stdin_fd = t->stderr_fd = -1;
    int r = start(c, t, program, socket, p);
    if (r < 0)
        transient_free(t);
    else
        *ret = t;
    return r;
}

static void wait_end(pid_t pid)
{
    const int64_t deadline = mono_ns() + END_NS;

    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (mono_ns() > deadline) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            return;
        }
        usleep(END_LOOK_US);
    }
}

struct transient *transient_free(struct transient *t)
{
    if (!t)
        return NULL;
    closep(&t->stdin_fd);
    if (t->pid > 0)
        wait_end(t->pid);
    closep(&t->stderr_fd);
    if (t->socket)
        unlink(t->socket);
    closep(&t->turn_fd);
    free(t->socket);
    free(t);
    return NULL;
}

const char *transient_socket(const struct transient *t)
{
    return t->socket;
}
