/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/server_names.h"

#include "base/util.h"

const char *const server_histogram_keys[SERVER_HISTOGRAMS] = {"ttft_ms", "itl_ms", "tpot_ms", "e2e_ms",
                                                              "queue_ms"};
const char *const server_counter_keys[SERVER_COUNTERS] = {"prompt_tokens", "generation_tokens", "preemptions",
                                                          "prefix_cache_queries", "prefix_cache_hits"};

/* vllm/v1/metrics/loggers.py (neuralmagic/vllm @017e9f44). Before 0.11 gaps between tokens were called time per output
 * token; before about 0.9 the cache had the prefix gpu_. */
static const struct server_names vllm_names = {
    .histograms = {{"time_to_first_token_seconds"},
                   {"inter_token_latency_seconds", "time_per_output_token_seconds"},
                   {"request_time_per_output_token_seconds"},
                   {"e2e_request_latency_seconds"},
                   {"request_queue_time_seconds"}},
    .counters = {{"prompt_tokens_total"},
                 {"generation_tokens_total"},
                 {"num_preemptions_total"},
                 {"prefix_cache_queries_total", "gpu_prefix_cache_queries_total"},
                 {"prefix_cache_hits_total", "gpu_prefix_cache_hits_total"}},
    .gauges = {{"num_requests_running"}, {"num_requests_waiting"}},
    .cache = {"kv_cache_usage_perc", "gpu_cache_usage_perc"},
};

/* python/sglang/srt/observability/metrics_collector.py (bytedance-iaas/sglang @6ed5780c). Newer versions have no time
 * per output token. A retraction is what vLLM calls a preemption. */
static const struct server_names sglang_names = {
    .histograms = {{"time_to_first_token_seconds"},
                   {"inter_token_latency_seconds"},
                   {"time_per_output_token_seconds"},
                   {"e2e_request_latency_seconds"},
                   {"queue_time_seconds"}},
    .counters = {{"prompt_tokens_total"}, {"generation_tokens_total"}, {"num_retracted_requests_total"}},
    .gauges = {{"num_running_reqs"}, {"num_queue_reqs"}},
    .cache = {"token_usage"},
};

/*
 * tensorrt_llm/metrics/collector.py (NVIDIA/TensorRT-LLM @050f80de), with return_perf_metrics. Versions before used the
 * prefix "trtllm:"; the oldest had none, and such a page names no server. Cached tokens are counted out of the prompt's.
 */
static const struct server_names trtllm_names = {
    .histograms = {{"time_to_first_token_seconds"},
                   {NULL},
                   {"time_per_output_token_seconds"},
                   {"e2e_request_latency_seconds"},
                   {"request_queue_time_seconds"}},
    .counters = {{"prompt_tokens_total"},
                 {"generation_tokens_total"},
                 {NULL},
                 {"prompt_tokens_total"},
                 {"prompt_cached_tokens_total"}},
    .gauges = {{"num_requests_running"}, {"num_requests_waiting"}},
    .cache = {"kv_cache_utilization"},
};

/* atom/entrypoints/openai/metrics.py (ROCm/ATOM @ffdf3bb5), after v0.1.6: counters and gauges, no latencies. */
static const struct server_names atom_names = {
    .counters = {{"prompt_tokens_total"},
                 {"generation_tokens_total"},
                 {"preemptions_total"},
                 {"prefix_cache_full_tokens_total"},
                 {"prefix_cache_cached_tokens_total"}},
    .gauges = {{"requests_running"}, {"requests_waiting"}},
    .cache = {"kv_cache_usage_ratio"},
};

/* python/tokenspeed/runtime/metrics/collector.py (lightseekorg/tokenspeed @f4d8ec6e). Its hit ratio is hits out of the
 * prompt's tokens; the "perc" of its cache is a share of 1. */
static const struct server_names tokenspeed_names = {
    .histograms = {{"time_to_first_token_seconds"},
                   {"inter_token_latency_seconds"},
                   {"request_time_per_output_token_seconds"},
                   {"e2e_request_latency_seconds"}},
    .counters = {{"prompt_tokens_total"},
                 {"generation_tokens_total"},
                 {NULL},
                 {"prompt_tokens_total"},
                 {"prefix_cache_hits_total"}},
    .gauges = {{"num_requests_running"}, {"num_requests_waiting"}},
    .cache = {"kv_cache_usage_perc"},
};

/* lib/runtime/src/metrics/prometheus_names.rs, frontend_service (ai-dynamo/dynamo). Its queue is a gauge, no time. With
 * DYN_METRICS_PREFIX it has another prefix, and the page is of nobody known. */
static const struct server_names dynamo_names = {
    .histograms = {{"time_to_first_token_seconds"},
                   {"inter_token_latency_seconds"},
                   {NULL},
                   {"request_duration_seconds"}},
    .counters = {{"input_sequence_tokens_sum"},
                 {"output_tokens_total"},
                 {NULL},
                 {"input_sequence_tokens_sum"},
                 {"cached_tokens_sum"}},
};

/* model_gateway/src/observability/metrics.rs (lightseekorg/smg @73da68ca). Times of tokens exist where workers are
 * connected by gRPC; the pd_ one where prefill and decode are separate. */
static const struct server_names smg_names = {
    .histograms = {{"router_ttft_seconds", "pd_ttft_seconds"},
                   {NULL},
                   {"router_tpot_seconds"},
                   {"router_request_duration_seconds"}},
    .cache = {"engine_token_usage"},
};

/* Engines come first: a router's page may repeat its workers' metrics, and a Dynamo worker passes its engine's on. */
static const struct server_source server_sources[] = {
    {"vllm", "vllm:", &vllm_names},
    {"sglang", "sglang:", &sglang_names},
    {"tensorrt-llm", "trtllm_", &trtllm_names},
    {"tensorrt-llm", "trtllm:", &trtllm_names},
    {"atom", "atom:", &atom_names},
    {"tokenspeed", "tokenspeed:", &tokenspeed_names},
    {"dynamo-frontend", "dynamo_frontend_", &dynamo_names},
    {"smg", "smg_", &smg_names},
};

/* All others have /metrics. trtllm-serve's /metrics is JSON. */
static const struct {
    const char *engine, *path;
} metrics_paths[] = {{"tensorrt-llm", "/prometheus/metrics"}};

const struct server_source *server_source_of(struct prometheus_text page)
{
    size_t found = ARRAY_SIZE(server_sources);
    struct prometheus_sample sample;

    while (found > 0 && prometheus_next(&page, &sample))
        for (size_t i = 0; i < found; i++) {
            size_t n = strlen(server_sources[i].prefix);
            if (sample.name_len > n && memcmp(sample.name, server_sources[i].prefix, n) == 0)
                found = i;
        }
    return found < ARRAY_SIZE(server_sources) ? &server_sources[found] : NULL;
}

/* SGLang's /health generates a token (python/sglang/srt/entrypoints/http_server.py), so that who asks it each two seconds
 * is a load: its metrics show that it is alive. */
static const struct {
    const char *engine, *path;
} health_paths[] = {{"vllm", "/health"}, {"tensorrt-llm", "/health"}};

const char *server_health_path(const char *engine)
{
    for (size_t i = 0; i < ARRAY_SIZE(health_paths); i++)
        if (streq(engine, health_paths[i].engine))
            return health_paths[i].path;
    return NULL;
}

const char *server_metrics_path(const char *engine)
{
    for (size_t i = 0; i < ARRAY_SIZE(metrics_paths); i++)
        if (streq(engine, metrics_paths[i].engine))
            return metrics_paths[i].path;
    return "/metrics";
}
