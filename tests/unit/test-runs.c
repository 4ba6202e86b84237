/* SPDX-License-Identifier: Apache-2.0 */
/* Runs as profctl compares them and writes them for readers of other tools. */
#include "base/run_compare.h"
#include "client/runs/save_as.h"
#include "tests/unit/run-fixture.h"

static json_t *parsed(const char *text)
{
    char error[200];
    json_t *j = json_parse(text, strlen(text), error);

    if (!j)
        fail_msg("%s", error);
    return j;
}

static const char run_text[] =
    "{'run': 3, 'state': 'partial', 'model': 'm', 'started_at': 1700000000000000000,"
    " 'ended_at': 1700000004000000000, 'duration_s': 4.0, 'peak_concurrency': 2,"
    " 'workload': {'api': 'chat', 'rate': 5, 'concurrency': 8, 'isl': 100},"
    " 'requests': {'success': 3, 'incomplete': 0, 'error': 1},"
    " 'throughput': {'requests_per_s': 0.75, 'output_tokens_per_s': 7.5, 'total_tokens_per_s': 82.5},"
    " 'goodput': null, 'tokens': {'input': 300, 'output': 30},"
    " 'metrics': {'ttft_ms': {'mean': 20, 'std': 1, 'p50': 19, 'p99': 30, 'max': 31, 'count': 3},"
    "             'itl_ms': {'mean': 1, 'p50': 1, 'p99': 2, 'count': 6},"
    "             'tpot_ms': {'mean': 1.5, 'p50': 1.5, 'p99': 2, 'count': 3},"
    "             'e2e_ms': {'mean': 40, 'p50': 40, 'p99': 50, 'count': 3}},"
    " 'errors': [{'text': 'HTTP 503', 'count': 1, 'status': 503}]}";

/* Gaps as the catalog has them, text, and as an array. */
static const char rows_text[] =
    "[{'outcome': 'success', 'cold': 0, 'sent_ns': 0, 'first_ns': 20000000, 'end_ns': 40000000,"
    "  'ttft_ns': 20000000, 'tpot_ns': 2000000, 'e2e_ns': 40000000, 'lateness_ns': 0, 'input_tokens': 100,"
    "  'output_tokens': 11, 'gaps_us': '[1000, 3000]'},"
    " {'outcome': 'success', 'cold': false, 'sent_ns': 5000000, 'first_ns': 25000000, 'end_ns': 1500000000,"
    "  'ttft_ns': 25000000, 'tpot_ns': 4000000, 'e2e_ns': 1500000000, 'lateness_ns': 5000000,"
    "  'input_tokens': 300, 'output_tokens': 9, 'gaps_us': [1000, 1400000]},"
    " {'outcome': 'error', 'cold': 0, 'sent_ns': 9000000, 'first_ns': -1, 'end_ns': 10000000, 'ttft_ns': "
    "null,"
    "  'input_tokens': -1, 'output_tokens': -1, 'error': 'HTTP 503', 'gaps_us': null}]";

static json_t *json_of(const char *text)
{
    char *copy = strdup(text);

    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    json_t *j = parsed(copy);
    free(copy);
    return j;
}

static void test_vllm_bench(void **state)
{
    struct problem p = {0};
    _cleanup_json_ run = json_of(run_text);
    _cleanup_json_ rows = json_of(rows_text);
    _cleanup_json_ j = save_as("vllm-bench", run, rows, &p);

    assert_text(j, "backend", "openai-chat");
    assert_text(j, "endpoint_type", "openai-chat");
    assert_text(j, "model_id", "m");
    assert_near(j, "num_prompts", 4, 0);
    assert_near(j, "request_rate", 5, 0);
    assert_near(j, "burstiness", 1, 0);
    assert_near(j, "max_concurrency", 8, 0);
    assert_near(j, "duration", 4, 0);
    assert_near(j, "completed", 3, 0);
    assert_near(j, "failed", 1, 0);
    assert_near(j, "total_input_tokens", 300, 0);
    assert_near(j, "request_throughput", 0.75, 0);
    assert_true(json_is_null(json_at(j, "request_goodput")));
    assert_near(j, "total_token_throughput", 82.5, 0);
    assert_near(j, "mean_ttft_ms", 20, 0);
    assert_near(j, "median_ttft_ms", 19, 0);
    assert_near(j, "p99_e2el_ms", 50, 0);
    assert_near(j, "median_itl_ms", 1, 0);
    assert_true(json_is_null(json_at(j, "p90_tpot_ms")));
    assert_near(j, "max_concurrent_requests", 2, 0);
    /* First token and two gaps within the first second of one, two tokens of the other. */
    assert_near(j, "max_output_tokens_per_s", 5, 0);
    assert_int_equal(json_array_size(json_at(j, "ttfts")), 3);
    assert_near(j, "ttfts/0", 0.02, 1e-9);
    assert_near(j, "ttfts/1", 0.02, 1e-9);
    assert_near(j, "ttfts/2", 0, 0);
    assert_near(j, "itls/0/1", 0.003, 1e-9);
    assert_int_equal(json_array_size(json_at(j, "itls/2")), 0);
    assert_near(j, "latencies/1", 1.495, 1e-9);
    assert_near(j, "start_times/1", 0.005, 1e-9);
    assert_near(j, "queue_times/1", 0.005, 1e-9);
    assert_near(j, "output_lens/2", 0, 0);
    assert_text(j, "errors/0", "");
    assert_text(j, "errors/2", "HTTP 503");
}

static void test_vllm_bench_of_a_closed_loop(void **state)
{
    struct problem p = {0};
    _cleanup_json_ run = json_of("{'metrics': {}, 'workload': {'rate': null}, 'requests': {'success': 6},"
                                 " 'throughput': {'requests_per_s': 3}}");
    _cleanup_json_ j = save_as("vllm-bench", run, NULL, &p);

    assert_text(j, "request_rate", "inf");
    assert_text(j, "backend", "openai");
    assert_true(json_is_null(json_at(j, "max_concurrency")));
    assert_near(j, "duration", 2, 1e-9);
    assert_null(json_object_get(j, "ttfts"));
}

static void test_aiperf(void **state)
{
    struct problem p = {0};
    _cleanup_json_ run = json_of(run_text);
    _cleanup_json_ rows = json_of(rows_text);
    _cleanup_json_ cold = json_deep_copy(json_array_get(rows, 0));
    json_object_set_new(cold, "cold", json_integer(1));
    json_object_set_new(cold, "input_tokens", json_integer(9999));
    json_array_append_new(rows, json_deep_copy(cold));
    json_object_set_new(cold, "cold", json_true());
    json_array_append(rows, cold);
    _cleanup_json_ j = save_as("aiperf", run, rows, &p);

    assert_text(j, "schema_version", "1.1");
    assert_text(j, "request_throughput/unit", "requests/sec");
    assert_near(j, "request_throughput/avg", 0.75, 0);
    assert_null(json_object_get(json_at(j, "request_throughput"), "p50"));
    assert_text(j, "time_to_first_token/unit", "ms");
    assert_near(j, "time_to_first_token/avg", 20, 0);
    assert_near(j, "time_to_first_token/p99", 30, 0);
    assert_near(j, "time_to_first_token/count", 3, 0);
    assert_near(j, "time_to_first_token/sum", 60, 1e-9);
    /* Its names for TPOT and ITL. */
    assert_near(j, "inter_token_latency/avg", 1.5, 0);
    assert_near(j, "inter_chunk_latency/avg", 1, 0);
    assert_near(j, "input_sequence_length/avg", 200, 0);
    assert_near(j, "input_sequence_length/std", 100, 1e-9);
    assert_near(j, "input_sequence_length/p25", 150, 1e-9);
    assert_near(j, "output_token_throughput_per_user/avg", 375, 1e-9);
    assert_near(j, "time_to_second_token/max", 1, 1e-9);
    assert_near(j, "benchmark_duration/avg", 4, 0);
    assert_near(j, "error_request_count/avg", 1, 0);
    assert_null(json_object_get(j, "goodput"));
    assert_near(j, "error_summary/0/error_details/code", 503, 0);
    assert_text(j, "error_summary/0/error_details/message", "HTTP 503");
    assert_near(j, "error_summary/0/count", 1, 0);
    assert_text(j, "start_time", "2023-11-14T22:13:20Z");
    assert_text(j, "end_time", "2023-11-14T22:13:24Z");
    assert_true(json_is_false(json_at(j, "was_cancelled")));
}

static void test_what_cannot_be_saved(void **state)
{
    struct problem p = {0};
    _cleanup_json_ run = json_of(run_text);
    _cleanup_json_ empty = json_of("{'run': 9, 'state': 'failed'}");

    assert_null(save_as("guidellm", run, NULL, &p));
    assert_int_equal(p.kind, PROBLEM_BAD_REQUEST);
    assert_string_equal(p.what, "a run cannot be saved as guidellm");
    problem_done(&p);
    assert_null(save_as("aiperf", empty, NULL, &p));
    assert_int_equal(p.kind, PROBLEM_CONFLICT);
    assert_non_null(strstr(p.what, "run 9 has no figures"));
    problem_done(&p);
}

/* n requests of one run; `factor` slower. */
static json_t *rows_of(size_t n, double factor)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < n; i++) {
        double ms = factor * (20 + (double)(i * 7919 % 10));
        json_array_append_new(rows, json_pack("{s: s, s: i, s: I, s: I, s: [I, I]}", "outcome", "success",
                                              "cold", i == 0, "ttft_ns", (json_int_t)MS(i == 0 ? 9000 : ms),
                                              "e2e_ns", (json_int_t)MS(500), "gaps_us", (json_int_t)1000,
                                              (json_int_t)(1000 * factor)));
    }
    return rows;
}

static const json_t *metric_of(const json_t *list, const char *metric)
{
    size_t i;
    const json_t *entry;

    json_array_foreach(list, i, entry)
        if (streq(json_get_str(entry, "metric"), metric))
            return entry;
    fail_msg("no %s", metric);
    return NULL;
}

/* One run against one; rows may be NULL. */
static json_t *comparison_of(json_t *run_a, json_t *rows_a, json_t *run_b, json_t *rows_b)
{
    _cleanup_json_ a = json_pack("[O]", run_a);
    _cleanup_json_ b = json_pack("[O]", run_b);
    _cleanup_(runs_comparison_done) struct runs_comparison c = {0};

    runs_compare(&(struct compared_side){a, rows_a}, &(struct compared_side){b, rows_b}, &c);
    return runs_comparison_json(&c);
}

static void test_compare(void **state)
{
    _cleanup_json_ a = json_of(run_text);
    _cleanup_json_ b = json_deep_copy(a);
    _cleanup_json_ rows_a = rows_of(200, 1);
    _cleanup_json_ rows_b = rows_of(200, 1.5);

    json_object_set_new(b, "run", json_integer(4));
    json_object_set_new(json_object_get(b, "workload"), "isl", json_integer(200));
    json_object_set_new(json_object_get(b, "workload"), "osl", json_integer(50));
    json_object_set_new(json_object_get(json_object_get(b, "metrics"), "ttft_ms"), "mean", json_real(30));
    json_object_set_new(json_object_get(json_object_get(b, "metrics"), "itl_ms"), "mean", json_real(1.5));
    json_object_set_new(json_object_get(b, "throughput"), "requests_per_s", json_real(0.5));
    _cleanup_json_ j = comparison_of(a, rows_a, b, rows_b);
    assert_near(j, "a/0", 3, 0);
    assert_near(j, "b/0", 4, 0);
    assert_int_equal(json_array_size(json_at(j, "workload")), 2);
    assert_text(j, "workload/0/member", "isl");
    assert_near(j, "workload/0/b", 200, 0);
    assert_true(json_is_null(json_at(j, "workload/1/a")));
    assert_near(metric_of(json_at(j, "throughput"), "requests_per_s"), "difference", -0.25, 1e-9);
    assert_near(metric_of(json_at(j, "throughput"), "requests_per_s"), "percent", -100.0 / 3, 1e-9);
    const json_t *ttft = metric_of(json_at(j, "latency"), "ttft_ms");
    assert_near(ttft, "figures/0/difference", 10, 1e-9);
    assert_near(ttft, "figures/0/percent", 50, 1e-9);
    assert_text(ttft, "result", "slower");
    assert_true(json_number_value(json_at(ttft, "figures/0/ci95/0")) > 5);
    assert_true(json_number_value(json_at(ttft, "figures/0/ci95/1")) < 15);
    /* Three values have no 99th percentile. */
    assert_int_equal(json_array_size(json_at(metric_of(json_at(j, "latency"), "e2e_ms"), "figures")), 2);
    assert_text(metric_of(json_at(j, "latency"), "itl_ms"), "result", "slower");
    assert_text(metric_of(json_at(j, "latency"), "e2e_ms"), "result", "not distinguishable");
    assert_true(json_is_null(json_at(metric_of(json_at(j, "latency"), "tpot_ms"), "result")));

    _cleanup_json_ back = comparison_of(b, rows_b, a, rows_a);
    assert_text(metric_of(json_at(back, "latency"), "ttft_ms"), "result", "faster");
    _cleanup_json_ same = comparison_of(a, rows_a, a, rows_a);
    assert_int_equal(json_array_size(json_at(same, "workload")), 0);
    assert_text(metric_of(json_at(same, "latency"), "ttft_ms"), "result", "not distinguishable");
    _cleanup_json_ bare = comparison_of(a, NULL, b, NULL);
    assert_true(json_is_null(json_at(metric_of(json_at(bare, "latency"), "ttft_ms"), "result")));
    assert_true(json_is_null(json_at(metric_of(json_at(bare, "latency"), "ttft_ms"), "figures/0/ci95")));
    _cleanup_json_ few_rows = rows_of(6, 1);
    _cleanup_json_ few = comparison_of(a, few_rows, b, rows_b);
    assert_text(metric_of(json_at(few, "latency"), "ttft_ms"), "result", "too few samples");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vllm_bench), cmocka_unit_test(test_vllm_bench_of_a_closed_loop),
        cmocka_unit_test(test_aiperf),     cmocka_unit_test(test_what_cannot_be_saved),
        cmocka_unit_test(test_compare),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
