/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/runs/runs.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/runs/internal.h"
#include <errno.h>
#include <inttypes.h>

/* -- A run -------------------------------------------------------------------------------------------- */

struct benchmark_run *runs_find(struct runs *all, int64_t run_id)
{
    return (struct benchmark_run *)jobs_find(&all->jobs, run_id);
}

struct benchmark_run *run_alloc(struct runs *all)
{
    struct benchmark_run *run = xcalloc(1, sizeof(*run));

    run->all = all;
    run_record_init(&run->record);
    TAILQ_INSERT_TAIL(&all->jobs.list, &run->job, next);
    return run;
}

void benchmark_run_free(struct benchmark_run *run)
{
    struct runs *all = run->all;

    TAILQ_REMOVE(&all->jobs.list, &run->job, next);
    load_child_free(run->child);
    if (run->timer)
        event_free(run->timer);
    json_decref(run->notes);
    json_decref(run->warmed);
    json_decref(run->live);
    json_decref(run->summary);
    run_record_done(&run->record);
    free(run->load_spec);
    free(run->stopped_by);
    free(run);
    jobs_check_shutdown(&all->jobs);
}

void run_timer(struct benchmark_run *run, int64_t duration_ns,
               void (*fn)(evutil_socket_t fd, short what, void *arg))
{
    struct timeval tv = timeval_of(duration_ns);

    if (run->timer)
        event_free(run->timer);
    run->timer = evtimer_new(run->all->jobs.base, fn, run);
    event_add(run->timer, &tv);
}

/* -- The object --------------------------------------------------------------------------------------- */

int runs_new(const struct runs_modules *modules, struct runs **ret)
{
    struct runs *all = xcalloc(1, sizeof(*all));

    *all = (struct runs){.jobs = {.ops = &run_job_ops,
                                  .base = modules->base,
                                  .catalog = modules->catalog,
                                  .finder = modules->finder},
                         .modules = *modules,
                         .program = xstrdup(modules->program)};
    TAILQ_INIT(&all->jobs.list);
    *ret = all;
    return 0;
}

static int end_abandoned(const struct run_record *r, void *arg)
{
    struct runs *all = arg;
    struct run_record record = *r; /* its strings stay the row's */

    record.state = RUN_FAILED;
    record.ended_at = wall_ns();
    record.reason = "profd ended while it ran";
    record.remedy = "Start it again; profctl show has the requests that it came to.";
    int err = catalog_save_run(all->jobs.catalog, &record);
    if (err >= 0)
        err = catalog_add_run_event(all->jobs.catalog, "profd", r->run_id, r->session_id, "%s: %s",
                                    run_state_name(record.state), record.reason);
    log_notice("run r%" PRId64 " was %s when profd ended: it is failed", r->run_id, run_state_name(r->state));
    return err;
}

int runs_recover(struct runs *all)
{
    return catalog_each_unfinished_run(all->jobs.catalog, end_abandoned, all);
}

void runs_close(struct runs *all)
{
    struct live_job *job;

    TAILQ_FOREACH(job, &all->jobs.list, next)
        if (!job->is_over)
            run_cut((struct benchmark_run *)job, "Start it again.", "profd was stopped");
}

struct runs *runs_free(struct runs *all)
{
    if (!all)
        return NULL;
    all->jobs.shutdown_done = NULL;
    while (!TAILQ_EMPTY(&all->jobs.list))
        benchmark_run_free((struct benchmark_run *)TAILQ_FIRST(&all->jobs.list));
    jobs_done(&all->jobs);
    free(all->program);
    free(all);
    return NULL;
}

/* -- Operations --------------------------------------------------------------------------------------- */

void run_stop_by(struct live_job *job, const char *actor)
{
    struct benchmark_run *run = (struct benchmark_run *)job;

    catalog_add_run_event(run->all->jobs.catalog, actor, job->id, run->record.session_id,
                          "stop requested while %s", run_state_name(run->record.state));
    run_stop(run, actor);
}

int runs_remove(struct runs *all, int64_t run_id, const char *actor)
{
    const struct live_job *job = jobs_find(&all->jobs, run_id);
    struct catalog *c = all->jobs.catalog;

    if (job && !job->is_over)
        return -EINPROGRESS;
    int r = catalog_remove_run(c, run_id);
    if (r < 0)
        return r;
    r = catalog_add_run_event(c, actor, run_id, RECORD_NONE, "removed");
    catalog_upkeep(c);
    return r;
}

int run_read(struct jobs *jobs, int64_t id, bool full, json_t **ret)
{
    const struct benchmark_run *run = (const struct benchmark_run *)jobs_find(jobs, id);

    int err = catalog_run_json(jobs->catalog, id, ret);
    if (err < 0 || !run)
        return err;
    run_json_renew(*ret, &run->record);
    if (!run->job.is_over && run->live)
        json_object_set(*ret, "live", run->live);
    return 0;
}

void runs_take_labels(struct runs *all, int64_t run_id, const char *labels)
{
    struct benchmark_run *run = runs_find(all, run_id);

    if (run)
        replace_str(&run->record.labels, labels);
}

void runs_describe_list(struct runs *all, json_t *list)
{
    json_t *json;
    size_t i;

    json_array_foreach(list, i, json) {
        const struct benchmark_run *run = runs_find(all, json_get_int(json, "run", 0));
        if (run)
            run_json_renew(json, &run->record);
    }
}

void runs_metrics(const struct runs *all, struct runs_metrics *ret)
{
    *ret = all->metrics;
    ret->running = jobs_count(&all->jobs);
}

struct jobs *runs_jobs(struct runs *all)
{
    return &all->jobs;
}
