/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/child.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/spawning.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Lowest priority of work in the background. */
#define BACKGROUND_NICENESS 19
#define NUMBER_MAX          24

void report_child_init(struct report_child *child)
{
    child->result_fd = child->pid_fd = -1;
    child->result_size = 0;
}

void report_child_done(struct report_child *child)
{
    closep(&child->result_fd);
    closep(&child->pid_fd);
    report_child_init(child);
}

static int report_child_open_pipe(struct report_child *child, int *ret_write)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    child->result_fd = fds[0];
    *ret_write = fds[1];
    return fcntl(child->result_fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int report_child_spawn(struct report_child *child, const struct report_child_start *s, int *result_fd)
{
    const int64_t numbers[] = {(int64_t)s->n, s->memory_max, s->cpu_s, MAX(s->mapped, INT64_C(1)),
                               s->answer_max};
    char texts[ARRAY_SIZE(numbers)][NUMBER_MAX];
    char *argv[ARRAY_SIZE(numbers) + 2] = {"profd-report"}, *environment[] = {"LC_ALL=C", NULL};
    size_t n_fds = REPORT_FD_COLUMNS + 2 * s->n;
    _cleanup_(freep) int *fds = xcalloc(n_fds, sizeof(*fds));
    pid_t pid;

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        snprintf(texts[i], sizeof(texts[i]), "%" PRId64, numbers[i]);
        argv[i + 1] = texts[i];
    }
    for (size_t i = 0; i < REPORT_FD_COLUMNS; i++)
        fds[i] = -1;
    fds[REPORT_FD_RESULT] = *result_fd;
    fds[REPORT_FD_SPEC] = *s->spec_fd;
    fds[REPORT_FD_ANSWER] = *s->answer_fd;
    memcpy(fds + REPORT_FD_COLUMNS, s->trace_fds, 2 * s->n * sizeof(*fds));
    int r = spawn_with(s->program, fds, (int)n_fds, argv, environment, 0, &pid, &child->pid_fd);
    /* Of many traces some have new numbers, because the child's would be theirs. */
    *result_fd = fds[REPORT_FD_RESULT];
    *s->spec_fd = fds[REPORT_FD_SPEC];
    *s->answer_fd = fds[REPORT_FD_ANSWER];
    memcpy(s->trace_fds, fds + REPORT_FD_COLUMNS, 2 * s->n * sizeof(*fds));
    if (r == 0 && s->background)
        setpriority(PRIO_PROCESS, (id_t)pid, BACKGROUND_NICENESS);
    return r;
}

int report_child_start(struct report_child *child, const struct report_child_start *start)
{
    _cleanup_(closep) int result_fd = -1;

    int r = report_child_open_pipe(child, &result_fd);
    return r < 0 ? r : report_child_spawn(child, start, &result_fd);
}

bool report_child_read(struct report_child *child)
{
    while (child->result_size < sizeof(child->result)) {
        ssize_t n = read(child->result_fd, child->result + child->result_size,
                         sizeof(child->result) - child->result_size);
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        child->result_size += (size_t)n;
    }
    return true;
}

bool report_child_is_full(const struct report_child *child)
{
    return child->result_size == sizeof(child->result);
}

void report_child_kill(struct report_child *child)
{
    if (child->pid_fd >= 0)
        pidfd_send_signal(child->pid_fd, SIGKILL, NULL, 0);
}

void report_child_reap(struct report_child *child, siginfo_t *ret)
{
    *ret = (siginfo_t){0};
    while (waitid(P_PIDFD, (id_t)child->pid_fd, ret, WEXITED) < 0 && errno == EINTR)
        continue;
    report_child_read(child);
}

static void report_child_explain_signal(const siginfo_t *end, struct problem *p)
{
    const char *name = sigabbrev_np(end->si_status);

    problem_remedy(p, "Select a part of the trace, or raise [limits] report_memory=.");
    if (end->si_status == SIGXCPU)
        problem_set(p, -ETIME, PROBLEM_TOO_LARGE, "profd-report used up its processor time");
    else
        problem_set(p, -EIO, PROBLEM_TOO_LARGE, "profd-report was killed by SIG%s", name ? name : "?");
}

/* What the child says is not trusted: a kind that it does not know is an internal error, and texts are texts. */
void report_child_read_problem(const json_t *result, struct problem *p)
{
    const char *code = json_get_str(result, "problem"), *detail = json_get_str(result, "detail"),
               *remedy = json_get_str(result, "remedy");

    if (!code)
        return;
    problem_set(p, -EIO, problem_kind_of(code), "%s", detail ? detail : "no reason is known");
    if (remedy)
        problem_remedy(p, "%s", remedy);
}

void report_child_explain(const struct report_child *child, const siginfo_t *end, struct problem *p)
{
    char error[200];

    if (end->si_code != CLD_EXITED) {
        report_child_explain_signal(end, p);
        return;
    }
    _cleanup_json_ result = end->si_status == 0 ? json_parse(child->result, child->result_size, error) : NULL;
    if (json_is_object(result))
        report_child_read_problem(result, p);
    else
        problem_set(p, -EIO, PROBLEM_INTERNAL, "profd-report ended with status %d and without a result",
                    end->si_status);
}

int report_child_spec(const char *spec)
{
    _cleanup_(closep) int fd = memfd_create("profd-report-spec", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : write_all(fd, spec, strlen(spec));

    if (r >= 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    return r < 0 ? r : TAKE_FD(fd);
}
