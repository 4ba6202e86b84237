/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vLLM: bodies of start and stop are ignored and answered empty, a repeated start and an idle stop are 200,
 * and traces go to the directory that the server was launched with.
 */
#include "base/alloc.h"
#include "base/json.h"
#include "tests/fleet/fault-fleet.h"
#include <inttypes.h>

#define VERSION        "0.19.1"
#define TOKENS_DEFAULT 16
#define TOKENS_MAX     64
#define COMPLETION_CHUNK                                                                                     \
    "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"fault-model\",\"choices\":" \
    "["

static void version(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    worker_answer_json(w, c, json_pack("{s:s}", "version", VERSION));
}

static void models(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    worker_answer_json(w, c,
                       json_pack("{s:s, s:[{s:s, s:s, s:s}]}", "object", "list", "data", "id", "fault-model",
                                 "object", "model", "owned_by", "vllm"));
}

static void openapi(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    static const char *const profile_paths[] = {"/start_profile", "/stop_profile"};
    json_t *paths =
        json_pack("{s:{s:{}}, s:{s:{}}, s:{s:{}}, s:{s:{}}, s:{s:{}}}", "/health", "get", "/v1/models", "get",
                  "/load", "get", "/detokenize", "post", "/v1/completions", "post");
    for (size_t i = 0; i < ARRAY_SIZE(profile_paths) && !worker_has(w, FAULT_NO_PROFILER); i++)
        json_object_set_new(paths, profile_paths[i], json_pack("{s:{}}", "post"));
    worker_answer_json(w, c,
                       json_pack("{s:s, s:{s:s, s:s}, s:o}", "openapi", "3.1.0", "info", "title", "vLLM",
                                 "version", VERSION, "paths", paths));
}

static void metrics(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    bool idle = worker_has(w, FAULT_IDLE) || worker_has(w, FAULT_SLEEPING);
    /* Each step gives four tokens and the first token of one request. */
    const double iterations = (double)(int64_t)worker_iterations(w);
    _cleanup_(freep) char *text = xasprintf(
        "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
        "# TYPE vllm:num_requests_running gauge\n"
        "vllm:num_requests_running{engine=\"0\",model_name=\"fault-model\"} %d.0\n"
        "# TYPE vllm:num_requests_waiting gauge\n"
        "vllm:num_requests_waiting{engine=\"0\",model_name=\"fault-model\"} 0.0\n"
        "# TYPE vllm:kv_cache_usage_perc gauge\n"
        "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"fault-model\"} 0.5\n"
        "# TYPE vllm:generation_tokens counter\n"
        "vllm:generation_tokens_total{engine=\"0\",model_name=\"fault-model\"} %.1f\n"
        "# TYPE vllm:iteration_tokens_total histogram\n"
        "vllm:iteration_tokens_total_count{engine=\"0\",model_name=\"fault-model\"} %.1f\n"
        "# TYPE vllm:time_to_first_token_seconds histogram\n"
        "vllm:time_to_first_token_seconds_sum{engine=\"0\",model_name=\"fault-model\"} %.1f\n"
        "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.1\"} 0\n"
        "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.2\"} %.1f\n"
        "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\"} %.1f\n"
        "vllm:time_to_first_token_seconds_count{engine=\"0\"} %.1f\n",
        idle ? 0 : 4, 4 * iterations, iterations, iterations * 0.15, iterations, iterations, iterations);
    worker_answer(w, c, 200, "text/plain; version=0.0.4; charset=utf-8", text);
}

static bool answer_absent(struct worker *w, struct http_conn *c)
{
    bool absent = worker_has(w, FAULT_NO_SERVER_INFO);
    if (absent)
        worker_answer(w, c, 404, "application/json", vllm_engine.not_found);
    return absent;
}

static void is_sleeping(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    if (!answer_absent(w, c))
        worker_answer_json(w, c, json_pack("{s:b}", "is_sleeping", worker_has(w, FAULT_SLEEPING)));
}

static json_t *profiler_config(const struct worker *w)
{
    if (worker_has(w, FAULT_NO_PROFILER))
        return json_pack("{s:n, s:s}", "profiler", "torch_profiler_dir", "");
    return json_pack("{s:s, s:s, s:b, s:b, s:b, s:i, s:i, s:i, s:i, s:i}", "profiler", "torch",
                     "torch_profiler_dir", w->dir, "torch_profiler_with_stack", false,
                     "torch_profiler_use_gzip", true, "ignore_frontend", !worker_has(w, FAULT_IDLE_STOP_500),
                     "delay_iterations", 0, "max_iterations", 0, "warmup_iterations", 0, "active_iterations",
                     5, "wait_iterations", worker_has(w, FAULT_ONE_SESSION) ? 1 : 0);
}

static void server_info(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    if (answer_absent(w, c))
        return;
    if (!http_query_has(q->query, "config_format=json")) {
        worker_answer_json(w, c, json_pack("{s:s}", "vllm_config", "model='fault-model', ..."));
        return;
    }
    const char *meet = w->fleet->meet ? w->fleet->meet : "127.0.0.1:29501", *port = strrchr(meet, ':');
    _cleanup_(freep) char *first = xstrndup(meet, (size_t)(port - meet));
    int n = (int)(w->fleet->n_ranks * w->fleet->n_nodes);
    worker_answer_json(w, c,
                       json_pack("{s:{s:{s:s}, s:{s:i, s:i, s:i, s:i, s:i, s:s, s:i}, s:o}, s:{}}",
                                 "vllm_config", "model_config", "model", "fault-model", "parallel_config",
                                 "tensor_parallel_size", n, "pipeline_parallel_size", 1, "data_parallel_size",
                                 1, "world_size", n, "nnodes", (int)w->fleet->n_nodes, "master_addr", first,
                                 "master_port", atoi(port + 1), "profiler_config", profiler_config(w),
                                 "vllm_env"));
}

static void start(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    if (w->recording) {
        worker_answer(w, c, 200, NULL, "");
        return;
    }
    struct recording *r = xcalloc(1, sizeof(*r));
    r->dir = xstrdup(w->dir);
    profile_start(w, c, r);
}

static void stop(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    profile_stop(w, c, 200);
}

/* A token an event; all of them at once, because this engine computes nothing. */
static char *completion_stream(int64_t n_tokens)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    for (int64_t i = 0; i < n_tokens; i++)
        fprintf(out, "data: " COMPLETION_CHUNK "{\"index\":0,\"text\":\" word\",\"finish_reason\":%s}]}\n\n",
                i + 1 < n_tokens ? "null" : "\"length\"");
    fprintf(out,
            "data: " COMPLETION_CHUNK "],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":%" PRId64
            ",\"total_tokens\":%" PRId64 "}}\n\ndata: [DONE]\n\n",
            n_tokens, n_tokens + 8);
    fclose(out);
    return text;
}

static void completions(struct worker *w, struct http_conn *c, const struct http_request *q)
{
    char error[200];
    _cleanup_json_ body = json_parse(q->body, q->body_size, error);
    int64_t asked = json_get_int(body, "max_tokens", TOKENS_DEFAULT);
    int64_t n_tokens = MAX(1, MIN(asked, TOKENS_MAX));
    _cleanup_(freep) char *text = completion_stream(n_tokens);
    worker_answer(w, c, text ? 200 : 500, "text/event-stream", text ? text : "");
}

static char *trace_name(struct fleet *f, const struct recording *r, unsigned rank, const char *stage,
                        bool copy)
{
    return xasprintf("dp0_pp0_tp%u_dcp0_ep0_rank%u.%" PRId64 ".pt", rank, rank, fleet_stamp_ns(f));
}

static const struct route routes[] = {
    {"/version", "GET", version},
    {"/health", "GET", worker_health},
    {"/ping", "GET POST", worker_health},
    {"/openapi.json", "GET", openapi},
    {"/v1/models", "GET", models},
    {"/metrics", "GET", metrics},
    {"/is_sleeping", "GET", is_sleeping},
    {"/server_info", "GET", server_info},
    {"/v1/completions", "POST", completions},
    {"/start_profile", "POST", start},
    {"/stop_profile", "POST", stop},
};

const struct engine_ops vllm_engine = {
    .name = "vllm",
    .routes = routes,
    .n_routes = ARRAY_SIZE(routes),
    .started = "",
    .stopped = "",
    .failed = "{\"error\":{\"message\":\"Call to profile method failed: profiler error\","
              "\"type\":\"InternalServerError\",\"param\":null,\"code\":500}}",
    .not_found = "{\"error\":{\"message\":\"Not Found\",\"type\":\"Not Found\",\"param\":null,\"code\":404}}",
    .trace_name = trace_name,
    .trace_suffix = ".trace.json",
};
