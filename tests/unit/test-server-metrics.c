/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker's own histograms say of a run: vLLM's and SGLang's text, before and after. */
#include "daemon/load/server_metrics.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vllm),
        cmocka_unit_test(test_sglang),
        cmocka_unit_test(test_older_names),
        cmocka_unit_test(test_a_peak_between),
        cmocka_unit_test(test_nothing_is_made_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
