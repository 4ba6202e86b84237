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

/* A process, then its ancestors. */
struct process_line {
    pid_t pids[1 + ANCESTORS_MAX];
    size_t n;
};

static void process_line_read(struct process_line *line, pid_t pid)
{
    line->pids[0] = pid;
    line->n = 1 + process_ancestors(pid, line->pids + 1, ANCESTORS_MAX);
}

static bool process_line_has(const struct process_line *line, pid_t pid)
{
    for (size_t i = 0; i < line->n; i++)
        if (line->pids[i] == pid)
            return true;
    return false;
}

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
            process_line_read(&lines[i], fleet->workers[i].pid);
    for (size_t i = 0; i < fleet->n_workers; i++) {
        struct worker *w = &fleet->workers[i];
        if (!worker_is_on_demand(w))
            continue;
        for (size_t k = 0; k < fleet->n_workers && !w->same_as; k++) {
            const struct worker *server = &fleet->workers[k];
            if (worker_is_on_demand(server) || lines[k].n == 0)
                continue;
            if (process_line_has(&lines[i], server->pid) || process_line_has(&lines[k], w->pid))
                w->same_as = xstrdup(server->url);
        }
    }
}
