/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd-ingest: looks at one file that a worker wrote, with no right to do anything else. See protocol.h for
 * how profd starts it. It never opens a path, and one that dies has taken nothing with it.
 */
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/ingest/check.h"
#include "daemon/ingest/protocol.h"
#include "daemon/ingest/sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define MEMORY_MAX (INT64_C(512) << 20)
/* The machine serves requests: reading traces comes after that. */
#define NICENESS 10

static int parse_positive(const char *text, int64_t *ret)
{
    char *end;

    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end || end == text || value <= 0)
        return -EINVAL;
    *ret = value;
    return 0;
}

static int print_result(const json_t *facts)
{
    _cleanup_(freep) char *text = json_dumps(facts, JSON_COMPACT);
    return text ? write_all(INGEST_FD_RESULT, text, strlen(text)) : -ENOMEM;
}

static int run(int64_t size_max, int64_t cpu_s)
{
    bool has_dest = fcntl(INGEST_FD_DEST, F_GETFD) >= 0;
    _cleanup_(check_freep) struct check *check = NULL;
    struct sandbox sandbox = {
        .fds = INGEST_FD_DEST + 1,
        .cpu_s = cpu_s,
        .file_size = size_max,
        .memory = MEMORY_MAX,
        .clone_from_fd = INGEST_FD_SOURCE,
        .clone_to_fd = INGEST_FD_DEST,
    };

    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    setpriority(PRIO_PROCESS, 0, NICENESS);
    int r = check_new(INGEST_FD_SOURCE, has_dest ? INGEST_FD_DEST : -1, size_max, &check);
    if (r >= 0)
        r = sandbox_enter(&sandbox);
    if (r < 0) {
        log_error("profd-ingest: cannot set itself up: %s", strerror(-r));
        return r;
    }
    _cleanup_json_ facts = check_run(check);
    return print_result(facts);
}

int main(int argc, char **argv)
{
    int64_t size_max, cpu_s;

    if (argc != 3 || parse_positive(argv[1], &size_max) < 0 || parse_positive(argv[2], &cpu_s) < 0) {
        fprintf(stderr,
                "usage: profd-ingest SIZE_MAX CPU_SECONDS\nprofd starts it, with the file as descriptor 3\n");
        return 2;
    }
    return run(size_max, cpu_s) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
