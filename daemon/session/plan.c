/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a fleet and a request to the workers that will be recorded, those that will not and why, and the
 * remarks about them. Pure: no calls, no catalog.
 */
#include "daemon/session/internal.h"

#include "base/alloc.h"
#include "base/units.h"
#include "daemon/fleet/doctor.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/fleet/shared_fs.h"
#include <errno.h>
#include <inttypes.h>

static void plan_skip(struct job_plan *plan, const struct worker *w, const char *reason, const char *remedy)
{
    json_t *item = json_object();
    json_put_str(item, "worker", w->url);
    json_put_str(item, "reason", reason);
    json_put_str(item, "remedy", remedy);
    json_array_append_new(plan->skipped, item);
}

void plan_add_remark(struct job_plan *plan, const char *worker, const char *remedy, const char *format, ...)
{
    json_t *item = json_object();
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    json_put_bool(item, "refuses", false);
    json_put_str(item, "worker", worker);
    json_put_str(item, "text", text);
    json_put_str(item, "remedy", remedy);
    json_array_append_new(plan->remarks, item);
}

static void plan_add_review(struct job_plan *plan, const struct worker *w, const struct remark *remark)
{
    json_t *item = json_object();
    json_put_bool(item, "refuses", remark->refuses);
    json_put_str(item, "option", remark->option);
    json_put_str(item, "worker", w->url);
    json_put_str(item, "text", remark->text);
    json_put_str(item, "remedy", remark->remedy);
    json_array_append_new(plan->remarks, item);
}

/* Whether the worker that this process is part of is chosen: it is recorded over HTTP, with its other ranks. */
static bool server_is_chosen(struct job_plan *plan, const struct fleet *fleet, const struct worker *w)
{
    for (size_t i = 0; i < plan->n_chosen && w->same_as; i++)
        if (streq(fleet->workers[plan->chosen[i]].url, w->same_as)) {
            plan_add_remark(plan, w->url, NULL,
                            "belongs to %s, which is recorded over HTTP: it gets no request of its own",
                            w->same_as);
            return true;
        }
    return false;
}

/* Whether a requested worker can be recorded; records the reason if not. */
static bool is_fit(struct job_plan *plan, const struct job_request *request, const struct worker *w)
{
    if (!w->profilable) {
        plan_skip(plan, w, w->reason ? w->reason : "cannot be profiled", w->remedy);
        return false;
    }
    if (w->health == HEALTH_UNHEALTHY && !request->include_unhealthy) {
        plan_skip(plan, w, "is unhealthy", "--include-unhealthy records it all the same.");
        return false;
    }
    return true;
}

static bool role_is_taken(const struct job_plan *plan, const struct fleet *fleet, enum role role)
{
    for (size_t i = 0; i < plan->n_chosen; i++)
        if (fleet->workers[plan->chosen[i]].role == role)
            return true;
    return false;
}

/* The number of a worker's server among the chosen; -1: none. */
static int64_t plan_find_server(const struct job_plan *plan, const struct fleet *fleet,
                                const struct worker *w)
{
    for (size_t i = 0; i < plan->n_chosen; i++)
        if (streq(fleet->workers[plan->chosen[i]].url, w->ranks_of))
            return (int64_t)plan->chosen[i];
    return -1;
}

/*
 * Ranks without a server are recorded with their server, on a host whose profd sees them. A directory that their server writes
 * to as well has all files of the group, and is looked at once.
 */
static bool ranks_are_chosen(const struct job_plan *plan, const struct fleet *fleet,
                             const struct job_request *request, const struct worker *w)
{
    int64_t server = plan_find_server(plan, fleet, w);

    if (request->lease)
        return true;
    return server >= 0 && !shared_dir_is_same(&w->shared, &fleet->workers[server].shared);
}

/* What two hosts report as theirs is not recorded. */
static bool ranks_are_fit(struct job_plan *plan, const struct worker *w)
{
    if (!w->profilable)
        plan_skip(plan, w, w->reason ? w->reason : "cannot be profiled", w->remedy);
    return w->profilable;
}

static void plan_choose(struct job_plan *plan, const struct fleet *fleet, const struct job_request *request)
{
    plan->chosen = xcalloc(fleet->n_workers, sizeof(*plan->chosen));
    for (size_t i = 0; i < fleet->n_workers; i++) {
        const struct worker *w = &fleet->workers[i];
        if (worker_is_watched(w)) {
            if (ranks_are_chosen(plan, fleet, request, w) && ranks_are_fit(plan, w))
                plan->chosen[plan->n_chosen++] = i;
            continue;
        }
        if (!job_request_matches(request, w) || server_is_chosen(plan, fleet, w) || !is_fit(plan, request, w))
            continue;
        if (request->one_per_role && !worker_is_on_demand(w) && role_is_taken(plan, fleet, w->role))
            continue;
        if (request->count > 0 && plan->n_chosen == (size_t)request->count)
            continue;
        plan->chosen[plan->n_chosen++] = i;
    }
}

static bool is_listed(const struct fleet *fleet, const struct job_request *request, size_t only)
{
    struct job_request one = {.role = -1, .only = &request->only[only], .n_only = 1};
    for (size_t i = 0; i < fleet->n_workers; i++)
        if (job_request_matches(&one, &fleet->workers[i]))
            return true;
    return false;
}

/* A worker that the request names but that is not listed is reported. */
static void plan_skip_unlisted(struct job_plan *plan, const struct fleet *fleet,
                               const struct job_request *request)
{
    for (size_t i = 0; i < request->n_only; i++) {
        const struct worker unlisted = {.url = request->only[i]};
        if (!is_listed(fleet, request, i))
            plan_skip(plan, &unlisted, "is not listed by the router or fleet",
                      "profctl list-workers shows what is.");
    }
}

/* Whether hosts see the ranks of its other nodes, or all nodes write to one directory. */
static bool server_has_ranks(const struct fleet *fleet, const struct worker *server)
{
    for (size_t i = 0; i < fleet->n_workers; i++)
        if (worker_is_watched(&fleet->workers[i]) && fleet->workers[i].profilable &&
            streq(fleet->workers[i].ranks_of, server->url))
            return true;
    return false;
}

/* Asks each engine what it cannot honour. Returns the first remark that refuses, as an index, or -1. */
static int plan_review_all(struct job_plan *plan, const struct fleet *fleet,
                           const struct job_request *request)
{
    for (size_t i = 0; i < plan->n_chosen; i++) {
        const struct worker *w = &fleet->workers[plan->chosen[i]];
        struct review review = {0};
        if (worker_is_watched(w))
            continue; /* its server is asked */
        const struct engine_ops *ops = worker_ops(w);
        if (request->recording.prompt && !ops->request_path)
            review_add(&review, true, "--prompt", "profctl start records it while it serves.",
                       "%s cannot record a single request", engine_name(w->engine));
        const struct recording recording = job_request_recording(request, w->role);
        struct worker reviewed = *w; /* with what it borrows */
        if (server_has_ranks(fleet, w))
            reviewed.sizes.nodes = 1; /* nothing is left on the others */
        ops->review(&recording, &reviewed, &review);
        if (request->when_running > 0 && ops->on_demand)
            review_add(&review, true, "--when-running",
                       "Leave it out, or record the processes in a session of their own.",
                       "a PyTorch process does not report requests");
        for (size_t k = 0; k < review.n; k++)
            plan_add_review(plan, w, &review.items[k]);
        review_done(&review);
    }
    size_t i;
    json_t *remark;
    json_array_foreach(plan->remarks, i, remark)
        if (json_get_bool(remark, "refuses", false))
            return (int)i;
    return -1;
}

static int nothing_left(const struct job_plan *plan, const struct fleet *fleet,
                        const struct job_request *request, struct problem *p)
{
    const json_t *first = json_array_get(plan->skipped, 0);
    const char *source = fleet->router ? fleet->router : "the list";

    if (fleet->n_workers == 0 && request->source.processes.wanted) {
        problem_set(p, -EINVAL, PROBLEM_NO_WORKERS, "%s",
                    fleet->n_notes > 0 ? fleet->notes[fleet->n_notes - 1].text : "no process has registered");
        problem_remedy(
            p, "profctl list-workers --kineto lists the processes that registered; a process registers "
               "within 5 s of its start.");
    } else if (fleet->n_workers == 0) {
        problem_set(p, -EINVAL, PROBLEM_NO_WORKERS, "%s lists no workers", source);
        problem_remedy(
            p, "Workers register with the router when they are up; name them by --worker URL meanwhile.");
    } else if (!first) {
        problem_set(p, -EINVAL, PROBLEM_NO_WORKERS, "none of the %zu workers of %s is one that was asked for",
                    fleet->n_workers, source);
        problem_remedy(p, "profctl list-workers shows their URLs and roles.");
    } else {
        _cleanup_(freep) char *whom =
            fleet->n_workers == 1 ? xasprintf("the only worker of %s cannot", source)
                                  : xasprintf("none of the %zu workers of %s can", fleet->n_workers, source);
        problem_set(p, -EINVAL, PROBLEM_NO_WORKERS, "%s be recorded: %s %s", whom,
                    json_get_str(first, "worker"), json_get_str(first, "reason"));
        const char *remedy = json_get_str(first, "remedy");
        if (remedy)
            problem_remedy(p, "%s", remedy);
    }
    return -EINVAL;
}

/* -- Whether the traces can be collected -- */

static void add_uncollected_remarks(struct job_plan *plan, const struct checks *uncollected)
{
    for (size_t i = 0; i < uncollected->n; i++) {
        const struct doctor_check *c = &uncollected->items[i];
        for (size_t k = 0; k < c->n_workers; k++) {
            const struct worker w = {.url = c->workers[k]};
            _cleanup_(freep) char *text = xasprintf("traces cannot be collected: %s", c->text[c->wording]);
            const struct remark remark = {.text = text, .remedy = c->remedy[c->wording]};
            plan_add_review(plan, &w, &remark);
        }
    }
}

static int refuse_uncollected(const struct job_plan *plan, const struct checks *here, struct problem *p)
{
    const struct doctor_check *first = &here->items[0];
    const char *remedy = first->remedy[first->wording];
    _cleanup_(freep) char *subject = check_subject(first), *all = NULL;

    /* The first reason is printed; with others, whose it is. */
    if (first->n_workers < plan->n_chosen)
        all = xasprintf("%zu workers: ", plan->n_chosen);
    problem_set(p, -EINVAL, PROBLEM_UNCOLLECTED, "no traces could be collected: %s%s: %s%s", all ? all : "",
                subject, first->text[first->wording], all ? " (profctl doctor lists the other reasons)" : "");
    problem_remedy(
        p,
        "%s%s\nor record without collecting them, with --allow-uncollected: they stay where they are written",
        strstr(remedy, "--trace-dir")
            ? ""
            : "--trace-dir DIR: the directory on profd's host where they appear\nor ",
        remedy);
    return -EINVAL;
}

/*
 * A recording of which nothing can be collected makes engines flush for nothing: it is refused where the
 * reason lies on this host, where it can be removed. Of other hosts, and of a part of the workers, it is a
 * warning.
 */
static int plan_check_collection(struct job_plan *plan, const struct fleet *fleet,
                                 const struct job_request *request, struct problem *p)
{
    _cleanup_(checks_done) struct checks here = {0}, elsewhere = {0};
    bool only_cuda = request->recording.activities == ACTIVITY_CUDA_PROFILER;
    size_t n_possible = 0;
    int r = 0;

    for (size_t i = 0; i < plan->n_chosen && !only_cuda; i++) {
        const struct worker *w = &fleet->workers[plan->chosen[i]];
        const char *reason, *remedy;
        enum worker_collection collection = worker_collection(w, &reason, &remedy);
        if (collection == COLLECTION_BLOCKED_HERE || collection == COLLECTION_BLOCKED_ELSEWHERE)
            checks_add(collection == COLLECTION_BLOCKED_HERE ? &here : &elsewhere, CHECK_WARN, w, remedy,
                       "%s", reason);
        else
            n_possible++;
    }
    add_uncollected_remarks(plan, &here);
    add_uncollected_remarks(plan, &elsewhere);
    if (here.n > 0 && n_possible == 0 && !request->allow_uncollected)
        r = refuse_uncollected(plan, &here, p);
    return r;
}

/* -- What processes claim -- */

/* The first process that was chosen of the same job. */
static const struct worker *first_of_job(const struct job_plan *plan, const struct fleet *fleet, int64_t job)
{
    for (size_t i = 0; i < plan->n_chosen; i++) {
        const struct worker *w = &fleet->workers[plan->chosen[i]];
        if (worker_is_on_demand(w) && w->process.slurm_job == job)
            return w;
    }
    return NULL;
}

/* A process says of which Slurm job it is: another user's can so get into a session that is chosen by job. */
static void plan_remark_claims(struct job_plan *plan, const struct fleet *fleet,
                               const struct process_query *q)
{
    for (size_t i = 0; i < plan->n_chosen && q->n_jobs > 0 && q->n_uids == 0; i++) {
        const struct worker *w = &fleet->workers[plan->chosen[i]];
        const struct worker *first =
            worker_is_on_demand(w) ? first_of_job(plan, fleet, w->process.slurm_job) : NULL;
        if (!first || first->uid == w->uid)
            continue;
        plan_add_remark(plan, w->url, "Choose the processes of one user: --uid UID.",
                        "claims Slurm job %" PRId64 ", and belongs to uid %u, while others of the "
                        "job belong to uid %u; a process sets its job itself",
                        w->process.slurm_job, (unsigned)w->uid, (unsigned)first->uid);
        return;
    }
}

int session_plan_make(const struct fleet *fleet, const struct job_request *request, struct job_plan *ret,
                      struct problem *p)
{
    struct job_plan plan = {.skipped = json_array(), .remarks = json_array()};
    int r = 0;

    plan_choose(&plan, fleet, request);
    plan_skip_unlisted(&plan, fleet, request);
    int refusing = plan_review_all(&plan, fleet, request);
    if (plan.n_chosen == 0) {
        r = nothing_left(&plan, fleet, request, p);
    } else if (refusing >= 0) {
        const json_t *remark = json_array_get(plan.remarks, (size_t)refusing);
        const char *option = json_get_str(remark, "option"), *remedy = json_get_str(remark, "remedy");
        r = problem_set(p, -EINVAL, PROBLEM_UNSUPPORTED, "%s%s%s: %s", option ? option : "",
                        option ? " on " : "", json_get_str(remark, "worker"), json_get_str(remark, "text"));
        if (remedy)
            problem_remedy(p, "%s", remedy);
    } else if (request->require_all && json_array_size(plan.skipped) > 0) {
        const json_t *first = json_array_get(plan.skipped, 0);
        r = problem_set(p, -EINVAL, PROBLEM_NO_WORKERS, "all workers are required, and %s %s",
                        json_get_str(first, "worker"), json_get_str(first, "reason"));
        problem_remedy(p, "%s",
                       json_get_str(first, "remedy") ? json_get_str(first, "remedy")
                                                     : "Leave --require-all out.");
    } else {
        plan_remark_claims(&plan, fleet, &request->source.processes);
        r = plan_check_collection(&plan, fleet, request, p);
    }
    *ret = plan;
    return r;
}
