/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and benchmark runs: list, start, show, stop, remove, pin. Both are jobs (daemon/jobs/jobs.h); what
 * differs between them is a struct job_routes for each, which the lines of the table of routes name.
 */
#include "base/alloc.h"
#include "daemon/api/handler.h"
#include "daemon/catalog/records.h"
#include <errno.h>
#include <inttypes.h>

struct job_routes {
    char letter; /* of its ids */
    enum listing_kind listing;
    const char *plural; /* also the member of a list */
    int started;        /* status of the reply to a start */
    struct jobs *(*jobs)(const struct api_modules *m);
    int (*parse)(const json_t *body, struct job_request *ret, struct problem *p);
    /* Those older than `before`, newest first; a parameter of the query that is wrong is a problem. */
    int (*list)(const struct api_modules *m, const struct http_request *r, int64_t limit, int64_t before,
                json_t **ret, struct problem *p);
    /* Of one that is over. */
    void (*remove)(struct api *api, struct http_request *r, const struct route_match *match,
                   const char *actor);
};

static int job_read(struct api *api, const struct route_match *match, int64_t id, json_t **ret)
{
    return jobs_read(match->route->job->jobs(&api->modules), id, true, ret);
}

/* Replies with the job, and with the remarks of its start (NULL: none). */
static void job_reply(struct api *api, struct http_request *r, const struct route_match *match, int status,
                      int64_t id, const struct job_created *created)
{
    const struct job_routes *kind = match->route->job;
    json_t *job;

    if (reply_failure(api, r, job_read(api, match, id, &job), kind->letter, id, "read"))
        return;
    if (created && created->remarks)
        json_object_set(job, "remarks", (json_t *)created->remarks);
    if (created && created->skipped)
        json_object_set(job, "skipped", (json_t *)created->skipped);
    http_reply_json(r, status, job);
}

void get_job(struct api *api, struct http_request *r, const struct route_match *match)
{
    job_reply(api, r, match, 200, match->id, NULL);
}

void list_jobs(struct api *api, struct http_request *r, const struct route_match *match)
{
    const struct job_routes *kind = match->route->job;
    _cleanup_(problem_done) struct problem p = {0};
    int64_t limit = LIST_LIMIT_DEFAULT, before = RECORD_NONE;
    json_t *jobs;

    if (list_searched(api, r, match, kind->listing))
        return;
    int err = query_number(r, "limit", 1, LIST_LIMIT_MAX, &limit, &p);
    if (err == 0)
        err = query_ref(api->modules.catalog, r, "before", kind->letter, &before, &p);
    if (err == 0)
        err = kind->list(&api->modules, r, limit, before, &jobs, &p);
    if (err == 0)
        reply_list(r, kind->plural, jobs);
    else if (p.kind != PROBLEM_NONE)
        http_reply_problem(r, &p);
    else
        reply_error(api, r, err, "list the %s", kind->plural);
}

/* -- Start -------------------------------------------------------------------------------------------- */

static void job_start_cancel(void *work)
{
    job_creation_cancel(work);
}

static void job_start_on_done(const struct job_created *created, void *arg)
{
    struct later_reply later;

    if (!later_reply_end(arg, &later))
        return;
    if (created->id == 0)
        reply_problem(later.request, 0, created->problem, "remarks", created->remarks);
    else
        job_reply(later.api, later.request, &later.match, later.match.route->job->started, created->id,
                  created);
}

void start_job(struct api *api, struct http_request *r, const struct route_match *match)
{
    const struct job_routes *kind = match->route->job;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(job_request_done) struct job_request request = {0};
    _cleanup_(freep) char *actor = request_actor(r);
    _cleanup_json_ options = NULL;

    int err = body_object(r, &options, &p);
    if (err == 0)
        err = kind->parse(options, &request, &p);
    request_take_author(r, &request.source.processes);
    if (err == 0)
        err = source_complete(api, &request.source, &p);
    if (err < 0) {
        http_reply_problem(r, &p);
        return;
    }
    struct later_reply *later = later_reply_new(api, r, match);
    later->work = job_create(kind->jobs(&api->modules), &request, options, actor, job_start_on_done, later);
    later->cancel = job_start_cancel;
}

/* -- Stop and remove ---------------------------------------------------------------------------------- */

void stop_job(struct api *api, struct http_request *r, const struct route_match *match)
{
    const struct job_routes *kind = match->route->job;
    _cleanup_(freep) char *actor = request_actor(r);
    _cleanup_json_ job = NULL;

    if (jobs_stop(kind->jobs(&api->modules), match->id, actor) == 0)
        job_reply(api, r, match, 200, match->id, NULL);
    else if (!reply_failure(api, r, job_read(api, match, match->id, &job), kind->letter, match->id, "read"))
        reply_refused(r, PROBLEM_CONFLICT, NULL, "%s %c%" PRId64 " is over: it is %s",
                      record_noun(kind->letter), kind->letter, match->id, json_get_str(job, "state"));
}

/* Sessions and runs have the same final states. */
static bool job_state_is_final(const char *word)
{
    return state_from_name(word) >= (int)STATE_COMPLETE;
}

void remove_job(struct api *api, struct http_request *r, const struct route_match *match)
{
    const struct job_routes *kind = match->route->job;
    _cleanup_(freep) char *actor = request_actor(r);
    _cleanup_json_ job = NULL;

    if (reply_failure(api, r, job_read(api, match, match->id, &job), kind->letter, match->id, "read"))
        return;
    const char *state = json_get_str(job, "state");
    if (job_state_is_final(state)) {
        kind->remove(api, r, match, actor);
        return;
    }
    _cleanup_(freep) char *remedy =
        xasprintf("Stop it with profctl stop %c%" PRId64 ".", kind->letter, match->id);
    reply_refused(r, PROBLEM_CONFLICT, remedy, "%s %c%" PRId64 " is not over: it is %s",
                  record_noun(kind->letter), kind->letter, match->id, state);
}

/* -- Sessions ----------------------------------------------------------------------------------------- */

static struct jobs *session_jobs(const struct api_modules *m)
{
    return sessions_jobs(m->sessions);
}

static int session_list(const struct api_modules *m, const struct http_request *r, int64_t limit,
                        int64_t before, json_t **ret, struct problem *p)
{
    const char *state = http_query_get(r, "state");

    int err = sessions_list_json(m->sessions, limit, before, state, ret);
    if (err == -EINVAL) {
        problem_set(p, err, PROBLEM_BAD_REQUEST, "unknown session state '%s'", state);
        problem_remedy(p,
                       "Use requested, starting, recording, stopping, collecting, complete, partial, failed, "
                       "cancelled, or active for all sessions that are not over.");
    }
    return err;
}

static void session_on_removed(const struct store_removed *removed, void *arg)
{
    struct later_reply m;

    if (!later_reply_end(arg, &m) || reply_failure(m.api, m.request, removed->err, 's', m.match.id, "remove"))
        return;
    _cleanup_(freep) char *name = xasprintf("s%" PRId64, m.match.id);
    json_t *body = json_object();
    json_put_str(body, "removed", name);
    json_put_int(body, "freed", removed->bytes);
    if (removed->objects_deleted + removed->objects_left > 0) {
        json_put_int(body, "objects_deleted", removed->objects_deleted);
        json_put_int(body, "objects_left", removed->objects_left);
        json_put_str(body, "object_reason", removed->objects_reason);
    }
    http_reply_json(m.request, 200, body);
}

static void session_remove(struct api *api, struct http_request *r, const struct route_match *match,
                           const char *actor)
{
    if (sessions_find(api->modules.sessions, match->id))
        reply_refused(r, PROBLEM_CONFLICT,
                      "Try again; if the catalog's file system is full, free space there first.",
                      "the end of session s%" PRId64 " is not in the catalog yet", match->id);
    else
        store_remove_session(api->modules.store, match->id, actor, session_on_removed,
                             later_reply_new(api, r, match));
}

const struct job_routes session_routes = {
    .letter = 's',
    .listing = LISTING_SESSIONS,
    .plural = "sessions",
    .started = 201,
    .jobs = session_jobs,
    .parse = session_request_parse,
    .list = session_list,
    .remove = session_remove,
};

void set_session_pin(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(freep) char *actor = request_actor(r);
    bool pinned = http_method(r) == HTTP_PUT;

    int err = catalog_pin_session(api->modules.catalog, match->id, pinned);
    if (err == 0)
        err = catalog_add_event(api->modules.catalog, pinned ? "session-pinned" : "session-unpinned", actor,
                                match->id, RECORD_NONE, RECORD_NONE, "s%" PRId64, match->id);
    if (err == 0)
        err = catalog_commit(api->modules.catalog, false);
    if (!reply_failure(api, r, err, 's', match->id, "pin"))
        job_reply(api, r, match, 200, match->id, NULL);
}

/* -- Benchmark runs ----------------------------------------------------------------------------------- */

static struct jobs *run_jobs(const struct api_modules *m)
{
    return runs_jobs(m->runs);
}

static int run_list(const struct api_modules *m, const struct http_request *r, int64_t limit, int64_t before,
                    json_t **ret, struct problem *p)
{
    int64_t session = RECORD_NONE;

    int err = query_ref(m->catalog, r, "session", 's', &session, p);
    if (err == 0)
        err = catalog_runs_json(m->catalog, limit, before, session, ret);
    if (err == 0)
        runs_describe_list(m->runs, *ret);
    return err;
}

static void run_remove(struct api *api, struct http_request *r, const struct route_match *match,
                       const char *actor)
{
    if (!reply_failure(api, r, runs_remove(api->modules.runs, match->id, actor), 'r', match->id, "remove")) {
        json_t *body = json_object();
        json_put_int(body, "removed", 1);
        http_reply_json(r, 200, body);
    }
}

const struct job_routes run_routes = {
    .letter = 'r',
    .listing = LISTING_RUNS,
    .plural = "runs",
    .started = 202,
    .jobs = run_jobs,
    .parse = run_request_parse,
    .list = run_list,
    .remove = run_remove,
};
