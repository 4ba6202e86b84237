/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of NVIDIA Dynamo at their system status servers, with SGLang, vLLM or TensorRT-LLM in them, after
 * ai-dynamo/dynamo lib/runtime/src/system_status_server.rs, lib/bindings/python/rust/lib.rs (the texts of what a handler
 * raises) and components/src/dynamo/{sglang/request_handlers/handler_base.py,vllm/handlers.py}, read at wxsms/dynamo
 * 2a6da14c. Starts and stops are routes that the engine registered, under paths of one of two generations; TensorRT-LLM
 * registers none.
 */
#include "base/alloc.h"
#include "base/json.h"
#include "tests/fleet/fault-fleet.h"

#define STEP_S        0.010
#define NUM_STEPS_MAX 1000000
#define JSON_AS_TEXT  "text/plain; charset=utf-8" /* what axum makes of a String */

static const char *engine_type(const struct worker *w)
{
    return w->role == ROLE_REGULAR ? "unified" : role_name(w->role);
}

/* Of Dynamo's runtime, and of the engine, whose registry Dynamo passes on. */
static void answer_metrics(struct worker *w, struct http_conn *c, const char *engine_metrics)
{
    _cleanup_(freep) char *text =
        xasprintf("# HELP dynamo_component_uptime_seconds Total uptime of the DistributedRuntime in seconds\n"
                  "# TYPE dynamo_component_uptime_seconds gauge\n"
                  "dynamo_component_uptime_seconds 33.5\n"
                  "# TYPE dynamo_component_requests_total counter\n"
                  "dynamo_component_requests_total{dynamo_component=\"backend\",dynamo_endpoint=\"generate\","
                  "dynamo_namespace=\"dynamo\",model=\"fault-model\"} 12\n%s",
                  engine_metrics);
    worker_answer(w, c, 200, JSON_AS_TEXT, text);
}

static int running(const struct worker *w)
{
    return worker_has(w, FAULT_IDLE) ? 0 : 4;
}

static void sglang_metrics(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    _cleanup_(freep) char *text =
        xasprintf("sglang:num_running_reqs{engine_type=\"%s\",model_name=\"fault-model\"} %d.0\n"
                  "sglang:num_queue_reqs{engine_type=\"%s\",model_name=\"fault-model\"} 0.0\n",
                  engine_type(w), running(w), engine_type(w));
    answer_metrics(w, c, text);
}

static void vllm_metrics(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    _cleanup_(freep) char *text =
        xasprintf("vllm:num_requests_running{engine=\"0\",model_name=\"fault-model\"} %d.0\n"
                  "vllm:num_requests_waiting{engine=\"0\",model_name=\"fault-model\"} 0.0\n"
                  "vllm:iteration_tokens_total_count{engine=\"0\",model_name=\"fault-model\"} %.1f\n",
                  running(w), (double)(int64_t)worker_iterations(w));
    answer_metrics(w, c, text);
}

static void trtllm_metrics(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    answer_metrics(w, c,
                   "trtllm_request_success_total{model_name=\"fault-model\",engine_type=\"trtllm\"} 7.0\n");
}

static void health(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    bool healthy = !worker_has(w, FAULT_UNHEALTHY);

    worker_answer(w, c, healthy ? 200 : 503, JSON_AS_TEXT,
                  healthy ? "{\"status\":\"ready\",\"uptime\":{\"secs\":33,\"nanos\":0},"
                            "\"endpoints\":{\"generate\":\"ready\"}}"
                          : "{\"status\":\"notready\",\"uptime\":{\"secs\":33,\"nanos\":0},"
                            "\"endpoints\":{\"generate\":\"notready\"}}");
}

static void metadata(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    worker_answer(w, c, 404, JSON_AS_TEXT, "Discovery metadata not available");
}

static void missing(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    if (!starts_with(q->path, "/engine/")) {
        worker_answer(w, c, 404, JSON_AS_TEXT, "Route not found");
        return;
    }
    _cleanup_(freep) char *message = xasprintf("Route %s not found", q->path);
    _cleanup_json_ body = json_pack("{s:s, s:s}", "error", "Route not found", "message", message);
    _cleanup_(freep) char *text = json_dumps(body, JSON_COMPACT);
    worker_answer(w, c, 404, JSON_AS_TEXT, text);
}

/* What a handler in Python raised. */
static void handler_error(struct worker *w, struct http_conn *c, const char *raised)
{
    _cleanup_(freep) char *message = xasprintf("Python callback failed: %s", raised);
    _cleanup_json_ body = json_pack("{s:s, s:s}", "error", "Handler error", "message", message);
    _cleanup_(freep) char *text = json_dumps(body, JSON_COMPACT);
    worker_answer(w, c, 500, JSON_AS_TEXT, text);
}

/* What a handler caught, which is an answer like any other. */
static void caught_error(struct worker *w, struct http_conn *c, const char *message)
{
    worker_answer_json(w, c, json_pack("{s:s, s:s}", "status", "error", "message", message));
}

/* The JSON of a request; NULL, and the answer to it, where there is none. */
static json_t *request_body(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    char error[200];
    json_t *body = q->body_size ? json_parse(q->body, q->body_size, error) : json_object();

    if (!body)
        worker_answer(w, c, 400, JSON_AS_TEXT,
                      "{\"error\":\"Invalid JSON\",\"message\":\"expected value at line 1 column 1\"}");
    return body;
}

/* The first key that the handler's callee has no argument for; NULL: it knows them all. */
static const char *unknown_key(const struct worker *w, const json_t *body)
{
    static const char *const known[] = {"output_dir",       "start_step",     "num_steps",     "activities",
                                        "profile_by_stage", "with_stack",     "record_shapes", "profile_id",
                                        "merge_profiles",   "profile_prefix", "profile_stages"};
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)body, key, value) {
        bool is_known = false;
        for (size_t i = 0; i < ARRAY_SIZE(known); i++)
            is_known = is_known || streq(known[i], key);
        if (!is_known || (worker_has(w, FAULT_OLDER_KEYS) && streq(key, "profile_id")))
            return key;
    }
    return NULL;
}

/* start_profile(**body) of an older SGLang, ProfileReq(**body) of a newer one. */
static void sglang_start(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    _cleanup_json_ body = request_body(w, c, q);
    if (!body)
        return;
    const char *dir = json_get_str(body, "output_dir"), *id = json_get_str(body, "profile_id"),
               *unknown = unknown_key(w, body);
    int64_t n_steps = json_get_int(body, "num_steps", 0);

    if (unknown) {
        _cleanup_(freep) char *raised =
            xasprintf("TypeError: %s() got an unexpected keyword argument '%s'",
                      worker_has(w, FAULT_OLDER_KEYS) ? "TokenizerCommunicatorMixin.start_profile"
                                                      : "ProfileReq.__init__",
                      unknown);
        handler_error(w, c, raised);
        return;
    }
    if (w->recording) {
        handler_error(w, c, "RuntimeError: Profiling is already in progress. Call /stop_profile first.");
        return;
    }
    struct recording *r = xcalloc(1, sizeof(*r));
    r->dir = xstrdup(dir ? dir : w->dir);
    /* Without one the engine takes the time. */
    int64_t stamp = fleet_stamp_ns(w->fleet);
    r->profile_id =
        id ? xstrdup(id)
           : xasprintf("%lld.%07lld", (long long)(stamp / 1000000000), (long long)(stamp % 1000000000 / 100));
    profile_start(w, c, r);
    if (w->recording && n_steps > 0)
        profile_stop_after(w, (double)MIN(n_steps, NUM_STEPS_MAX) * STEP_S);
}

static void sglang_stop(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    if (w->recording)
        profile_stop(w, c, 200);
    else
        handler_error(w, c, "RuntimeError: Profiling is not in progress. Call /start_profile first.");
}

/* The handler reads profile_prefix only, and gives what the engine raises as its answer. */
static void vllm_start(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    _cleanup_json_ body = request_body(w, c, q);
    if (!body)
        return;
    if (worker_has(w, FAULT_NO_PROFILER)) {
        caught_error(
            w, c,
            "Call to profile method failed: Profiling is not enabled. Please set --profiler-config to enable "
            "profiling. Example: '--profiler-config.profiler=torch "
            "--profiler-config.torch_profiler_dir=YOUR_DIR_PATH_TO_DUMP_TRACE'");
        return;
    }
    if (worker_has(w, FAULT_ERROR_IN_BODY)) {
        caught_error(w, c, "Call to profile method failed: profiler error");
        return;
    }
    if (w->recording) {
        worker_answer(w, c, 200, dynamo_vllm_engine.type, dynamo_vllm_engine.started);
        return;
    }
    struct recording *r = xcalloc(1, sizeof(*r));
    r->dir = xstrdup(w->dir);
    profile_start(w, c, r);
}

/* Its number is that of the stops that fail. */
static bool fails_in_body(struct worker *w)
{
    if (!worker_has(w, FAULT_STOP_ERROR_IN_BODY) || !w->recording ||
        w->n_failed_stops >= w->faults.number[FAULT_STOP_ERROR_IN_BODY])
        return false;
    w->n_failed_stops++;
    return true;
}

static void vllm_stop(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    if (fails_in_body(w))
        caught_error(w, c, "Call to profile method failed: RPC call to profile timed out.");
    else if (worker_has(w, FAULT_NO_PROFILER))
        caught_error(w, c, "Call to profile method failed: Profiling is not enabled.");
    else
        profile_stop(w, c, 200);
}

static bool is_older(const struct http_request *q)
{
    return !starts_with(q->path, "/engine/control/");
}

/* Each worker has the paths of one generation. */
#define OF_ITS_GENERATION(name)                                                                              \
    static void name##_route(struct worker *w, struct http_conn *c, const struct http_request *q)            \
    {                                                                                                        \
        if (is_older(q) == worker_has(w, FAULT_OLDER_PATHS) && !worker_has(w, FAULT_START_404))              \
            name(w, c, q);                                                                                   \
        else                                                                                                 \
            missing(w, c, q);                                                                                \
    }
OF_ITS_GENERATION(sglang_start)
OF_ITS_GENERATION(sglang_stop)
OF_ITS_GENERATION(vllm_start)
OF_ITS_GENERATION(vllm_stop)

static char *sglang_trace_name(struct fleet *f, const struct recording *r, unsigned rank, const char *stage,
                               bool copy)
{
    return xasprintf("%s%s-TP-%u", r->profile_id, copy ? "-copy" : "", rank);
}

static char *vllm_trace_name(struct fleet *f, const struct recording *r, unsigned rank, const char *stage,
                             bool copy)
{
    return vllm_engine.trace_name(f, r, rank, stage, copy);
}

#define ANY_METHOD "GET POST"
#define SYSTEM_ROUTES                                                                                        \
    {"/health", "GET", health}, {"/live", "GET", health},                                                    \
    {                                                                                                        \
        "/metadata", "GET", metadata                                                                         \
    }

static const struct route sglang_routes[] = {
    SYSTEM_ROUTES,
    {"/metrics", "GET", sglang_metrics},
    {"/engine/control/start_profile", ANY_METHOD, sglang_start_route},
    {"/engine/control/stop_profile", ANY_METHOD, sglang_stop_route},
    {"/engine/start_profile", ANY_METHOD, sglang_start_route},
    {"/engine/stop_profile", ANY_METHOD, sglang_stop_route},
};

static const struct route vllm_routes[] = {
    SYSTEM_ROUTES,
    {"/metrics", "GET", vllm_metrics},
    {"/engine/control/start_profile", ANY_METHOD, vllm_start_route},
    {"/engine/control/stop_profile", ANY_METHOD, vllm_stop_route},
    {"/engine/start_profile", ANY_METHOD, vllm_start_route},
    {"/engine/stop_profile", ANY_METHOD, vllm_stop_route},
};

static const struct route trtllm_routes[] = {
    SYSTEM_ROUTES,
    {"/metrics", "GET", trtllm_metrics},
};

#define DYNAMO_ANSWERS                                                                                       \
    .missing = missing, .not_found = "{\"error\":\"Route not found\",\"message\":\"no such route\"}",        \
    .component = "backend", .type = JSON_AS_TEXT,                                                            \
    .started = "{\"message\":\"Profiling started\",\"status\":\"ok\"}",                                      \
    .stopped = "{\"message\":\"Profiling stopped\",\"status\":\"ok\"}",                                      \
    .failed = "{\"error\":\"Handler error\",\"message\":\"Python callback failed: RuntimeError: profiler "   \
              "error\"}",                                                                                    \
    .trace_suffix = ".trace.json"

const struct engine_ops dynamo_engine = {
    .name = "dynamo",
    .routes = sglang_routes,
    .n_routes = ARRAY_SIZE(sglang_routes),
    .trace_name = sglang_trace_name,
    DYNAMO_ANSWERS,
};

const struct engine_ops dynamo_vllm_engine = {
    .name = "dynamo-vllm",
    .routes = vllm_routes,
    .n_routes = ARRAY_SIZE(vllm_routes),
    .trace_name = vllm_trace_name,
    DYNAMO_ANSWERS,
};

const struct engine_ops dynamo_trtllm_engine = {
    .name = "dynamo-trtllm",
    .routes = trtllm_routes,
    .n_routes = ARRAY_SIZE(trtllm_routes),
    .trace_name = sglang_trace_name,
    DYNAMO_ANSWERS,
};

/* -- The frontend -- */

static json_t *instance(const struct worker *w, const char *endpoint, bool nats)
{
    const char *component = w->role == ROLE_PREFILL ? "prefill" : w->fleet->engine->component;
    int64_t id = 7587893013432 + w->index;
    _cleanup_(freep) char *address =
        nats ? xasprintf("dynamo_%s.%s-%llx", component, endpoint, (unsigned long long)id)
             : xasprintf("127.0.0.1:%u/%llx/%s", 40000 + w->index, (unsigned long long)id, endpoint);

    return json_pack("{s:s, s:s, s:s, s:I, s:{s:s}}", "component", component, "endpoint", endpoint,
                     "namespace", "dynamo", "instance_id", (json_int_t)id, "transport",
                     nats ? "nats_tcp" : "tcp", address);
}

/* lib/llm/src/http/service/health.rs */
void dynamo_frontend_health(struct fleet *f, struct http_conn *c, const struct http_request *q)
{
    static const char *const endpoints[] = {"clear_kv_blocks", "generate"};
    json_t *instances = json_array(), *names = json_array();

    for (size_t e = 0; e < ARRAY_SIZE(endpoints); e++) {
        _cleanup_(freep) char *name = xasprintf("dyn://dynamo.%s.%s", f->engine->component, endpoints[e]);
        json_array_append_new(names, json_string(name));
        for (unsigned i = 0; i < f->n_workers; i++)
            json_array_append_new(
                instances, instance(&f->workers[i], endpoints[e], f->router_dialect == ROUTER_DYNAMO_NATS));
    }
    plain_answer_json(
        c, 200,
        json_pack("{s:s, s:o, s:o}", "status", "healthy", "endpoints", names, "instances", instances));
}

/* lib/rl/src/lib.rs */
void dynamo_frontend_workers(struct fleet *f, struct http_conn *c, const struct http_request *q)
{
    json_t *workers = json_array();

    for (unsigned i = 0; i < f->n_workers; i++) {
        const struct worker *w = &f->workers[i];
        _cleanup_(freep) char *url = worker_url(w);
        json_t *entry = instance(w, "rl", false);
        json_put_str(entry, "request_plane_url", "dyn://dynamo.backend.rl");
        if (w->dead) {
            json_object_set_new(entry, "routes", json_array());
            json_put_str(entry, "error", "worker discovery timed out after 30s");
        } else {
            json_object_set_new(entry, "routes", json_pack("[s, s]", "flush_cache", "liveness_probe"));
            json_put_str(entry, "system_url", url);
            json_put_str(entry, "model", "fault-model");
        }
        json_array_append_new(workers, entry);
    }
    plain_answer_json(
        c, 200,
        json_pack("{s:i, s:s, s:o}", "protocol_version", 1, "namespace", "dynamo", "workers", workers));
}
