/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd-load: sends a workload's requests and measures them. See proto/load.h for how profd starts it. It
 * writes no file and starts no program.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/load/run.h"
#include "proto/load.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define CHUNK (1 << 16)

static int read_order(char **ret, size_t *ret_size)
{
    size_t size = 0, room = 0;
    char *text = NULL;

    for (;;) {
        if (size + CHUNK > room) {
            room = MAX(2 * room, (size_t)2 * CHUNK);
            text = xrealloc(text, room, 1);
        }
        ssize_t n = read(LOAD_FD_ORDER, text + size, CHUNK);
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || size + (size_t)n > LOAD_ORDER_MAX) {
            int r = n < 0 ? -errno : -EFBIG;
            free(text);
            return r;
        }
        size += (size_t)n;
    }
    *ret = text;
    *ret_size = size;
    return 0;
}

static void say_failed(const struct problem *p)
{
    _cleanup_json_ line = json_object();

    json_put_str(line, "t", "failed");
    json_put_str(line, "text", p->what);
    json_put_str(line, "remedy", p->remedy);
    _cleanup_(freep) char *text = json_dumps(line, JSON_COMPACT);
    if (text && write_all(LOAD_FD_LINES, text, strlen(text)) == 0)
        write_all(LOAD_FD_LINES, "\n", 1);
}

/* A connection each: as many as the system gives. */
static void raise_open_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int run(void)
{
    struct problem problem = {0};
    struct order order;
    char *text = NULL;
    size_t size = 0;

    int r = read_order(&text, &size);
    if (r < 0) {
        log_error("profd-load: cannot read its order: %s", strerror(-r));
        return r;
    }
    r = order_parse(text, size, &order, &problem);
    free(text);
    if (r < 0) {
        say_failed(&problem);
        problem_done(&problem);
        return r;
    }
    return run_order(&order, LOAD_FD_LINES, LOAD_FD_COMMANDS);
}

int main(int argc, char **argv)
{
    if (argc != 1 || fcntl(LOAD_FD_COMMANDS, F_GETFD) < 0) {
        fprintf(stderr, "usage: profd-load < ORDER\nprofd starts it, with commands on descriptor 3\n");
        return 2;
    }
    /* Nothing is sent that nobody measures. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERR); /* what is worth a word is a line of its own */
    raise_open_files();
    return run() < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
