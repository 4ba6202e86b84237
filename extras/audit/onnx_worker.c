/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/audit/onnx_worker.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/spawning.h"
#include "client/local/program.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define LINE_BYTES_MAX 4608 /* a word, and a path */

static const struct program onnx_program = {
    "profd-onnx-worker",
    "serves models for profctl audit",
    {"../libexec/profd/profd-onnx-worker", "../extras/profd-onnx-worker"},
    PROFD_LIBEXECDIR "/profd-onnx-worker"};

extern char **environ;

/* Reads one line without its end, before the deadline; NULL if none arrives. */
static char *onnx_read_line(int fd, int64_t deadline_ns)
{
    char line[LINE_BYTES_MAX];
    size_t size = 0;

    while (size < sizeof(line)) {
        struct pollfd waited = {.fd = fd, .events = POLLIN};
        int64_t left_ms = (deadline_ns - mono_ns()) / NS_PER_MS;
        if (left_ms <= 0 || poll(&waited, 1, (int)MIN(left_ms, INT64_C(1000))) < 0)
            return NULL;
        if (!waited.revents)
            continue;
        if (read(fd, line + size, 1) != 1)
            return NULL;
        if (line[size] == '\n')
            return xstrndup(line, size);
        size++;
    }
    return NULL;
}

/* Returns the rest of "WORD REST", owned by the caller; NULL if the line has another form. */
static char *onnx_rest_of(const char *line, const char *word)
{
    size_t n = strlen(word);

    return line && starts_with(line, word) && line[n] == ' ' ? xstrdup(line + n + 1) : NULL;
}

static int onnx_spawn(const char *program, const char *model, const char *tokenizer, const char *profile_dir,
                      int to, pid_t *ret)
{
    const char *python = getenv("PROFD_PYTHON");
    char *argv[] = {(char *)python,      (char *)program,       (char *)"--model",
                    (char *)model,       (char *)"--tokenizer", (char *)tokenizer,
                    (char *)"--profile", (char *)profile_dir,   NULL};
    posix_spawn_file_actions_t actions;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    _cleanup_(freep) char *interpreter = python ? program_in_path(python) : NULL;
    int r = python && !interpreter ? -ENOENT
                                   : program_spawn(python ? interpreter : program, &actions,
                                                   python ? argv : argv + 1, environ, ret);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

static int onnx_not_ready(const char *model, int64_t deadline_ns, struct problem *p)
{
    if (mono_ns() >= deadline_ns)
        return problem_set(p, -ETIMEDOUT, PROBLEM_UPSTREAM, "%s was not served within %d s", model,
                           (int)(ONNX_READY_NS / NS_PER_S));
    return problem_set(p, -EPIPE, PROBLEM_UPSTREAM,
                       "%s is not served: its worker failed, see its messages above", model);
}

int onnx_worker_start(const char *model, const char *tokenizer, const char *profile_dir,
                      struct onnx_worker *ret, struct problem *p)
{
    _cleanup_(freep) char *program = program_find(&onnx_program, p);
    struct onnx_worker w = {.from = -1};
    int ends[2];

    if (!program)
        return -ENOENT;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return problem_set(p, -errno, PROBLEM_INTERNAL, "cannot start %s: %s", program, strerror(errno));
    w.from = ends[0];
    int r = onnx_spawn(program, model, tokenizer, profile_dir, ends[1], &w.pid);
    close(ends[1]);
    if (r < 0) {
        close(w.from);
        problem_set(p, r, PROBLEM_INTERNAL, "cannot start %s: %s", program, strerror(-r));
        problem_remedy(p, "Install Python 3 at /usr/bin/python3, or set PROFD_PYTHON to its path.");
        return r;
    }
    const int64_t deadline_ns = mono_ns() + ONNX_READY_NS;
    _cleanup_(freep) char *line = onnx_read_line(w.from, deadline_ns), *port = onnx_rest_of(line, "ready");
    if (!port) {
        r = onnx_not_ready(model, deadline_ns, p);
        onnx_worker_stop(&w, NULL);
        return r;
    }
    w.url = xasprintf("http://127.0.0.1:%s", port);
    *ret = w;
    return 0;
}

void onnx_worker_stop(struct onnx_worker *w, char **ret_profile)
{
    const int64_t deadline_ns = mono_ns() + ONNX_END_NS;

    if (w->pid > 0)
        kill(w->pid, SIGTERM);
    _cleanup_(freep) char *line = w->pid > 0 ? onnx_read_line(w->from, deadline_ns) : NULL;
    if (ret_profile)
        *ret_profile = onnx_rest_of(line, "profile");
    if (w->pid > 0) {
        if (!line)
            kill(w->pid, SIGKILL);
        while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    closep(&w->from);
    free(w->url);
    *w = (struct onnx_worker){.from = -1};
}
