/* SPDX-License-Identifier: Apache-2.0 */
/* What a server's own metrics say of a run: the pages of each engine and router, before and after. */
#include "base/alloc.h"
#include "daemon/fleet/server_metrics.h"
#include "tests/unit/run-fixture.h"

static const char vllm_before[] = "# TYPE vllm:time_to_first_token_seconds histogram\n"
                                  "vllm:time_to_first_token_seconds_sum{engine=\"0\"} 1.0\n"
                                  "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.1\"} 10.0\n"
                                  "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.2\"} 10.0\n"
                                  "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\"} 10.0\n"
                                  "vllm:time_to_first_token_seconds_count{engine=\"0\"} 10.0\n"
                                  "vllm:prompt_tokens_total{engine=\"0\"} 1000.0\n"
                                  "vllm:kv_cache_usage_perc{engine=\"0\"} 0.05\n";

/* 4 up to 0.1 s, 4 up to 0.2 s, 2 above, on two engines; buckets of one are in the wrong order. */
static const char vllm_after[] = "vllm:time_to_first_token_seconds_sum{engine=\"0\"} 1.5\n"
                                 "vllm:time_to_first_token_seconds_sum{engine=\"1\"} 0.5\n"
                                 "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\"} 15.0\n"
                                 "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.1\"} 12.0\n"
                                 "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.2\"} 14.0\n"
                                 "vllm:time_to_first_token_seconds_bucket{le=\"0.1\",engine=\"1\"} 2.0\n"
                                 "vllm:time_to_first_token_seconds_bucket{le=\"0.2\",engine=\"1\"} 4.0\n"
                                 "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\",engine=\"1\"} 5.0\n"
                                 "vllm:time_to_first_token_seconds_count{engine=\"0\"} 15.0\n"
                                 "vllm:time_to_first_token_seconds_count{engine=\"1\"} 5.0\n"
                                 "vllm:prompt_tokens_total{engine=\"0\"} 2500.0\n"
                                 "vllm:kv_cache_usage_perc{engine=\"0\"} 0.1\n"
                                 "vllm:kv_cache_usage_perc{engine=\"1\"} 0.4\n";

static json_t *difference(const char *before, const char *after)
{
    struct server_metrics a = server_metrics_parse(before, strlen(before)),
                          b = server_metrics_parse(after, strlen(after));

    return server_metrics_difference(&a, &b);
}

/* histogram_quantile(0.5): the 5th of 10 is a quarter into the second bucket; 0.99 lies above all bounds. */
static void test_vllm(void **state)
{
    _cleanup_json_ j = difference(vllm_before, vllm_after);

    assert_near(j, "ttft_ms/count", 10, 0);
    assert_near(j, "ttft_ms/mean", 100, 1e-9);
    assert_near(j, "ttft_ms/p50", 125, 1e-9);
    assert_near(j, "ttft_ms/p99", 200, 1e-9);
    assert_true(json_is_null(json_at(j, "itl_ms")));
    assert_near(j, "prompt_tokens", 1500, 0);
    assert_true(json_is_null(json_at(j, "generation_tokens")));
    assert_near(j, "kv_cache_use/before", 0.05, 0);
    assert_near(j, "kv_cache_use/after", 0.4, 0);
    assert_near(j, "kv_cache_use/peak", 0.4, 0);
}

static void test_sglang(void **state)
{
    _cleanup_json_ j = difference("sglang:token_usage{model_name=\"m\"} 0.0\n",
                                  "sglang:token_usage{model_name=\"m\"} 0.28\n"
                                  "sglang:inter_token_latency_seconds_sum 2\n"
                                  "sglang:inter_token_latency_seconds_bucket{le=\"0.02\"} 100\n"
                                  "sglang:inter_token_latency_seconds_bucket{le=\"+Inf\"} 100\n"
                                  "sglang:inter_token_latency_seconds_count 100\n"
                                  "sglang:queue_time_seconds_sum 3\n"
                                  "sglang:queue_time_seconds_count 6\n");

    assert_near(j, "itl_ms/mean", 20, 1e-9);
    assert_near(j, "itl_ms/p50", 10, 1e-9);
    assert_near(j, "queue_ms/mean", 500, 1e-9);
    assert_true(json_is_null(json_at(j, "queue_ms/p50")));
    assert_near(j, "kv_cache_use/after", 0.28, 0);
}

/* An older vLLM calls gaps time per output token; where both names are there they are not added up. */
static void test_older_names(void **state)
{
    _cleanup_json_ old = difference("", "vllm:time_per_output_token_seconds_sum 1\n"
                                        "vllm:time_per_output_token_seconds_count 10\n"
                                        "vllm:gpu_cache_usage_perc 0.5\n");
    _cleanup_json_ both = difference("", "vllm:time_per_output_token_seconds_sum 1\n"
                                         "vllm:time_per_output_token_seconds_count 10\n"
                                         "vllm:inter_token_latency_seconds_sum 2\n"
                                         "vllm:inter_token_latency_seconds_count 20\n");

    assert_near(old, "itl_ms/mean", 100, 1e-9);
    assert_near(old, "kv_cache_use/after", 0.5, 0);
    assert_near(both, "itl_ms/count", 20, 0);
}

static void test_a_peak_between(void **state)
{
    struct server_metrics before = server_metrics_parse(vllm_before, strlen(vllm_before)),
                          after = server_metrics_parse(vllm_after, strlen(vllm_after));
    static const char between[] = "vllm:kv_cache_usage_perc 0.93\n";

    server_metrics_see_cache(&after, between, strlen(between));
    server_metrics_see_cache(&after, "", 0);
    _cleanup_json_ j = server_metrics_difference(&before, &after);
    assert_near(j, "kv_cache_use/peak", 0.93, 0);
}

static void test_nothing_is_made_up(void **state)
{
    assert_null(difference("", ""));
    assert_null(difference("", "python_gc_objects_collected_total 3\n"));
    /* Started anew in between. */
    assert_null(difference(vllm_after, vllm_before));
    /* Other buckets than before. */
    _cleanup_json_ j = difference("vllm:e2e_request_latency_seconds_bucket{le=\"1\"} 1\n"
                                  "vllm:e2e_request_latency_seconds_count 1\n",
                                  "vllm:e2e_request_latency_seconds_bucket{le=\"2\"} 1\n"
                                  "vllm:e2e_request_latency_seconds_count 2\n");
    assert_true(json_is_null(json_at(j, "e2e_ms")));
    /* Labels, numbers and lines that are none. */
    _cleanup_json_ bad = difference("", "vllm:e2e_request_latency_seconds_bucket{le=\"x\"} 1\n"
                                        "vllm:e2e_request_latency_seconds_bucket{} 1\n"
                                        "vllm:e2e_request_latency_seconds_bucket 1\n"
                                        "vllm:e2e_request_latency_seconds_bucket{le=\"1\n"
                                        "vllm:e2e_request_latency_seconds_sum NaN\n"
                                        "vllm:e2e_request_latency_seconds_count 2\n");
    assert_near(bad, "e2e_ms/mean", 0, 0);
    assert_true(json_is_null(json_at(bad, "e2e_ms/p99")));
}

/*
 * Pages in the shape that each source writes (server_names.c names them), with one observation of 0.3 s in the bucket
 * up to 0.5, 600 prompt tokens, 200 of them from the cache. What a server does not measure is NULL, and null in the
 * result.
 */
static const struct page_case {
    const char *source, *prefix, *labels;
    const char *ttft, *itl, *tpot, *e2e, *queue;
    const char *prompt, *generation, *preemptions, *cached, *cache;
    bool counts_queries;
} page_cases[] = {
    {"vllm", "vllm:", "engine=\"0\",model_name=\"m\"", "time_to_first_token_seconds",
     "inter_token_latency_seconds", "request_time_per_output_token_seconds", "e2e_request_latency_seconds",
     "request_queue_time_seconds", "prompt_tokens_total", "generation_tokens_total", "num_preemptions_total",
     "prefix_cache_hits_total", "kv_cache_usage_perc"},
    {"vllm", "vllm:", "model_name=\"m\"", "time_to_first_token_seconds", "time_per_output_token_seconds",
     NULL, "e2e_request_latency_seconds", "request_queue_time_seconds", "prompt_tokens_total",
     "generation_tokens_total", "num_preemptions_total", "gpu_prefix_cache_hits_total",
     "gpu_cache_usage_perc"},
    {"sglang", "sglang:", "model_name=\"m\",tp_rank=\"0\"", "time_to_first_token_seconds",
     "inter_token_latency_seconds", NULL, "e2e_request_latency_seconds", "queue_time_seconds",
     "prompt_tokens_total", "generation_tokens_total", "num_retracted_requests_total", NULL, "token_usage"},
    {"tensorrt-llm", "trtllm_", "model_name=\"m\",engine_type=\"pytorch\"", "time_to_first_token_seconds",
     NULL, "time_per_output_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
     "prompt_tokens_total", "generation_tokens_total", NULL, "prompt_cached_tokens_total",
     "kv_cache_utilization", true},
    {"tensorrt-llm", "trtllm:", "model_name=\"undefined\",engine_type=\"undefined\"",
     "time_to_first_token_seconds", NULL, "time_per_output_token_seconds", "e2e_request_latency_seconds",
     "request_queue_time_seconds", NULL, NULL, NULL, NULL, NULL},
    {"atom", "atom:", "", NULL, NULL, NULL, NULL, NULL, "prompt_tokens_total", "generation_tokens_total",
     "preemptions_total", "prefix_cache_cached_tokens_total", "kv_cache_usage_ratio"},
    {"tokenspeed", "tokenspeed:", "model_name=\"m\"", "time_to_first_token_seconds",
     "inter_token_latency_seconds", "request_time_per_output_token_seconds", "e2e_request_latency_seconds",
     NULL, "prompt_tokens_total", "generation_tokens_total", NULL, "prefix_cache_hits_total",
     "kv_cache_usage_perc", true},
    {"dynamo-frontend", "dynamo_frontend_", "model=\"m\"", "time_to_first_token_seconds",
     "inter_token_latency_seconds", NULL, "request_duration_seconds", NULL, "input_sequence_tokens_sum",
     "output_tokens_total", NULL, "cached_tokens_sum", NULL, true},
    {"smg", "smg_", "router_type=\"grpc\",model=\"m\"", "router_ttft_seconds", NULL, "router_tpot_seconds",
     "router_request_duration_seconds", NULL, NULL, NULL, NULL, NULL, "engine_token_usage"},
    {"smg", "smg_", "router_type=\"pd\"", "pd_ttft_seconds", NULL, NULL, "router_request_duration_seconds",
     NULL, NULL, NULL, NULL, NULL, NULL},
};

static char *page_add(char *page, const struct page_case *c, const char *name, const char *part,
                      const char *label, double value)
{
    char *longer = xasprintf("%s%s%s%s{%s%s%s} %g\n", page, c->prefix, name, part, c->labels,
                             *c->labels && *label ? "," : "", label, value);
    free(page);
    return longer;
}

static char *page_add_histogram(char *page, const struct page_case *c, const char *name, double n)
{
    if (!name)
        return page;
    page = page_add(page, c, name, "_bucket", "le=\"0.25\"", 1);
    page = page_add(page, c, name, "_bucket", "le=\"0.5\"", 1 + n);
    page = page_add(page, c, name, "_bucket", "le=\"+Inf\"", 1 + n);
    page = page_add(page, c, name, "_sum", "", 0.1 + 0.3 * n);
    return page_add(page, c, name, "_count", "", 1 + n);
}

static char *page_of(const struct page_case *c, double n)
{
    const char *const histograms[] = {c->ttft, c->itl, c->tpot, c->e2e, c->queue};
    const struct {
        const char *name;
        double value;
    } numbers[] = {{c->prompt, 600 * n},
                   {c->generation, 64 * n},
                   {c->preemptions, 2 * n},
                   {c->cached, 200 * n},
                   {c->cache, 0.25 * n}};
    char *page = xasprintf("# HELP %srequests Requests.\n# TYPE %srequests counter\n"
                           "process_start_time_seconds 1.7e9\n%srequests{%s} 5\n",
                           c->prefix, c->prefix, c->prefix, c->labels);

    for (size_t i = 0; i < ARRAY_SIZE(histograms); i++)
        page = page_add_histogram(page, c, histograms[i], n);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (numbers[i].name)
            page = page_add(page, c, numbers[i].name, "", "", numbers[i].value);
    return page;
}

static void assert_figure(const json_t *j, const char *path, bool known, double value)
{
    if (known)
        assert_near(j, path, value, 1e-9);
    else
        assert_true(json_is_null(json_at(j, path)));
}

static void test_pages(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(page_cases); i++) {
        const struct page_case *c = &page_cases[i];
        _cleanup_(freep) char *before = page_of(c, 0), *after = page_of(c, 1);
        _cleanup_json_ j = difference(before, after);
        const struct {
            const char *key, *name;
        } histograms[] = {{"ttft_ms", c->ttft},
                          {"itl_ms", c->itl},
                          {"tpot_ms", c->tpot},
                          {"e2e_ms", c->e2e},
                          {"queue_ms", c->queue}};

        assert_non_null(j);
        assert_string_equal(json_get_str(j, "source"), c->source);
        for (size_t k = 0; k < ARRAY_SIZE(histograms); k++) {
            _cleanup_(freep) char *mean = xasprintf("%s/mean", histograms[k].key),
                                  *p50 = xasprintf("%s/p50", histograms[k].key);
            assert_figure(j, histograms[k].name ? mean : histograms[k].key, histograms[k].name, 300);
            assert_figure(j, histograms[k].name ? p50 : histograms[k].key, histograms[k].name, 375);
        }
        assert_figure(j, "prompt_tokens", c->prompt, 600);
        assert_figure(j, "generation_tokens", c->generation, 64);
        assert_figure(j, "preemptions", c->preemptions, 2);
        assert_figure(j, "prefix_cache_hits", c->cached, 200);
        assert_figure(j, "prefix_cache_queries", c->counts_queries, 600);
        assert_figure(j, c->cache ? "kv_cache_use/after" : "kv_cache_use", c->cache, 0.25);
    }
}

/* A worker of Dynamo passes its engine's metrics on next to its own, a router may repeat its workers'. */
static void test_the_engine_counts_before_the_router(void **state)
{
    _cleanup_json_ j = difference("smg_router_ttft_seconds_count 0\ntrtllm_prompt_tokens_total 1\n",
                                  "smg_router_ttft_seconds_count 7\nsmg_router_ttft_seconds_sum 7\n"
                                  "dynamo_component_requests_total 3\ntrtllm_prompt_tokens_total 8\n");

    assert_string_equal(json_get_str(j, "source"), "tensorrt-llm");
    assert_near(j, "prompt_tokens", 7, 0);
    assert_true(json_is_null(json_at(j, "ttft_ms")));
}

/* The oldest TensorRT-LLM had no prefix: such names are anybody's. trtllm-serve's /metrics is JSON. */
static void test_names_of_nobody(void **state)
{
    assert_null(difference("", "time_to_first_token_seconds_sum 1\ntime_to_first_token_seconds_count 4\n"));
    assert_null(difference("", "[{\"iter\":12,\"iterLatencyMS\":3.1,\"numActiveRequests\":1}]"));
    assert_null(difference("", "smg_\nvllm:\ntrtllm_ 5\n"));
    assert_string_equal(server_metrics_path("tensorrt-llm"), "/prometheus/metrics");
    assert_string_equal(server_metrics_path("vllm"), "/metrics");
    assert_string_equal(server_metrics_path(NULL), "/metrics");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vllm),
        cmocka_unit_test(test_sglang),
        cmocka_unit_test(test_older_names),
        cmocka_unit_test(test_a_peak_between),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_the_engine_counts_before_the_router),
        cmocka_unit_test(test_names_of_nobody),
        cmocka_unit_test(test_nothing_is_made_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
