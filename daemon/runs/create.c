/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Benchmark runs as a kind of job, and as the load of a session: who is sent requests, what is refused before
 * anything is written, the row, and the instructions for profd-load.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/url.h"
#include "daemon/load/workload.h"
#include "daemon/runs/internal.h"
#include <errno.h>
#include <inttypes.h>

/* -- Who it is about ---------------------------------------------------------------------------------- */

int run_choose(const struct fleet *fleet, const struct job_request *request, size_t **ret, size_t *ret_n,
               struct problem *p)
{
    size_t *chosen = xcalloc(MAX(fleet->n_workers, (size_t)1), sizeof(*chosen)), n = 0;

    for (size_t i = 0; i < fleet->n_workers; i++) {
        const struct worker *w = &fleet->workers[i];
        if (!job_request_matches(request, w) ||
            (w->health == HEALTH_UNHEALTHY && !request->include_unhealthy) ||
            (request->count > 0 && n == (size_t)request->count))
            continue;
        chosen[n++] = i;
    }
    *ret = chosen;
    *ret_n = n;
    if (n > 0)
        return 0;
    problem_set(p, -EINVAL, PROBLEM_NO_WORKERS,
                "none of the %zu workers of %s is one that was asked for and healthy", fleet->n_workers,
                fleet->router ? fleet->router : "the list");
    problem_remedy(p, "profctl list-workers shows their URLs, roles and health.");
    return -EINVAL;
}

/* -- Who is sent what --------------------------------------------------------------------------------- */

static bool takes_requests(const struct worker *w)
{
    const struct engine_ops *ops = worker_ops(w);
    return !ops || !ops->takes_no_requests;
}

/* A worker of a source may be a process without a server, and one of a router may speak gRPC. */
static bool speaks_http(const struct worker *w)
{
    const char *reason;
    struct url u;

    return url_parse(w->url, &u, &reason) == 0 && url_is_http(&u);
}

/* Of one that works by itself. */
static bool works_alone(const struct worker *w)
{
    return w->role == ROLE_REGULAR || w->role == ROLE_UNKNOWN;
}

static void load_plan_add_url(json_t *list, const char *url, enum engine engine)
{
    json_t *item = json_object();

    json_put_str(item, "url", url);
    if (engine != ENGINE_UNKNOWN)
        json_put_str(item, "engine", engine_name(engine));
    json_array_append_new(list, item);
}

static void load_plan_add_worker(json_t *list, const struct worker *w)
{
    load_plan_add_url(list, w->url, w->engine);
    if (w->local && w->pid > 0)
        json_put_int(json_array_get(list, json_array_size(list) - 1), "pid", w->pid);
}

/* What all of them run, ENGINE_UNKNOWN where they differ. */
static enum engine common_engine(const struct fleet *fleet)
{
    enum engine engine = fleet->n_workers > 0 ? fleet->workers[0].engine : ENGINE_UNKNOWN;

    for (size_t i = 1; i < fleet->n_workers; i++)
        if (fleet->workers[i].engine != engine)
            return ENGINE_UNKNOWN;
    return engine;
}

/*
 * A worker that works alone is warmed up directly, if it takes requests. The others do their part of what is sent
 * through the router, which gets a warm-up for each worker of the largest group.
 */
static void plan_warm_up(const struct fleet *fleet, struct load_plan *plan)
{
    size_t n_prefill = 0, n_decode = 0, n_behind = 0;

    for (size_t i = 0; i < fleet->n_workers; i++) {
        const struct worker *w = &fleet->workers[i];
        n_prefill += w->role == ROLE_PREFILL;
        n_decode += w->role == ROLE_DECODE;
        if (!works_alone(w) || w->health == HEALTH_UNHEALTHY)
            continue;
        if (takes_requests(w))
            load_plan_add_worker(plan->warm, w);
        else
            n_behind++;
    }
    for (size_t i = 0; i < MAX(MAX(n_prefill, n_decode), n_behind) || json_array_size(plan->warm) == 0; i++)
        load_plan_add_url(plan->warm, fleet->router, common_engine(fleet));
}

static int plan_workers(const struct fleet *fleet, const size_t *chosen, size_t n_chosen,
                        struct load_plan *plan, struct problem *p)
{
    for (size_t i = 0; i < n_chosen; i++) {
        const struct worker *w = &fleet->workers[chosen[i]];
        if (!speaks_http(w)) {
            problem_set(p, -EINVAL, PROBLEM_UNSUPPORTED, "%s takes no requests over HTTP", w->url);
            problem_remedy(p, "Name the server that takes requests for it: --worker http://HOST:PORT");
            return -EINVAL;
        }
        if (!takes_requests(w) || !works_alone(w)) {
            if (takes_requests(w))
                problem_set(p, -EINVAL, PROBLEM_UNSUPPORTED,
                            "%s is a %s worker, which answers no request by itself", w->url,
                            role_name(w->role));
            else
                problem_set(p, -EINVAL, PROBLEM_UNSUPPORTED,
                            "%s takes no requests: it controls the profiler of a worker of %s", w->url,
                            engine_name(w->engine));
            problem_remedy(p, "Send through the fleet's router: --router URL, without --through workers.");
            return -EINVAL;
        }
        load_plan_add_worker(plan->targets, w);
    }
    return 0;
}

int load_plan_make(const struct fleet *fleet, const struct job_request *request, const size_t *chosen,
                   size_t n_chosen, struct load_plan *ret, struct problem *p)
{
    bool by_router = request->through == LOAD_THROUGH_ANY ? fleet->router != NULL
                                                          : request->through == LOAD_THROUGH_ROUTER;
    struct load_plan plan = {.targets = json_array(), .warm = json_array(), .workers = json_array()};
    int r = 0;

    for (size_t i = 0; i < n_chosen; i++)
        load_plan_add_worker(plan.workers, &fleet->workers[chosen[i]]);
    if (by_router && !fleet->router) {
        r = problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "there is no router to send requests through");
        problem_remedy(p, "Name one by --router URL, or leave --through out.");
    } else if (by_router) {
        load_plan_add_url(plan.targets, fleet->router, common_engine(fleet));
        plan_warm_up(fleet, &plan);
    } else {
        r = plan_workers(fleet, chosen, n_chosen, &plan, p);
        json_array_extend(plan.warm, plan.targets);
    }
    plan.first = xstrdup(json_get_str(json_array_get(plan.targets, 0), "url"));
    if (r < 0)
        load_plan_done(&plan);
    else
        *ret = plan;
    return r;
}

void load_plan_done(struct load_plan *plan)
{
    json_decref(plan->targets);
    json_decref(plan->warm);
    json_decref(plan->workers);
    free(plan->first);
    *plan = (struct load_plan){0};
}

/* -- Refusals ----------------------------------------------------------------------------------------- */

/* profd-load gets one set: a worker's own would be shown to the others. */
static int find_credentials(const struct runs *all, const struct fleet *fleet, const struct load_plan *plan,
                            const struct call_credentials **ret, struct problem *p)
{
    const struct fleet_settings *settings = all->modules.fleet_settings;
    const json_t *target;
    size_t i;

    *ret = settings_credentials(settings, fleet->name, plan->first);
    json_array_foreach(plan->targets, i, target) {
        const char *url = json_get_str(target, "url");
        if (settings_credentials(settings, fleet->name, url) == *ret)
            continue;
        problem_set(p, -EINVAL, PROBLEM_UNSUPPORTED, "%s and %s have credentials of their own in profd.conf",
                    plan->first, url);
        problem_remedy(p, "Send through the fleet's router, or to one of them at a time.");
        return -EINVAL;
    }
    return 0;
}

int run_check(struct runs *all, const struct job_request *request, const struct fleet *fleet,
              const size_t *chosen, size_t n_chosen, struct problem *p)
{
    _cleanup_(workload_done) struct workload workload = {0};
    _cleanup_(load_plan_done) struct load_plan plan = {0};
    const struct call_credentials *credentials;

    int r = workload_parse(request->workload, &workload, p);
    if (r == 0)
        r = load_plan_make(fleet, request, chosen, n_chosen, &plan, p);
    return r == 0 ? find_credentials(all, fleet, &plan, &credentials, p) : r;
}

/* -- The specification for profd-load ----------------------------------------------------------------- */

static json_t *credentials_to_json(const struct call_credentials *c)
{
    json_t *j = json_object();

    if (!c)
        return j;
    json_put_str(j, "token_file", c->token_file);
    json_put_str(j, "ca_file", c->ca_file);
    json_put_str(j, "cert_file", c->cert_file);
    json_put_str(j, "key_file", c->key_file);
    return j;
}

static char *make_load_spec(const struct runs *all, const struct job_request *request,
                            const struct load_plan *plan, const struct call_credentials *credentials)
{
    _cleanup_(freep) char *allow = network_format(all->modules.network);
    _cleanup_json_ spec = json_object();
    _cleanup_json_ network = json_object();

    json_object_set(spec, "workload", request->workload);
    json_object_set(spec, "targets", plan->targets);
    json_object_set(spec, "warm", plan->warm);
    json_object_set(spec, "workers", plan->workers);
    json_put_str(network, "allow", allow);
    json_object_set(spec, "network", network);
    json_object_set_new(spec, "credentials", credentials_to_json(credentials));
    return json_dumps(spec, JSON_COMPACT);
}

/* -- The row ------------------------------------------------------------------------------------------ */

static char *take_json_text(json_t *take)
{
    char *text = json_dumps(take, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(take);
    return text;
}

static void fill_record(struct run_record *rec, const struct job_request *request, const struct fleet *fleet,
                        const struct load_plan *plan, const char *actor)
{
    rec->state = RUN_REQUESTED;
    rec->uuid = uuid_new();
    rec->router = xstrdup(fleet->router);
    rec->dialect = xstrdup(fleet->dialect);
    rec->fleet = xstrdup(fleet->name);
    rec->model = xstrdup(json_get_str(request->workload, "model"));
    rec->workload = take_json_text(workload_kept(request->workload));
    rec->targets = take_json_text(json_incref(plan->targets));
    rec->labels = take_json_text(json_incref(request->labels));
    rec->requested_at = wall_ns();
    rec->requested_by = xstrdup(actor);
}

struct benchmark_run *run_create(struct runs *all, const struct job_request *request,
                                 const struct fleet *fleet, const size_t *chosen, size_t n_chosen,
                                 const char *actor, int64_t session_id, int *ret_err)
{
    _cleanup_(workload_done) struct workload workload = {0};
    _cleanup_(load_plan_done) struct load_plan plan = {0};
    const struct call_credentials *credentials;
    struct catalog *c = all->jobs.catalog;

    if (workload_parse(request->workload, &workload, NULL) < 0 ||
        load_plan_make(fleet, request, chosen, n_chosen, &plan, NULL) < 0 ||
        find_credentials(all, fleet, &plan, &credentials, NULL) < 0) {
        *ret_err = -EINVAL;
        return NULL;
    }
    struct benchmark_run *run = run_alloc(all);
    fill_record(&run->record, request, fleet, &plan, actor);
    run->record.session_id = session_id;
    run->drain_ns = workload.drain_ns;
    run->load_spec = make_load_spec(all, request, &plan, credentials);
    *ret_err = catalog_saw_fleet(c, fleet);
    if (*ret_err >= 0)
        *ret_err = catalog_add_run(c, &run->record);
    run->job.id = run->record.run_id;
    if (*ret_err >= 0)
        *ret_err =
            catalog_add_run_event(c, actor, run->record.run_id, session_id, "requested: %zu workers of %s",
                                  n_chosen, fleet->router ? fleet->router : "a list");
    if (*ret_err < 0) {
        benchmark_run_free(run);
        return NULL;
    }
    return run;
}

/* -- As a job ----------------------------------------------------------------------------------------- */

static unsigned runs_maximum(const struct jobs *jobs)
{
    return (unsigned)((const struct runs *)jobs)->modules.settings->runs_max;
}

static int run_job_choose(struct job_creation *c, struct problem *p)
{
    return run_choose(c->fleet, &c->request, &c->plan.chosen, &c->plan.n_chosen, p);
}

static int run_job_check(struct job_creation *c, struct problem *p)
{
    return run_check((struct runs *)c->jobs, &c->request, c->fleet, c->plan.chosen, c->plan.n_chosen, p);
}

static int64_t run_job_add(struct job_creation *c)
{
    int r;
    const struct benchmark_run *run = run_create((struct runs *)c->jobs, &c->request, c->fleet,
                                                 c->plan.chosen, c->plan.n_chosen, c->actor, RECORD_NONE, &r);

    return run ? run->record.run_id : r;
}

static void run_job_drop(struct live_job *job)
{
    benchmark_run_free((struct benchmark_run *)job);
}

static void run_job_begin(struct live_job *job)
{
    run_begin((struct benchmark_run *)job);
}

static void run_job_shutdown(struct live_job *job)
{
    run_stop((struct benchmark_run *)job, "profd, which is stopping");
}

/* Until the catalog has its last state. */
static bool run_job_delays_shutdown(const struct live_job *job)
{
    return true;
}

const struct job_ops run_job_ops = {
    .noun = "benchmark run",
    .limit_remedy = "[load] runs= in profd.conf sets the maximum; profctl list-runs lists them.",
    .maximum = runs_maximum,
    .choose = run_job_choose,
    .check = run_job_check,
    .add = run_job_add,
    .drop = run_job_drop,
    .begin = run_job_begin,
    .stop = run_stop_by,
    .read = run_read,
    .shutdown = run_job_shutdown,
    .delays_shutdown = run_job_delays_shutdown,
};

/* -- As the load of a session (struct loader_ops) ----------------------------------------------------- */

static int run_load_check(const struct job_request *request, const struct fleet *fleet, const size_t *chosen,
                          size_t n_chosen, void *loader, struct problem *p)
{
    struct runs *all = loader;
    int r = job_check_limits(&all->jobs, request, p);

    return r < 0 ? r : run_check(all, request, fleet, chosen, n_chosen, p);
}

static int run_load_create(struct session *s, const struct fleet *fleet, const size_t *chosen,
                           size_t n_chosen, const char *actor, void *loader)
{
    int r;
    struct benchmark_run *run =
        run_create(loader, &s->request, fleet, chosen, n_chosen, actor, s->record.session_id, &r);

    if (run) {
        run->job.created = true; /* with its session */
        s->run_id = run->record.run_id;
    }
    return r;
}

static void run_load_forget(struct session *s, void *loader)
{
    struct benchmark_run *run = runs_find(loader, s->run_id);

    if (run)
        benchmark_run_free(run);
}

static void run_load_warm_up(struct session *s, void *loader)
{
    struct benchmark_run *run = runs_find(loader, s->run_id);

    if (run)
        run_begin(run);
}

static void run_load_go(struct session *s, void *loader)
{
    struct benchmark_run *run = runs_find(loader, s->run_id);

    if (run && !run->job.is_over)
        run_go(run);
}

static void run_load_stop(struct session *s, void *loader)
{
    struct benchmark_run *run = runs_find(loader, s->run_id);

    if (!run)
        return;
    run->lasted = s->load_lasted;
    run_stop(run, "the end of its session");
}

const struct loader_ops runs_loader = {
    .check = run_load_check,
    .create = run_load_create,
    .forget = run_load_forget,
    .warm_up = run_load_warm_up,
    .go = run_load_go,
    .stop = run_load_stop,
};
