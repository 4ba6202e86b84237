/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd-ingest: reads one file that a worker wrote, with no right to do anything else. See proto/ingest.h for
 * its arguments. It never opens a path, and its death affects no other file.
 */
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/ingest/check.h"
#include "daemon/sandbox/files.h"
#include "proto/ingest.h"
#include "trace/read/reader.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* In addition to the memory for columns: buffers, stacks, the answer. */
#define MEMORY_BASE (INT64_C(512) << 20)
/* Limit of columns and spilled rows on the disk: real ones are one to ten times as large as a compressed
 * trace. */
#define COLUMNS_BYTES_PER_BYTE 32
#define COLUMNS_BYTES_MIN      (INT64_C(64) << 20)
/* The machine serves requests: reading traces comes after that. */
#define NICENESS 10

/* The arguments: the file's request, and the limits of the process. */
struct ingest_command {
    struct check_request request;
    int64_t cpu_s;
    int64_t columns_room; /* bytes that columns and spilled rows may take together */
};

static int ingest_command_parse_positive(const char *text, int64_t *ret)
{
    char *end;

    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end || end == text || value <= 0)
        return -EINVAL;
    *ret = value;
    return 0;
}

/* The descriptor, or -1 where its starter left it closed. */
static int ingest_command_fd(int fd)
{
    return fcntl(fd, F_GETFD) >= 0 ? fd : -1;
}

/* PR_SET_PDEATHSIG is only sent for a later death: the pipe shows whether the parent has died already. */
static bool ingest_command_has_starter(void)
{
    struct pollfd result = {.fd = INGEST_FD_RESULT};
    return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && poll(&result, 1, 0) >= 0 &&
           !(result.revents & (POLLERR | POLLNVAL));
}

/* The limit holds for each file. The copy is as large as the source, and the store has reserved its space. */
static int64_t ingest_command_file_size_max(const struct ingest_command *command)
{
    const struct check_request *request = &command->request;
    struct stat st;
    int64_t columns_max;

    if (request->columns_fd < 0)
        return request->size_max;
    int64_t size = fstat(request->source_fd, &st) == 0 ? st.st_size : 0;
    if (__builtin_mul_overflow(size, COLUMNS_BYTES_PER_BYTE, &columns_max))
        columns_max = INT64_MAX;
    columns_max = MIN(MAX(columns_max, COLUMNS_BYTES_MIN), command->columns_room / 2);
    return request->dest_fd < 0 ? columns_max : MAX(columns_max, size);
}

/* Before anything is read: page cache counts in the cgroup of its reader. */
static void ingest_command_join_group(void)
{
    int fd = ingest_command_fd(INGEST_FD_GROUP);

    if (fd < 0)
        return;
    if (write(fd, "0", 1) < 0)
        log_error("profd-ingest: cannot join its cgroup: %s", strerror(errno));
    close(fd);
}

static void ingest_command_set_up_process(void)
{
    ingest_command_join_group();
    if (getpriority(PRIO_PROCESS, 0) < NICENESS)
        setpriority(PRIO_PROCESS, 0, NICENESS);
    signal(SIGPIPE, SIG_IGN);
    /* The threads allocate little; and a second arena, when it shrinks, looks at a file first. */
    mallopt(M_ARENA_MAX, 1);
}

static int ingest_command_run(const struct ingest_command *command)
{
    const struct check_request *request = &command->request;
    bool columns = request->columns_fd >= 0;
    _cleanup_(check_freep) struct ingest_check *check = NULL;
    struct sandbox sandbox = {
        .fds = INGEST_FD_PROGRESS + 1,
        .cpu_s = command->cpu_s,
        .file_size = ingest_command_file_size_max(command),
        .memory = MEMORY_BASE + (columns ? MIN(request->memory_max, INT64_MAX - MEMORY_BASE) : 0),
        .threads = columns,
        .clone_from_fd = INGEST_FD_SOURCE,
        .clone_to_fd = INGEST_FD_DEST,
    };

    ingest_command_set_up_process();
    if (columns)
        sandbox_bound_threads(INGEST_THREADS_MAX);
    if (!ingest_command_has_starter())
        return -EPIPE;
    int r = check_new(request, &check);
    if (r >= 0)
        r = sandbox_enter(&sandbox);
    if (r < 0) {
        log_error("profd-ingest: cannot set itself up: %s", strerror(-r));
        return r;
    }
    _cleanup_json_ facts = check_run(check);
    _cleanup_(freep) char *text = json_dumps(facts, JSON_COMPACT);
    return text ? write_all(INGEST_FD_RESULT, text, strlen(text)) : -ENOMEM;
}

static bool ingest_command_parse(int argc, char **argv, struct ingest_command *command)
{
    int64_t *const values[] = {&command->request.size_max,     &command->cpu_s,
                               &command->request.memory_max,   &command->columns_room,
                               &command->request.part.number,  &command->request.part.first_pid,
                               &command->request.part.last_pid};
    bool ok = argc >= 3 && argc <= 1 + (int)ARRAY_SIZE(values) && (argc <= 5 || argc == 8);

    for (int i = 1; i < argc && ok; i++)
        ok = ingest_command_parse_positive(argv[i], values[i - 1]) == 0;
    return ok;
}

int main(int argc, char **argv)
{
    struct ingest_command command = {.request = {.source_fd = INGEST_FD_SOURCE,
                                                 .dest_fd = ingest_command_fd(INGEST_FD_DEST),
                                                 .columns_fd = ingest_command_fd(INGEST_FD_COLUMNS),
                                                 .spill_fd = ingest_command_fd(INGEST_FD_SPILL),
                                                 .progress_fd = ingest_command_fd(INGEST_FD_PROGRESS),
                                                 .memory_max = READ_MEMORY_DEFAULT},
                                     .columns_room = INT64_MAX};

    if (!ingest_command_parse(argc, argv, &command)) {
        fprintf(
            stderr,
            "usage: profd-ingest SIZE_MAX CPU_SECONDS [MEMORY_MAX [COLUMNS_ROOM [PART FIRST_PID LAST_PID]]]\n"
            "profd starts it, with the file as descriptor 3\n");
        return 2;
    }
    /* Not exit(): libraries and instruments open files there, for which the sandbox kills the process. */
    _exit(ingest_command_run(&command) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}
