/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd-report: computes reports of traces and runs one SQL statement of a client, with no right to do anything else.
 * See proto/report.h for its descriptors. It never opens a path; profd ends it at a deadline or when nobody waits.
 */
#include "base/fs.h"
#include "base/log.h"
#include "daemon/report/statement.h"
#include "daemon/report/work.h"
#include "daemon/sandbox/files.h"
#include "proto/report.h"
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* The machine serves requests: reports come after that. */
#define NICENESS 10
/* SQLite's part of the memory; rows that are written and open columns need the rest. */
#define SQL_MEMORY_PART 2

struct report_command {
    int64_t traces, memory_max, cpu_s, mapped_max, answer_max;
};

static bool report_command_parse(int argc, char **argv, struct report_command *ret)
{
    int64_t *const values[] = {&ret->traces, &ret->memory_max, &ret->cpu_s, &ret->mapped_max,
                               &ret->answer_max};

    if (argc != 1 + (int)ARRAY_SIZE(values))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        char *end;
        errno = 0;
        *values[i] = strtoll(argv[i + 1], &end, 10);
        if (errno || *end || end == argv[i + 1] || *values[i] <= 0)
            return false;
    }
    return ret->traces <= REPORT_TRACES_MAX;
}

/* PR_SET_PDEATHSIG is only sent for a later death: the pipe shows whether the parent has died already. */
static bool report_has_starter(void)
{
    struct pollfd result = {.fd = REPORT_FD_RESULT};
    return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && poll(&result, 1, 0) >= 0 &&
           !(result.revents & (POLLERR | POLLNVAL));
}

static void report_set_up_process(void)
{
    if (getpriority(PRIO_PROCESS, 0) < NICENESS)
        setpriority(PRIO_PROCESS, 0, NICENESS);
    signal(SIGPIPE, SIG_IGN);
    /* A write beyond the limit of the answer is an error, not the end. */
    signal(SIGXFSZ, SIG_IGN);
    /* A second arena, when it shrinks, looks at a file first. */
    mallopt(M_ARENA_MAX, 1);
    /* The first object of jansson opens a file for the seed of its hashes. */
    json_decref(json_object());
    statement_prepare();
}

static void report_run_work(struct work *work, FILE *answer, struct problem *p)
{
    _cleanup_(freep) char *text = NULL;
    char error[200];
    size_t size;

    int r = read_fd(REPORT_FD_SPEC, REPORT_SPEC_MAX, &text, &size);
    work->spec = r < 0 ? NULL : json_parse(text, size, error);
    if (!work->spec)
        problem_set(p, -EINVAL, PROBLEM_INTERNAL, "the specification cannot be read: %s",
                    r < 0 ? strerror(-r) : error);
    else
        work_run(work, answer, p);
}

static int report_write_result(const struct problem *p)
{
    _cleanup_json_ result = work_problem_to_json(p);
    _cleanup_(freep) char *text = json_dumps(result, JSON_COMPACT);
    return text ? write_all(REPORT_FD_RESULT, text, strlen(text)) : -ENOMEM;
}

static int report_run(const struct report_command *command)
{
    _cleanup_(problem_done) struct problem p = {0};
    int source_fd = REPORT_FD_COLUMNS + (int)command->traces;
    struct work work = {.n_traces = (size_t)command->traces,
                        .columns_fd = REPORT_FD_COLUMNS,
                        .source_fd = fcntl(source_fd, F_GETFD) < 0 ? -1 : source_fd,
                        .memory_max = command->memory_max / SQL_MEMORY_PART};
    const struct sandbox sandbox = {.fds = REPORT_FD_COLUMNS + 2 * (int)command->traces,
                                    .cpu_s = command->cpu_s,
                                    .file_size = command->answer_max,
                                    .memory = command->memory_max,
                                    .mapped = command->mapped_max,
                                    .threads = true,
                                    .clone_from_fd = -1,
                                    .clone_to_fd = -1};

    report_set_up_process();
    sandbox_bound_threads(REPORT_THREADS_MAX);
    FILE *answer = report_has_starter() ? fdopen(REPORT_FD_ANSWER, "w") : NULL;
    if (!answer)
        return -EPIPE;
    int r = sandbox_enter(&sandbox);
    if (r < 0) {
        log_error("profd-report: cannot set itself up: %s", strerror(-r));
        return r;
    }
    report_run_work(&work, answer, &p);
    return report_write_result(&p);
}

int main(int argc, char **argv)
{
    struct report_command command;

    if (!report_command_parse(argc, argv, &command)) {
        fprintf(stderr, "usage: profd-report TRACES MEMORY_MAX CPU_SECONDS MAPPED_MAX ANSWER_MAX\n"
                        "profd starts it, with a specification as descriptor 3\n");
        return 2;
    }
    /* Not exit(): libraries and instruments open files there, for which the sandbox kills the process. */
    _exit(report_run(&command) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}
