/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system server of a Dynamo worker that runs SGLang: every worker lists all of them, starts and stops are
 * routes that the engine registered, under paths of one of two generations.
 */
#include "base/alloc.h"
#include "base/json.h"
#include "tests/fleet/fault-fleet.h"

#define STEP_S        0.010
#define NUM_STEPS_MAX 1000000

static void metrics_endpoints(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < w->fleet->n_workers; i++) {
        _cleanup_(freep) char *url = worker_url(&w->fleet->workers[i]);
        _cleanup_(freep) char *listed = xasprintf("%s/metrics", url);
        json_array_append_new(list, json_pack("{s:s, s:i, s:s, s:[]}", "namespace", "dynamo", "instance_id",
                                              (int)i, "url", listed, "gpu_uuids"));
    }
    worker_answer_json(w, c, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

static void metrics(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    worker_answer(w, c, 200, "text/plain; version=0.0.4",
                  "# TYPE dynamo_component_requests_total counter\n"
                  "dynamo_component_requests_total{dynamo_namespace=\"dynamo\"} 12\n"
                  "sglang:num_running_reqs{model_name=\"fault-model\"} 4.0\n"
                  "sglang:num_queue_reqs{model_name=\"fault-model\"} 0.0\n");
}

static void no_route(struct worker *w, struct http_conn *c)
{
    worker_answer(w, c, 404, dynamo_engine.type, dynamo_engine.not_found);
}

static void start(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    char error[200];
    _cleanup_json_ body = q->body_size ? json_parse(q->body, q->body_size, error) : json_object();
    const char *dir = json_get_str(body, "output_dir"), *id = json_get_str(body, "profile_id");
    int64_t n_steps = json_get_int(body, "num_steps", 0);

    if (!json_is_object(body)) {
        worker_answer(w, c, 400, dynamo_engine.type,
                      "{\"error\":\"Invalid JSON\",\"message\":\"expected value\"}");
        return;
    }
    struct recording *r = xcalloc(1, sizeof(*r));
    r->dir = xstrdup(dir ? dir : w->dir);
    r->profile_id = xstrdup(id ? id : "0");
    profile_start(w, c, r);
    if (w->recording && n_steps > 0)
        profile_stop_after(w, (double)MIN(n_steps, NUM_STEPS_MAX) * STEP_S);
}

static void stop(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    profile_stop(w, c, 500);
}

static void newer_start(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    if (worker_has(w, FAULT_OLDER_PATHS))
        no_route(w, c);
    else
        start(w, c, q);
}

static void newer_stop(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    if (worker_has(w, FAULT_OLDER_PATHS))
        no_route(w, c);
    else
        stop(w, c, q);
}

static void older_start(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    if (worker_has(w, FAULT_OLDER_PATHS))
        start(w, c, q);
    else
        no_route(w, c);
}

static void older_stop(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    if (worker_has(w, FAULT_OLDER_PATHS))
        stop(w, c, q);
    else
        no_route(w, c);
}

static char *trace_name(struct fleet *f, const struct recording *r, unsigned rank, const char *stage,
                        bool copy)
{
    return xasprintf("%s%s-TP-%u", r->profile_id, copy ? "-copy" : "", rank);
}

static const struct route routes[] = {
    {"/metrics_endpoints", "GET", metrics_endpoints},
    {"/metrics", "GET", metrics},
    {"/health", "GET", worker_health},
    {"/live", "GET", worker_health},
    {"/engine/control/start_profile", "GET POST", newer_start},
    {"/engine/control/stop_profile", "GET POST", newer_stop},
    {"/engine/start_profile", "GET POST", older_start},
    {"/engine/stop_profile", "GET POST", older_stop},
};

const struct engine_ops dynamo_engine = {
    .name = "dynamo",
    .routes = routes,
    .n_routes = ARRAY_SIZE(routes),
    .type = "text/plain; charset=utf-8",
    .started = "{\"status\":\"ok\",\"message\":\"Profiling started\"}",
    .stopped = "{\"status\":\"ok\",\"message\":\"Profiling stopped\"}",
    .failed = "{\"error\":\"Handler error\",\"message\":\"the engine refused\"}",
    .not_found = "{\"error\":\"Route not found\",\"message\":\"no such route is registered\"}",
    .trace_name = trace_name,
    .trace_suffix = ".trace.json",
};
