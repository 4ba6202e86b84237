/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SGLang: the body of a start says where traces go and how they are called, GET starts too, a second start
 * and an idle stop are errors, and a recording of num_steps ends by itself.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "tests/fleet/fault-fleet.h"

#define VERSION       "0.5.9"
#define STEP_S        0.010
#define NUM_STEPS_MAX 1000000

static void older_server_info(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    const char *mode = w->role == ROLE_REGULAR ? "null" : role_name(w->role);
    /* The real answer gives its keys away, too. */
    worker_answer_json(w, c,
                       json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:s?, s:s, s:n, s:b, s:s, s:n, s:[{}]}",
                                 "version", VERSION, "model_path", "fault-model", "tp_size",
                                 (int)(w->fleet->n_ranks * w->fleet->n_nodes), "dp_size", 1, "pp_size", 1,
                                 "ep_size", 1, "nnodes", (int)w->fleet->n_nodes, "dist_init_addr",
                                 w->fleet->meet, "disaggregation_mode", mode, "speculative_algorithm",
                                 "enable_metrics", true, "api_key",
                                 worker_has(w, FAULT_AUTH) ? w->faults.token : "fault-worker-api-key",
                                 "admin_api_key", "internal_states"));
}

/* Versions before 0.5.6 know it as /get_server_info only. */
static void server_info(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    if (worker_has(w, FAULT_NO_SERVER_INFO))
        worker_answer(w, c, 404, "application/json", sglang_engine.not_found);
    else
        older_server_info(w, c, q);
}

static void models(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    worker_answer_json(w, c,
                       json_pack("{s:s, s:[{s:s, s:s, s:s}]}", "object", "list", "data", "id", "fault-model",
                                 "object", "model", "owned_by", "sglang"));
}

static void model_info(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    worker_answer_json(w, c, json_pack("{s:s, s:b}", "model_path", "fault-model", "is_generation", true));
}

static void metrics(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    bool idle = worker_has(w, FAULT_IDLE) || worker_has(w, FAULT_SLEEPING);
    _cleanup_(freep) char *text = xasprintf("# TYPE sglang:num_running_reqs gauge\n"
                                            "sglang:num_running_reqs{model_name=\"fault-model\"} %d.0\n"
                                            "# TYPE sglang:num_queue_reqs gauge\n"
                                            "sglang:num_queue_reqs{model_name=\"fault-model\"} 0.0\n"
                                            "# TYPE sglang:gen_throughput gauge\n"
                                            "sglang:gen_throughput{model_name=\"fault-model\"} %d.0\n",
                                            idle ? 0 : 4, idle ? 0 : 400);
    worker_answer(w, c, 200, "text/plain; version=0.0.4; charset=utf-8", text);
}

static char *wall_seconds(void)
{
    int64_t now = wall_ns();
    return xasprintf("%lld.%07lld", (long long)(now / NS_PER_S), (long long)(now % NS_PER_S / 100));
}

static struct recording *recording_of(const struct worker *w, const json_t *body)
{
    const char *dir = json_get_str(body, "output_dir"), *id = json_get_str(body, "profile_id");
    struct recording *r = xcalloc(1, sizeof(*r));
    /* Without one, the server's SGLANG_TORCH_PROFILER_DIR, which is the worker's directory here. */
    r->dir = xstrdup(dir && *dir ? dir : w->dir);
    r->profile_id = id ? xstrdup(id) : wall_seconds();
    r->prefix = xstrdup(json_get_str(body, "profile_prefix"));
    r->by_stage = json_get_bool(body, "profile_by_stage", false);
    return r;
}

static void start(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    char error[200];
    _cleanup_json_ body = q->body_size ? json_parse(q->body, q->body_size, error) : json_object();
    if (!json_is_object(body)) {
        worker_answer(w, c, 400, "application/json", "{\"detail\":\"Invalid request body\"}");
        return;
    }
    if (w->recording) {
        worker_answer(w, c, 500, sglang_engine.type, sglang_engine.failed);
        return;
    }
    int64_t n_steps = json_get_int(body, "num_steps", 0);
    if (json_get_bool(body, "profile_by_stage", false) && n_steps <= 0) {
        /* The scheduler compares its counter with None and ends. */
        worker_die(w);
        return;
    }
    profile_start(w, c, recording_of(w, body));
    if (w->recording && n_steps > 0)
        profile_stop_after(w, (double)MIN(n_steps, NUM_STEPS_MAX) * STEP_S);
}

static void stop(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    profile_stop(w, c, 500);
}

static char *trace_name(struct fleet *f, const struct recording *r, unsigned rank, const char *stage,
                        bool copy)
{
    return xasprintf("%s%s%s%s-TP-%u%s%s", r->prefix ? r->prefix : "", r->prefix ? "-" : "", r->profile_id,
                     copy ? "-copy" : "", rank, stage ? "-" : "", stage ? stage : "");
}

static const struct route routes[] = {
    {"/server_info", "GET", server_info},
    {"/get_server_info", "GET", older_server_info},
    {"/model_info", "GET", model_info},
    {"/get_model_info", "GET", model_info},
    {"/v1/models", "GET", models},
    {"/health", "GET", worker_health},
    {"/health_generate", "GET", worker_health},
    {"/metrics", "GET", metrics},
    {"/start_profile", "GET POST", start},
    {"/stop_profile", "GET POST", stop},
};

const struct engine_ops sglang_engine = {
    .name = "sglang",
    .routes = routes,
    .n_routes = ARRAY_SIZE(routes),
    .type = "text/plain; charset=utf-8",
    .started = "Start profiling.\n",
    .stopped = "Stop profiling. This will take some time.\n",
    .failed = "Internal Server Error",
    .not_found = "{\"detail\":\"Not Found\"}",
    .trace_name = trace_name,
    .trace_suffix = ".trace.json",
    .health_waits = true,
};
