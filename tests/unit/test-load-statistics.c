/* SPDX-License-Identifier: Apache-2.0 */
/* What a run's figures are computed by, against what numpy and the tests' authors say. */
#include "base/alloc.h"
#include "daemon/load/statistics.h"
#include "tests/unit/run-fixture.h"

static bool always(const struct request_record *r)
{
    return true;
}

static json_t *distribution_of(enum load_figure f, const struct request_record *records, size_t n)
{
    struct sample s;

    sample_of(f, records, n, always, &s);
    json_t *j = distribution_json(&s, 1);
    sample_done(&s);
    return j;
}

/* numpy.percentile(), mean(), std() of the same values. */
static void test_distribution(void **state)
{
    static const double ttft_ms[] = {12, 15, 11, 19, 13, 17, 14, 16, 18, 90,
                                     21, 10, 12, 13, 14, 15, 16, 17, 18, 19};
    struct request_record records[ARRAY_SIZE(ttft_ms)];

    for (size_t i = 0; i < ARRAY_SIZE(ttft_ms); i++)
        records[i] = request_at((int64_t)i, 0, ttft_ms[i], 1);
    _cleanup_json_ j = distribution_of(FIGURE_TTFT, records, ARRAY_SIZE(ttft_ms));
    assert_near(j, "mean", 19.0, 1e-9);
    assert_near(j, "std", 16.537835408541227, 1e-9);
    assert_near(j, "min", 10, 1e-9);
    assert_near(j, "p1", 10.19, 1e-9);
    assert_near(j, "p5", 10.95, 1e-9);
    assert_near(j, "p10", 11.9, 1e-9);
    assert_near(j, "p25", 13, 1e-9);
    assert_near(j, "p50", 15.5, 1e-9);
    assert_near(j, "p75", 18, 1e-9);
    assert_near(j, "p90", 19.2, 1e-9);
    assert_near(j, "p95", 24.45, 1e-9);
    assert_near(j, "p99", 76.89, 1e-9);
    assert_near(j, "p99.9", 88.689, 1e-9);
    assert_near(j, "max", 90, 1e-9);
    assert_near(j, "count", 20, 0);
}

static void test_distribution_of_few(void **state)
{
    struct request_record one = request_at(0, 0, 5, 1);
    _cleanup_json_ none_json = distribution_of(FIGURE_TTFT, &one, 0);
    _cleanup_json_ one_json = distribution_of(FIGURE_TTFT, &one, 1);

    assert_near(none_json, "count", 0, 0);
    assert_true(json_is_null(json_at(none_json, "mean")));
    assert_true(json_is_null(json_at(none_json, "p99.9")));
    assert_near(one_json, "p1", 5, 0);
    assert_near(one_json, "p99.9", 5, 0);
    assert_near(one_json, "std", 0, 0);
    assert_true(json_is_null(json_at(one_json, "ci95")));
}

/* 100000 gaps of 0 to 200 ms in 100 requests: more than one upper half, and numpy's answers. */
static void test_gaps_are_exact(void **state)
{
    enum { REQUESTS = 100, GAPS = 1000 };
    _cleanup_(freep) uint32_t *gaps = xcalloc(REQUESTS * GAPS, sizeof(*gaps));
    struct request_record records[REQUESTS];

    for (size_t i = 0; i < REQUESTS * GAPS; i++)
        gaps[i] = (uint32_t)(i * 48271 % 200003);
    for (size_t i = 0; i < REQUESTS; i++) {
        records[i] = request_at((int64_t)i, 0, 1, 1);
        records[i].gaps_us = gaps + i * GAPS;
        records[i].n_gaps = GAPS;
    }
    _cleanup_json_ j = distribution_of(FIGURE_ITL, records, REQUESTS);
    assert_near(j, "count", 100000, 0);
    assert_near(j, "mean", 100.00165507, 1e-7);
    assert_near(j, "std", 57.73625451126834, 1e-7);
    assert_near(j, "min", 0, 0);
    assert_near(j, "p1", 2.00196, 1e-9);
    assert_near(j, "p5", 9.99895, 1e-9);
    assert_near(j, "p50", 100.0025, 1e-9);
    assert_near(j, "p99.9", 199.801004, 1e-9);
    assert_near(j, "max", 200, 0);
    assert_true(json_number_value(json_at(j, "ci95/p99/0")) <= 198.00301);
    assert_true(json_number_value(json_at(j, "ci95/p99/1")) >= 198.00301);
}

/* 20000 draws of numpy gave [46.10, 54.13] for the mean and [43, 57] for the median. */
static void test_intervals(void **state)
{
    struct request_record records[200];

    for (size_t i = 0; i < 200; i++)
        records[i] = request_at((int64_t)i, 0, (double)(i * 7919 % 101), 1);
    _cleanup_json_ j = distribution_of(FIGURE_TTFT, records, 200);
    _cleanup_json_ again = distribution_of(FIGURE_TTFT, records, 200);
    assert_near(j, "ci95/mean/0", 46.1, 0.5);
    assert_near(j, "ci95/mean/1", 54.13, 0.5);
    assert_near(j, "ci95/p50/0", 43, 2);
    assert_near(j, "ci95/p50/1", 57, 2);
    assert_near(j, "ci95/p99/1", 100, 0);
    assert_true(json_equal(j, again));
}

/* The true share lies within 95 of 100 intervals; of gaps that are alike within a request, too, which an
 * interval that drew gaps would miss in most cases. */
static void test_intervals_hold_what_they_promise(void **state)
{
    enum { ROUNDS = 300, REQUESTS = 60, GAPS = 50 };
    struct ratio requests[REQUESTS];
    uint64_t seed = 1;
    int held = 0;

    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < REQUESTS; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            requests[i] = (struct ratio){(double)(seed >> 40) / (1 << 24) * GAPS, GAPS};
        }
        struct interval95 interval = bootstrap_ratio(requests, REQUESTS, seed);
        held += interval.low <= 0.5 && 0.5 <= interval.high;
    }
    assert_in_range(held, ROUNDS * 90 / 100, ROUNDS * 99 / 100);
}

/* More requests than units: the cost stays, and the interval shrinks with the root of their number. */
static void test_intervals_of_many(void **state)
{
    enum { MANY = 100000 };
    _cleanup_(freep) struct ratio *requests = xcalloc(MANY, sizeof(*requests));
    uint64_t seed = 1;

    for (size_t i = 0; i < MANY; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        requests[i] = (struct ratio){(double)(seed >> 40) / (1 << 24), 1};
    }
    struct interval95 interval = bootstrap_ratio(requests, MANY, 5);
    /* 2 * 1.96 * sqrt(1 / 12 / n) */
    assert_true(interval.high - interval.low > 0.0032 && interval.high - interval.low < 0.0040);
}

static void test_correlations(void **state)
{
    static const double x[] = {100, 200, 300, 400, 500, 600, 700, 800, 900, 1000},
                        y[] = {1.0, 2.2, 2.9, 4.4, 4.8, 6.5, 6.5, 8.9, 8.7, 30.0}, same[10] = {0};

    assert_float_equal(correlation(x, y, 10), 0.7616356592010675, 1e-12);
    assert_float_equal(rank_correlation(x, y, 10), 0.9848069807617046, 1e-12);
    assert_float_equal(rank_correlation(x, x, 10), 1, 1e-12);
    assert_true(isnan(correlation(x, same, 10)));
    assert_true(isnan(rank_correlation(same, y, 10)));
    assert_true(isnan(correlation(x, y, 2)));
}

/* By the formulas of Mann, Kendall and Sen, in numpy. */
static void test_trend(void **state)
{
    static const double rising[] = {10, 11, 10, 12, 13, 12, 14, 15, 13, 16, 17, 15};
    struct moment_value values[ARRAY_SIZE(rising)];
    struct trend t;

    for (size_t i = 0; i < ARRAY_SIZE(rising); i++)
        values[i] = (struct moment_value){(int64_t)i * NS_PER_S, rising[i]};
    assert_true(trend_of(values, ARRAY_SIZE(rising), &t));
    assert_float_equal(t.tau, 0.7575757575757576, 1e-9);
    assert_float_equal(t.p, 0.0006935735399070719, 1e-9);
    assert_float_equal(t.slope_per_s, 2.0 / 3, 1e-9);
    assert_false(trend_of(values, TREND_VALUES_MIN - 1, &t));
    for (size_t i = 0; i < ARRAY_SIZE(rising); i++)
        values[i].value = 7;
    assert_true(trend_of(values, ARRAY_SIZE(rising), &t));
    assert_float_equal(t.p, 1, 0);
    assert_float_equal(t.slope_per_s, 0, 0);
}

/* Of noise alone, one run in a hundred may be called a drift at that level. */
static void test_noise_is_no_trend(void **state)
{
    enum { RUNS = 200, REQUESTS = 400 };
    struct moment_value values[REQUESTS];
    struct trend t;
    uint64_t seed = 3;
    int alarms = 0;

    for (int run = 0; run < RUNS; run++) {
        for (size_t i = 0; i < REQUESTS; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            values[i] = (struct moment_value){(int64_t)i * NS_PER_S, (double)(seed >> 40)};
        }
        assert_true(trend_of(values, REQUESTS, &t));
        alarms += t.p < 0.01;
    }
    assert_in_range(alarms, 0, 8);
}

static void test_concurrency(void **state)
{
    struct request_record records[] = {request_at(0, 0, 1, 1), request_at(1, 5, 1, 1),
                                       request_at(2, 10, 1, 1), request_at(3, 16, 1, 1),
                                       request_at(4, 17, 1, 1)};
    struct concurrency c;

    /* What ends when another begins was not under way with it; the last was never sent. */
    records[4].sent_ns = -1;
    concurrency_of(records, 5, &c);
    assert_int_equal(c.n, 4);
    assert_int_equal(concurrency_peak(&c), 2);
    assert_int_equal(concurrency_at(&c, MS(4)), 1);
    assert_int_equal(concurrency_at(&c, MS(10)), 2);
    assert_int_equal(concurrency_at(&c, MS(15)), 1);
    assert_int_equal(concurrency_at(&c, MS(50)), 0);
    concurrency_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_distribution_of_few),
        cmocka_unit_test(test_gaps_are_exact),
        cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_intervals_hold_what_they_promise),
        cmocka_unit_test(test_intervals_of_many),
        cmocka_unit_test(test_correlations),
        cmocka_unit_test(test_trend),
        cmocka_unit_test(test_noise_is_no_trend),
        cmocka_unit_test(test_concurrency),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
