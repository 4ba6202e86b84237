/* SPDX-License-Identifier: Apache-2.0 */
/* A run's summary: populations apart, throughput, goodput, drift, outliers with their reason, errors. */
#include "base/alloc.h"
#include "daemon/load/sampler.h"
#include "daemon/load/summary.h"
#include "tests/unit/run-fixture.h"

static json_t *summary_of(const struct request_record *records, size_t n, const struct workload *w,
                          int64_t duration_ns)
{
    return summary_make(&(struct summary_input){.records = records,
                                                .n = n,
                                                .workload = w,
                                                .started_ns = MS(1000),
                                                .ended_ns = MS(1000) + duration_ns});
}

/* One after another, 10 ms and then 9 gaps of 1 ms, each a little apart. */
static void make_even(struct request_record *records, size_t n)
{
    for (size_t i = 0; i < n; i++)
        records[i] = request_at((int64_t)i, (double)i * 20, 10 + (double)(i % 5) / 10, 1);
}

static void test_populations_stay_separate(void **state)
{
    struct workload w = {.seed = 1};
    struct request_record records[12];

    make_even(records, 12);
    records[0].cold = true;
    records[0].first_ns = MS(500);
    records[3].outcome = OUTCOME_INCOMPLETE;
    records[3].first_ns = MS(9000);
    records[3].error = "cut";
    records[4].outcome = OUTCOME_ERROR;
    records[4].first_ns = records[4].end_ns = -1;
    records[4].output_tokens = -1;
    records[4].status = 503;
    records[4].error = "HTTP 503";
    _cleanup_json_ j = summary_of(records, 12, &w, 2 * NS_PER_S);
    assert_near(j, "requests/success", 10, 0);
    assert_near(j, "requests/incomplete", 1, 0);
    assert_near(j, "requests/error", 1, 0);
    assert_near(j, "metrics/ttft_ms/count", 9, 0);
    assert_near(j, "metrics/ttft_ms/max", 10.4, 1e-9);
    assert_near(j, "metrics/tpot_ms/p50", 1, 1e-6);
    assert_near(j, "metrics/send_lateness_ms/max", 0, 0);
    assert_near(j, "cold/requests", 1, 0);
    assert_near(j, "cold/ttft_ms/mean", 500, 1e-9);
    assert_near(j, "throughput/requests_per_s", 5, 1e-9);
    assert_near(j, "throughput/input_tokens_per_s", 500, 1e-9);
    assert_near(j, "throughput/output_tokens_per_s", 50, 1e-9);
    assert_near(j, "throughput/total_tokens_per_s", 550, 1e-9);
    assert_near(j, "throughput/output_tokens_per_s_per_user", 1000, 1e-3);
    assert_text(j, "tokens/output_source", "usage");
    assert_text(j, "errors/0/text", "cut");
    assert_text(j, "errors/0/outcome", "incomplete");
    assert_near(j, "errors/1/status", 503, 0);
    assert_true(json_is_null(json_at(j, "goodput")));
    assert_true(json_is_null(json_at(j, "memory")));
}

static void test_latency_counts_from_the_intended_moment(void **state)
{
    struct workload w = {0};
    struct request_record r = request_at(0, 0, 100, 1);

    r.sent_ns = MS(40);
    _cleanup_json_ j = summary_of(&r, 1, &w, NS_PER_S);
    assert_near(j, "metrics/ttft_ms/mean", 100, 1e-9);
    assert_near(j, "metrics/e2e_ms/mean", 109, 1e-9);
    assert_near(j, "metrics/send_lateness_ms/mean", 40, 1e-9);
}

static void test_goodput(void **state)
{
    struct workload w = {.goal = {.ttft_ns = MS(11), .tpot_ns = MS(1.5)}};
    struct request_record records[10];

    make_even(records, 10);
    records[0].first_ns += MS(5); /* too late */
    records[1].end_ns += MS(900); /* too slow */
    records[2].output_tokens = 1; /* no TPOT to miss */
    records[2].end_ns += MS(900);
    records[3].outcome = OUTCOME_ERROR;
    records[4].output_tokens = -1; /* nobody knows */
    _cleanup_json_ j = summary_of(records, 10, &w, 2 * NS_PER_S);
    assert_near(j, "goodput/good", 6, 0);
    assert_near(j, "goodput/requests_per_s", 3, 1e-9);
    assert_near(j, "goodput/share", 0.6, 1e-9);
    assert_near(j, "goodput/goals/ttft_ms/share", 0.8, 1e-9);
    assert_near(j, "goodput/goals/ttft_ms/goal", 11, 1e-9);
    assert_near(j, "goodput/goals/tpot_ms/share", 0.7, 1e-9);
    assert_null(json_object_get(json_at(j, "goodput/goals"), "e2e_ms"));
}

static void test_tokens_at_one_moment_show_no_time_between_them(void **state)
{
    struct workload w = {0};
    struct request_record records[10];

    make_even(records, 10);
    records[0].last_ns = records[0].first_ns;      /* all in one event */
    records[1].last_ns = records[1].first_ns = -1; /* whole */
    _cleanup_json_ j = summary_of(records, 10, &w, 2 * NS_PER_S);
    assert_near(j, "metrics/tpot_ms/count", 8, 0);
    assert_near(j, "metrics/tpot_ms/min", 1, 1e-6);
    assert_near(j, "metrics/ttft_ms/count", 9, 0);
    assert_near(j, "metrics/e2e_ms/count", 10, 0);
}

static void test_drift(void **state)
{
    struct workload w = {0};
    struct request_record records[200];

    for (size_t i = 0; i < 200; i++)
        records[i] =
            request_at((int64_t)i, (double)i * 100, 10 + (double)i / 20 + (double)(i * 7919 % 13), 1);
    _cleanup_json_ j = summary_of(records, 200, &w, 20 * NS_PER_S);
    assert_true(json_is_true(json_at(j, "drift/ttft_ms/significant")));
    /* 1/20 ms each 100 ms */
    assert_near(j, "drift/ttft_ms/per_minute", 30, 3);
    assert_true(json_is_false(json_at(j, "drift/tpot_ms/significant")));
    w.rate_to = 20;
    _cleanup_json_ ramp = summary_of(records, 200, &w, 20 * NS_PER_S);
    assert_true(json_is_null(json_at(ramp, "drift")));
}

/* A leak of 1 MiB a second, a clock that falls, a GPU that nobody sees; before the load all was otherwise. */
static void test_drift_of_memory(void **state)
{
    struct workload w = {0};
    struct moment seen[40];

    for (int i = 0; i < 40; i++)
        seen[i] =
            (struct moment){i * NS_PER_S, i < 10 ? 1LL << 40 : (int64_t)(1000 + i) << 20, -1, 1980 - 5 * i};
    _cleanup_json_ memory = json_pack("{s: o}", "timeline", timeline_json(seen, 40));
    _cleanup_json_ j = summary_make(&(struct summary_input){
        .workload = &w, .started_ns = 10 * NS_PER_S, .ended_ns = 39 * NS_PER_S, .memory = memory});
    assert_near(j, "drift/rss_bytes/per_minute", 60 << 20, 1);
    assert_true(json_is_true(json_at(j, "drift/rss_bytes/significant")));
    assert_near(j, "drift/sm_clock_mhz/tau", -1, 1e-9);
    assert_true(json_is_null(json_at(j, "drift/gpu_bytes")));
    assert_true(json_is_null(json_at(j, "drift/ttft_ms")));
}

/* The worst outlier of a run in which one request was changed. */
static void assert_reason(struct request_record *records, size_t n, const char *figure, const char *reason)
{
    struct workload w = {0};
    _cleanup_json_ j = summary_of(records, n, &w, NS_PER_S);
    const char *text = json_string_value(json_at(j, "outliers/0/reason"));

    assert_text(j, "outliers/0/figure", figure);
    if (!strstr(text, reason))
        fail_msg("\"%s\" is not about \"%s\"", text, reason);
    make_even(records, n);
}

static void test_outliers_have_reasons(void **state)
{
    struct request_record records[40];
    uint32_t gaps[9] = {1000, 1000, 900000, 1000, 1000, 1000, 1000, 1000, 1000};
    struct workload w = {0};

    make_even(records, 40);
    _cleanup_json_ even = summary_of(records, 40, &w, NS_PER_S);
    assert_int_equal(json_array_size(json_at(even, "outliers")), 0);

    records[20].sent_ns += MS(300);
    records[20].first_ns += MS(300);
    assert_reason(records, 40, "ttft_ms", "sent 300.0 ms late");
    records[20].first_ns += MS(300);
    records[20].error = "HTTP 429";
    assert_reason(records, 40, "ttft_ms", "retried after: HTTP 429");
    records[20].first_ns += MS(300);
    records[20].input_tokens = 1000;
    assert_reason(records, 40, "ttft_ms", "long input: 1000 tokens, the median is 100");
    records[20].end_ns += MS(900);
    records[20].gaps_us = gaps;
    records[20].n_gaps = 9;
    assert_reason(records, 40, "tpot_ms", "one gap of 900.0 ms");
    records[20].end_ns += MS(900);
    records[20].output_tokens = 1000;
    assert_reason(records, 40, "e2e_ms", "long output: 1000 tokens");
    records[20].first_ns += MS(300);
    assert_reason(records, 40, "ttft_ms", "not visible to the client");
    for (size_t i = 0; i < 3; i++)
        records[i] = request_at((int64_t)i, 0, 100 + (double)i, 1);
    assert_reason(records, 40, "ttft_ms", "queued at the start");
    /* All but one alone, that one with three that came before it. */
    for (size_t i = 0; i < 40; i++)
        records[i] = request_at((int64_t)i, (double)i * 15, 10 + (double)(i % 5) / 10, 1);
    for (size_t i = 20; i < 24; i++)
        records[i] = request_at((int64_t)i, 20 * 15 + (double)(i - 20), i == 23 ? 300 : 10, 1);
    assert_reason(records, 40, "ttft_ms", "other requests were in flight");
}

static void test_outliers_are_few_and_the_worst(void **state)
{
    struct workload w = {0};
    struct request_record records[400];

    make_even(records, 400);
    for (size_t i = 0; i < 60; i++)
        records[i * 6].first_ns += MS(100 + (double)(i * 7 % 60));
    _cleanup_json_ j = summary_of(records, 400, &w, NS_PER_S);
    assert_int_equal(json_array_size(json_at(j, "outliers")), OUTLIERS_MAX);
    for (size_t i = 0; i < OUTLIERS_MAX; i++) {
        char path[32];
        snprintf(path, sizeof(path), "outliers/%zu/value", i);
        assert_near(j, path, 159 - (double)i + 10.2, 0.3);
    }
}

static void test_errors_are_bounded(void **state)
{
    enum { KINDS = 100 };
    struct request_record records[2 * KINDS];
    char texts[KINDS][16];

    for (size_t i = 0; i < KINDS; i++) {
        snprintf(texts[i], sizeof(texts[i]), "error %zu", i);
        records[i] = (struct request_record){.outcome = OUTCOME_ERROR, .error = texts[i]};
        records[KINDS + i] = (struct request_record){.outcome = OUTCOME_ERROR, .error = texts[7]};
    }
    _cleanup_json_ j = errors_json(records, 2 * KINDS);
    assert_int_equal(json_array_size(j), SUMMARY_ERROR_KINDS_MAX + 1);
    assert_text(j, "0/text", "error 7");
    assert_near(j, "0/count", KINDS + 1, 0);
    assert_text(j, "32/text", "others");
    assert_near(j, "32/count", KINDS - SUMMARY_ERROR_KINDS_MAX, 0);
}

static void test_correlation(void **state)
{
    struct workload w = {0};
    struct request_record records[50];

    for (size_t i = 0; i < 50; i++) {
        records[i] = request_at((int64_t)i, (double)i * 1000, 10 + 2 * (double)i, 1);
        records[i].input_tokens = 100 * (int64_t)i;
    }
    _cleanup_json_ j = summary_of(records, 50, &w, NS_PER_S);
    assert_near(j, "correlation/input_tokens_ttft", 1, 1e-9);
    assert_near(j, "correlation/input_tokens_ttft_rank", 1, 1e-9);
    assert_true(json_is_null(json_at(j, "correlation/output_tokens_e2e")));
}

/* Two prompts in turn; the memory was looked at while the second request of the second was under way. */
static void test_prompts(void **state)
{
    struct workload w = {.n_prompts = 2};
    struct request_record records[4];
    static const struct moment seen[] = {
        {MS(900), 50, -1, -1}, {MS(1065), 80, -1, -1}, {MS(2000), 99, -1, -1}};
    _cleanup_json_ memory = json_pack("{s: o}", "timeline", timeline_json(seen, 3));

    make_even(records, 4);
    for (size_t i = 0; i < 4; i++)
        records[i].prompt = (int64_t)i % 2;
    records[0].cold = true;
    _cleanup_json_ j = summary_make(&(struct summary_input){.records = records,
                                                            .n = 4,
                                                            .workload = &w,
                                                            .started_ns = MS(1000),
                                                            .ended_ns = MS(2000),
                                                            .memory = memory});
    assert_int_equal(json_array_size(json_at(j, "prompts")), 2);
    assert_near(j, "prompts/0/requests", 1, 0);
    assert_near(j, "prompts/0/ttft_ms/mean", 10.2, 1e-6);
    assert_true(json_is_null(json_at(j, "prompts/0/rss_bytes")));
    assert_near(j, "prompts/1/requests", 2, 0);
    assert_near(j, "prompts/1/ttft_ms/max", 10.3, 1e-6);
    assert_near(j, "prompts/1/input_tokens", 100, 0);
    assert_near(j, "prompts/1/rss_bytes/peak", 80, 0);
    assert_near(j, "prompts/1/rss_bytes/difference", 30, 0);
    assert_true(json_is_null(json_at(j, "prompts/1/gpu_bytes")));
}

static void test_no_requests(void **state)
{
    struct workload w = {.goal = {.ttft_ns = 1}};
    _cleanup_json_ memory = json_object();
    _cleanup_json_ j = summary_make(&(struct summary_input){.workload = &w, .memory = memory});

    assert_near(j, "requests/success", 0, 0);
    assert_near(j, "peak_concurrency", 0, 0);
    assert_near(j, "goodput/share", 0, 0);
    assert_true(json_is_null(json_at(j, "throughput/requests_per_s")));
    assert_true(json_is_object(json_at(j, "memory")));
    assert_int_equal(json_array_size(json_at(j, "outliers")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_populations_stay_separate),
        cmocka_unit_test(test_latency_counts_from_the_intended_moment),
        cmocka_unit_test(test_goodput),
        cmocka_unit_test(test_tokens_at_one_moment_show_no_time_between_them),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_drift_of_memory),
        cmocka_unit_test(test_outliers_have_reasons),
        cmocka_unit_test(test_outliers_are_few_and_the_worst),
        cmocka_unit_test(test_errors_are_bounded),
        cmocka_unit_test(test_correlation),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_no_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
