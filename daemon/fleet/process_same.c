/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes that registered by themselves are part of a server that is another worker: a server listens in one
 * process and computes in its children, each of which may register.
 */
#include "base/alloc.h"
#include "base/process_info.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/process.h"

/* How far up from a process is looked. */
#define ANCESTORS_MAX 32

/* The pids from the process up to the first one of the host; returns how many. */
static size_t read_line_of(pid_t pid, pid_t ret[static ANCESTORS_MAX])
{
    struct process_status status;
    size_t n = 0;

    while (n < ANCESTORS_MAX && pid > 1) {
        ret[n++] = pid;
        if (process_status_read(pid, &status) < 0)
            break;
        pid = status.parent;
    }
    return n;
}

static bool line_has(const pid_t *line, size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++)
        if (line[i] == pid)
            return true;
    return false;
}

struct process_line {
    pid_t pids[ANCESTORS_MAX];
    size_t n;
};

void processes_match(struct fleet *fleet)
{
    _cleanup_(freep) struct process_line *lines = NULL;
    bool any = false;

    for (size_t i = 0; i < fleet->n_workers; i++)
        any = any || worker_is_on_demand(&fleet->workers[i]);
    if (!any)
        return;
    lines = xcalloc(fleet->n_workers, sizeof(*lines));
    for (size_t i = 0; i < fleet->n_workers; i++)
        if (fleet->workers[i].local && fleet->workers[i].pid > 0)
            lines[i].n = read_line_of(fleet->workers[i].pid, lines[i].pids);
    for (size_t i = 0; i < fleet->n_workers; i++) {
        struct worker *w = &fleet->workers[i];
        if (!worker_is_on_demand(w))
            continue;
        for (size_t k = 0; k < fleet->n_workers && !w->same_as; k++) {
            const struct worker *server = &fleet->workers[k];
            if (worker_is_on_demand(server) || lines[k].n == 0)
                continue;
            if (line_has(lines[i].pids, lines[i].n, server->pid) ||
                line_has(lines[k].pids, lines[k].n, w->pid))
                w->same_as = xstrdup(server->url);
        }
    }
}
