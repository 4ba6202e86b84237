/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/kineto_workers.h"

#include "base/alloc.h"
#include "daemon/fleet/engine.h"
#include "daemon/kineto/kineto.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>

#define USE_DAEMON "KINETO_USE_DAEMON=1"

/* The first socket that is open: a directory's before the abstract name, which a container does not see. */
static const struct kineto_listener *listener_to_name(const struct kineto *k)
{
    const struct kineto_listener *l, *found = NULL;

    for (size_t i = 0; k && (l = kineto_listener_at(k, i)); i++)
        if (!l->why && (!found || streq(found->name, KINETO_ABSTRACT)))
            found = l;
    return found;
}

char *kineto_environment(const struct kineto *kineto)
{
    const struct kineto_listener *l = listener_to_name(kineto);

    if (!l && kineto)
        l = kineto_listener_at(kineto, 0);
    if (!l)
        return NULL;
    return streq(l->name, KINETO_ABSTRACT) ? xstrdup(USE_DAEMON)
                                           : xasprintf(USE_DAEMON " KINETO_IPC_SOCKET_DIR=%s", l->name);
}

/*
 * The ranks of a job are one engine instance: by the address where they meet; where that names a place on every host,
 * by this host and the port; else by the Slurm job.
 */
static void worker_fill_group(struct worker *w, const struct kineto_process *p)
{
    const char *port = p->master ? strrchr(p->master, ':') : NULL;
    char host[HOST_NAME_MAX + 1] = "";

    if (p->world_size <= 1)
        return;
    worker_join_group(w, p->master);
    if (w->group)
        return;
    gethostname(host, sizeof(host) - 1);
    if (p->job_id > 0)
        w->group = xasprintf("slurm job %" PRId64 "%s", p->job_id, port ? port : "");
    else if (port)
        w->group = xasprintf("%s%s", host, port);
}

static void worker_fill(struct worker *w, const struct kineto_process *p, const struct process_query *q)
{
    struct worker_process *process = &w->process;

    w->url = xasprintf("kineto://%d.%" PRIu64, (int)p->pid, p->start_ticks);
    w->engine = ENGINE_PYTORCH;
    w->version = xstrdup(p->pytorch_version);
    w->local = true;
    w->pid = p->pid;
    w->uid = p->uid;
    w->profilable = true;
    process->transport = xstrdup(p->transport);
    process->start_ticks = (int64_t)p->start_ticks;
    process->inner_pid = p->inner_pid;
    process->slurm_job = p->job_id > 0 ? p->job_id : -1;
    process->rank = p->rank;
    process->local_rank = p->local_rank;
    process->world_size = p->world_size;
    process->registered_at = p->first_seen_at;
    process->recording = kineto_is_active(p);
    if (process_query_may_record(q, p->uid)) {
        process->command = xstrdup(p->command);
        process->unit = xstrdup(p->unit);
        process->gpus = xstrdup(p->gpus);
        process->trace_root = xstrdup(p->trace_root);
        worker_fill_group(w, p);
    } else if (q->has_uid) {
        worker_refuse(
            w, "Members of group profd may record the processes of others: sudo usermod -aG profd \"$USER\"",
            "belongs to uid %u: you may record your own processes", p->uid);
    } else {
        worker_refuse(w, "Use profctl on the host of profd, without --host, or a token of role admin.",
                      "belongs to uid %u, and the user who sent the request is not known", p->uid);
    }
}

static int refuse_closed(const struct kineto *k, struct problem *p)
{
    const struct kineto_listener *l = k ? kineto_listener_at(k, 0) : NULL;

    if (l) {
        problem_remedy(p, "%s", l->remedy ? l->remedy : "journalctl -u profd has the reason.");
        return problem_set(p, -EADDRINUSE, PROBLEM_CONFLICT, "profd does not listen for processes on %s: %s",
                           l->name, l->why);
    }
    problem_remedy(p, "Write into profd.conf: [kineto] listen=/run/profd/kineto, and restart profd.");
    return problem_set(p, -ENOTSUP, PROBLEM_UNSUPPORTED,
                       "profd does not listen for processes to record on demand");
}

/* By job and rank, as people count them; then by age. */
static int worker_compare(const void *x, const void *y)
{
    const struct worker *a = x, *b = y;
    const int64_t keys[][2] = {{a->process.slurm_job, b->process.slurm_job},
                               {a->process.rank, b->process.rank},
                               {a->process.start_ticks, b->process.start_ticks},
                               {a->pid, b->pid}};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static void note_none(struct fleet *f, const struct kineto *k, size_t n_registered)
{
    _cleanup_(freep) char *environment = kineto_environment(k);

    if (n_registered > 0)
        fleet_add_note(f, "%zu process%s registered, but the selection includes none of them", n_registered,
                       n_registered == 1 ? "" : "es");
    else
        fleet_add_note(f, "no process has registered; start it with %s", environment);
}

int fleet_add_registered(struct fleet *f, const struct kineto *kineto, const struct process_query *q,
                         struct problem *p)
{
    const struct kineto_process *process = NULL;
    size_t n_registered = 0, n_before = f->n_workers;

    if (!listener_to_name(kineto))
        return refuse_closed(kineto, p);
    if (!f->router && !f->name && f->n_workers == 0)
        replace_str(&f->dialect, KINETO_DIALECT);
    while ((process = kineto_next(kineto, process))) {
        const struct process_facts facts = {
            .pid = process->pid, .uid = process->uid, .job = process->job_id, .unit = process->unit};
        n_registered++;
        if (process_query_selects(q, &facts) &&
            (process_query_may_record(q, process->uid) || process_query_names(q, process->pid)))
            worker_fill(fleet_add_worker(f), process, q);
    }
    if (f->n_workers == n_before)
        note_none(f, kineto, n_registered);
    else
        qsort(f->workers + n_before, f->n_workers - n_before, sizeof(*f->workers), worker_compare);
    return 0;
}
