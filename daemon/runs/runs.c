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
    struct benchmark_run *run;

    TAILQ_FOREACH(run, &all->list, next)
        if (run->record.run_id == run_id)
            return run;
    return NULL;
}

struct benchmark_run *run_alloc(struct runs *all)
{
    struct benchmark_run *run = xcalloc(1, sizeof(*run));

    run->all = all;
    run_record_init(&run->record);
    TAILQ_INSERT_TAIL(&all->list, run, next);
    return run;
}

void run_free(struct benchmark_run *run)
{
    struct runs *all = run->all;

    TAILQ_REMOVE(&all->list, run, next);
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
    if (TAILQ_EMPTY(&all->list))
        jobs_shutdown_finish(&all->jobs);
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

    *all = (struct runs){.jobs = {.kind = &run_kind,
                                  .base = modules->base,
                                  .catalog = modules->catalog,
                                  .finder = modules->finder},
                         .modules = *modules,
                         .program = xstrdup(modules->program)};
    TAILQ_INIT(&all->list);
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

void runs_shutdown(struct runs *all, int64_t deadline_ns, void (*done)(void *arg), void *arg)
{
    struct benchmark_run *run, *next;

    jobs_shutdown_begin(&all->jobs, TAILQ_EMPTY(&all->list) ? 0 : deadline_ns, done, arg);
    for (run = TAILQ_FIRST(&all->list); run; run = next) {
        next = TAILQ_NEXT(run, next);
        run_stop(run, "profd, which is stopping");
    }
}

void runs_close(struct runs *all)
{
    struct benchmark_run *run;

    TAILQ_FOREACH(run, &all->list, next)
        if (!run->is_over)
            run_cut(run, "Start it again.", "profd was stopped");
}

struct runs *runs_free(struct runs *all)
{
    if (!all)
        return NULL;
    all->jobs.shutdown_done = NULL;
    while (!TAILQ_EMPTY(&all->list))
        run_free(TAILQ_FIRST(&all->list));
    jobs_done(&all->jobs);
    free(all->program);
    free(all);
    return NULL;
}

/* -- Operations --------------------------------------------------------------------------------------- */

int runs_stop(struct runs *all, int64_t run_id, const char *actor)
{
    struct benchmark_run *run = runs_find(all, run_id);

    if (!run || run->is_over)
        return -ENOENT;
    catalog_add_run_event(all->jobs.catalog, actor, run_id, run->record.session_id, "stop asked for while %s",
                          run_state_name(run->record.state));
    run_stop(run, actor);
    return 0;
}

int runs_remove(struct runs *all, int64_t run_id, const char *actor)
{
    const struct benchmark_run *run = runs_find(all, run_id);
    struct catalog *c = all->jobs.catalog;

    if (run && !run->is_over)
        return -EINPROGRESS;
    int r = catalog_remove_run(c, run_id);
    if (r < 0)
        return r;
    r = catalog_add_run_event(c, actor, run_id, RECORD_NONE, "removed");
    catalog_upkeep(c, NULL, NULL);
    return r;
}

void runs_describe(struct runs *all, int64_t run_id, json_t *json)
{
    const struct benchmark_run *run = runs_find(all, run_id);

    if (!run)
        return;
    run_json_renew(json, &run->record);
    if (!run->is_over && run->live)
        json_object_set(json, "live", run->live);
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

unsigned runs_count(const struct runs *all)
{
    const struct benchmark_run *run;
    unsigned n = 0;

    TAILQ_FOREACH(run, &all->list, next)
        n += !run->is_over;
    return n;
}

void runs_metrics(const struct runs *all, struct runs_metrics *ret)
{
    *ret = all->metrics;
    ret->running = runs_count(all);
}

struct jobs *runs_jobs(struct runs *all)
{
    return &all->jobs;
}
