/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds a catalog open as profd does, for tests that look at its file from outside: catalog-holder PATH. Each
 * line on stdin is a command, answered by "ok" or "error N" on stdout: "add" records a trace; "sync" adds one
 * and asks for a commit that survives a power cut; "many N" adds N at once; "quit" closes.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/catalog/records.h"
#include <event2/event.h>

struct holder {
    struct event_base *base;
    struct catalog *catalog;
    int added;
};

static void answer(int err, void *arg _unused_)
{
    if (err < 0)
        printf("error %d\n", -err);
    else
        printf("ok\n");
    fflush(stdout);
}

static void add(struct holder *h)
{
    _cleanup_(freep) char *path = xasprintf("/store/%d-%d.json.gz", (int)getpid(), h->added++);
    struct trace_record r;
    trace_record_init(&r);
    r.worker_url = "http://127.0.0.1:8000";
    r.name = "trace.json.gz";
    r.path = r.origin = path;
    r.stored = true;
    r.size = 4096;
    r.recorded_at = r.collected_at = wall_ns();
    catalog_add_trace(h->catalog, &r);
}

static void on_line(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct holder *h = arg;
    char line[80];
    if (!fgets(line, sizeof(line), stdin) || starts_with(line, "quit")) {
        event_base_loopbreak(h->base);
        return;
    }
    int n = starts_with(line, "many ") ? atoi(line + 5) : 1;
    for (int i = 0; i < n; i++)
        add(h);
    catalog_then(h->catalog, starts_with(line, "sync"), answer, NULL);
}

int main(int argc, char **argv)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct holder h = {.base = event_base_new()};
    struct offload *offload;
    if (argc != 2 || offload_new(h.base, 1, &offload) < 0)
        return EXIT_FAILURE;
    if (catalog_open(argv[1], h.base, offload, &h.catalog, &p) < 0) {
        fprintf(stderr, "%s\n  %s\n", p.what, p.remedy);
        return EXIT_FAILURE;
    }
    answer(0, NULL);
    setbuf(stdin, NULL);
    struct event *lines = event_new(h.base, STDIN_FILENO, EV_READ | EV_PERSIST, on_line, &h);
    event_add(lines, NULL);
    event_base_dispatch(h.base);
    event_free(lines);
    catalog_close(h.catalog);
    offload_free(offload);
    event_base_free(h.base);
    return EXIT_SUCCESS;
}
