/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/jobs.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>

void job_plan_done(struct job_plan *plan)
{
    free(plan->chosen);
    json_decref(plan->skipped);
    json_decref(plan->remarks);
    *plan = (struct job_plan){0};
}

void job_explain(char **reason, char **remedy, const char *new_remedy, const char *format, va_list ap)
{
    if (*reason)
        return;
    *reason = xvasprintf(format, ap);
    replace_str(remedy, new_remedy);
}

struct live_job *jobs_find(const struct jobs *jobs, int64_t id)
{
    struct live_job *job;

    TAILQ_FOREACH(job, &jobs->list, next)
        if (job->id == id)
            return job;
    return NULL;
}

unsigned jobs_count(const struct jobs *jobs)
{
    const struct live_job *job;
    unsigned n = 0;

    TAILQ_FOREACH(job, &jobs->list, next)
        n += !job->is_over;
    return n;
}

int jobs_stop(struct jobs *jobs, int64_t id, const char *actor)
{
    struct live_job *job = jobs_find(jobs, id);

    if (!job || !job->created || job->is_over)
        return -ENOENT;
    jobs->ops->stop(job, actor);
    return 0;
}

int jobs_read(struct jobs *jobs, int64_t id, bool full, json_t **ret)
{
    return jobs->ops->read(jobs, id, full, ret);
}

/* -- Refusals ----------------------------------------------------------------------------------------- */

static int job_storage_problem(const struct jobs *jobs, int err, struct problem *p)
{
    return catalog_problem(jobs->catalog, err, p, "the catalog cannot store the %s", jobs->ops->noun);
}

int job_check_limits(const struct jobs *jobs, const struct job_request *request, struct problem *p)
{
    if (jobs->closing)
        return problem_set(p, -ESHUTDOWN, PROBLEM_CONFLICT, "profd is stopping");
    int r = catalog_probe(jobs->catalog);
    if (r < 0)
        return job_storage_problem(jobs, r, p);
    unsigned n = jobs_count(jobs);
    if (n >= jobs->ops->maximum(jobs)) {
        problem_set(p, -EAGAIN, PROBLEM_TOO_MANY, "%u %s%s in progress, which is the maximum", n,
                    jobs->ops->noun, n == 1 ? " is" : "s are");
        problem_remedy(p, "%s", jobs->ops->limit_remedy);
        return -EAGAIN;
    }
    return jobs->ops->check_request ? jobs->ops->check_request(jobs, request, p) : 0;
}

/* -- Creation ----------------------------------------------------------------------------------------- */

static void job_creation_free(struct job_creation *c)
{
    if (c->refusal)
        event_free(c->refusal);
    if (c->discovery)
        discovery_cancel(c->discovery);
    if (c->inquiry)
        c->jobs->ops->inquire_cancel(c);
    fleet_free(c->fleet);
    job_plan_done(&c->plan);
    job_request_done(&c->request);
    json_decref(c->options);
    free(c->actor);
    free(c);
}

/* With an id, or with the problem. */
static void job_creation_answer(struct job_creation *c, int64_t id, const struct problem *problem)
{
    const struct job_created created = {
        .id = id, .problem = problem, .remarks = c->plan.remarks, .skipped = c->plan.skipped};

    if (!c->cancelled)
        c->done(&created, c->arg);
    job_creation_free(c);
}

static void jobs_on_begin(evutil_socket_t fd, short what, void *arg)
{
    struct jobs *jobs = arg;
    struct live_job *job, *next;

    for (job = TAILQ_FIRST(&jobs->list); job; job = next) {
        next = TAILQ_NEXT(job, next);
        bool begins = job->begins && !job->is_over;
        job->begins = false;
        if (begins)
            jobs->ops->begin(job);
    }
}

/* After a look at all connections: both the answer and the begin take long for thousands of workers. */
static void job_begin_soon(struct jobs *jobs, struct live_job *job)
{
    const struct timeval next_iteration = {0};

    job->begins = true;
    if (!jobs->begin)
        jobs->begin = evtimer_new(jobs->base, jobs_on_begin, jobs);
    if (!jobs->begin)
        abort(); /* as base/alloc.h */
    event_add(jobs->begin, &next_iteration);
}

static void job_on_committed(int err, void *arg)
{
    struct job_creation *c = arg;
    struct jobs *jobs = c->jobs;
    struct live_job *job = jobs_find(jobs, c->id);

    if (err < 0) {
        _cleanup_(problem_done) struct problem p = {0};
        job_storage_problem(jobs, err, &p);
        jobs->ops->drop(job);
        job_creation_answer(c, 0, &p);
        return;
    }
    job->created = true;
    if (c->cancelled) {
        jobs_stop(jobs, job->id, "its requester, who left");
        job_creation_free(c);
        return;
    }
    job_creation_answer(c, job->id, NULL);
    job_begin_soon(jobs, job);
}

static void job_creation_add(struct job_creation *c)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct jobs *jobs = c->jobs;

    if (job_check_limits(jobs, &c->request, &p) < 0 || jobs->ops->check(c, &p) < 0) {
        job_creation_answer(c, 0, &p);
        return;
    }
    c->id = jobs->ops->add(c);
    if (c->id < 0) {
        job_storage_problem(jobs, (int)c->id, &p);
        job_creation_answer(c, 0, &p);
        return;
    }
    catalog_then(jobs->catalog, false, job_on_committed, c);
}

void job_creation_continue(struct job_creation *c, const struct problem *problem)
{
    c->inquiry = NULL;
    if (problem)
        job_creation_answer(c, 0, problem);
    else
        job_creation_add(c);
}

static void job_on_fleet(struct fleet *fleet, const struct problem *problem, void *arg)
{
    struct job_creation *c = arg;
    _cleanup_(problem_done) struct problem p = {0};

    c->discovery = NULL;
    c->fleet = fleet;
    if (!fleet)
        job_creation_answer(c, 0, problem);
    else if (c->jobs->ops->choose(c, &p) < 0)
        job_creation_answer(c, 0, &p);
    else if (!c->jobs->ops->inquire || !c->jobs->ops->inquire(c))
        job_creation_add(c);
}

static void job_on_refusal(evutil_socket_t fd, short what, void *arg)
{
    struct job_creation *c = arg;
    _cleanup_(problem_done) struct problem p = {0};

    job_check_limits(c->jobs, &c->request, &p);
    if (p.kind == PROBLEM_NONE)
        problem_set(&p, -EAGAIN, PROBLEM_TOO_MANY, "profd was at a limit a moment ago");
    job_creation_answer(c, 0, &p);
}

struct job_creation *job_create(struct jobs *jobs, struct job_request *take_request, json_t *options,
                                const char *actor, void (*done)(const struct job_created *created, void *arg),
                                void *arg)
{
    struct job_creation *c = xcalloc(1, sizeof(*c));
    _cleanup_(problem_done) struct problem p = {0};

    *c = (struct job_creation){.jobs = jobs,
                               .request = *take_request,
                               .options = json_incref(options),
                               .actor = xstrdup(actor),
                               .done = done,
                               .arg = arg};
    *take_request = (struct job_request){0};
    if (job_check_limits(jobs, &c->request, &p) < 0) {
        c->refusal = event_new(jobs->base, -1, 0, job_on_refusal, c);
        event_active(c->refusal, EV_TIMEOUT, 0);
        return c;
    }
    c->discovery = fleet_discover(jobs->finder, &c->request.source, job_on_fleet, c);
    return c;
}

void job_creation_cancel(struct job_creation *c)
{
    if (c->refusal || c->discovery || c->inquiry)
        job_creation_free(c);
    else
        c->cancelled = true;
}

/* -- Shutdown ----------------------------------------------------------------------------------------- */

void jobs_shutdown_finish(struct jobs *jobs)
{
    void (*done)(void *arg) = jobs->shutdown_done;

    jobs->shutdown_done = NULL;
    if (!done)
        return;
    if (jobs->ops->shutdown_over)
        jobs->ops->shutdown_over(jobs);
    done(jobs->shutdown_arg);
}

static bool jobs_delay_shutdown(const struct jobs *jobs)
{
    const struct live_job *job;

    TAILQ_FOREACH(job, &jobs->list, next)
        if (jobs->ops->delays_shutdown(job))
            return true;
    return false;
}

void jobs_check_shutdown(struct jobs *jobs)
{
    if (jobs->shutdown_done && !jobs_delay_shutdown(jobs))
        jobs_shutdown_finish(jobs);
}

static void jobs_on_shutdown_late(evutil_socket_t fd, short what, void *arg)
{
    jobs_shutdown_finish(arg);
}

void jobs_shutdown(struct jobs *jobs, int64_t deadline_ns, void (*done)(void *arg), void *arg)
{
    struct live_job *job, *next;

    jobs->closing = true;
    for (job = TAILQ_FIRST(&jobs->list); job; job = next) {
        next = TAILQ_NEXT(job, next);
        jobs->ops->shutdown(job);
    }
    struct timeval tv = timeval_until(jobs_delay_shutdown(jobs) ? deadline_ns : 0);
    jobs->shutdown_done = done;
    jobs->shutdown_arg = arg;
    jobs->shutdown_timer = evtimer_new(jobs->base, jobs_on_shutdown_late, jobs);
    event_add(jobs->shutdown_timer, &tv);
}

void jobs_done(struct jobs *jobs)
{
    jobs->shutdown_done = NULL;
    if (jobs->shutdown_timer)
        event_free(jobs->shutdown_timer);
    if (jobs->begin)
        event_free(jobs->begin);
}
