/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of workloads: list, start, show, stop, remove. */
#include "base/alloc.h"
#include "daemon/api/api_internal.h"
#include "daemon/catalog/records.h"
#include <errno.h>
#include <inttypes.h>

static void reply_run(struct api *api, struct http_request *r, int status, int64_t id)
{
    json_t *run;

    int err = catalog_run_json(api->modules.catalog, id, &run);
    if (err == -ENOENT) {
        reply_missing(r, 'r', id);
        return;
    }
    if (err < 0) {
        reply_error(api, r, err, "read the run");
        return;
    }
    runs_describe(api->modules.runs, id, run);
    http_reply_json(r, status, run);
}

void list_runs(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(problem_done) struct problem p = {0};
    int64_t limit = LIST_LIMIT_DEFAULT, before = RECORD_NONE, session = RECORD_NONE;
    json_t *runs;

    if (query_number(r, "limit", 1, LIST_LIMIT_MAX, &limit, &p) < 0 ||
        query_ref(r, "before", 'r', &before, &p) < 0 || query_ref(r, "session", 's', &session, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    int err = catalog_runs_json(api->modules.catalog, limit, before, session, &runs);
    if (err < 0) {
        reply_error(api, r, err, "list the runs");
        return;
    }
    runs_describe_list(api->modules.runs, runs);
    json_t *body = json_object();
    json_object_set_new(body, "runs", runs);
    http_reply_json(r, 200, body);
}

/* -- Start -------------------------------------------------------------------------------------------- */

struct starting {
    struct http_request *request;
    struct run_order *order;
};

static void on_client_left(struct http_request *r, void *arg)
{
    struct starting *s = arg;

    run_order_cancel(s->order);
    free(s);
}

static void on_started(int64_t run_id, const struct problem *p, void *arg)
{
    struct starting s = *(struct starting *)arg;

    free(arg);
    http_on_close(s.request, NULL, NULL);
    if (run_id == 0) {
        http_reply_problem(s.request, p);
        return;
    }
    json_t *body = json_object();
    json_put_int(body, "run", run_id);
    http_reply_json(s.request, 202, body);
}

void start_run(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(start_request_done) struct start_request request = {0};
    _cleanup_(freep) char *actor = request_actor(r);
    _cleanup_json_ body = NULL;

    int err = body_object(r, &body, &p);
    if (err == 0)
        err = run_request_parse(body, &request, &p);
    if (err == 0)
        err = source_complete(api, &request.source, &p);
    if (err < 0) {
        http_reply_problem(r, &p);
        return;
    }
    struct starting *s = xcalloc(1, sizeof(*s));
    s->request = r;
    s->order = runs_start(api->modules.runs, &request, actor, on_started, s);
    http_on_close(r, on_client_left, s);
}

/* -- One run ------------------------------------------------------------------------------------------ */

void get_run(struct api *api, struct http_request *r, int64_t id)
{
    reply_run(api, r, 200, id);
}

void stop_run(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(run_record_done) struct run_record record;
    _cleanup_(freep) char *actor = request_actor(r);

    run_record_init(&record);
    if (runs_stop(api->modules.runs, id, actor) == 0) {
        reply_run(api, r, 200, id);
        return;
    }
    int err = catalog_get_run(api->modules.catalog, id, &record);
    if (err == -ENOENT)
        reply_missing(r, 'r', id);
    else if (err < 0)
        reply_error(api, r, err, "read the run");
    else
        reply_refused(r, PROBLEM_CONFLICT, NULL, "run r%" PRId64 " is over: it is %s", id,
                      run_state_name(runs_state(api->modules.runs, id, record.state)));
}

void remove_run(struct api *api, struct http_request *r, int64_t id)
{
    _cleanup_(freep) char *actor = request_actor(r);

    int err = runs_remove(api->modules.runs, id, actor);
    if (err == -ENOENT) {
        reply_missing(r, 'r', id);
    } else if (err == -EINPROGRESS) {
        _cleanup_(freep) char *remedy = xasprintf("profctl stop r%" PRId64 " ends it.", id);
        reply_refused(r, PROBLEM_CONFLICT, remedy, "run r%" PRId64 " is not over", id);
    } else if (err < 0) {
        reply_error(api, r, err, "remove the run");
    } else {
        json_t *body = json_object();
        json_put_int(body, "removed", 1);
        http_reply_json(r, 200, body);
    }
}
