/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan expects, against figures that were computed by hand. */
#include "base/alloc.h"
#include "client/runs/plan.h"
#include "tests/unit/cmocka-all.h"
#include <math.h>

static json_t *parse(const char *text)
{
    char error[200];
    json_t *j = json_parse(text, strlen(text), error);

    if (!j)
        fail_msg("%s", error);
    return j;
}

static void add(struct run_plan *p, const char *workload)
{
    _cleanup_json_ w = parse(workload);
    run_plan_add(p, w);
}

static void measured(struct run_plan *p, size_t i, const char *run)
{
    _cleanup_json_ j = parse(run);
    run_plan_measured(p, i, j);
}

static void assert_range(struct time_range range, double low, double high)
{
    if (fabs(range.low_s - low) > 1e-9 || fabs(range.high_s - high) > 1e-9)
        fail_msg("%g to %g, not %g to %g", range.low_s, range.high_s, low, high);
}

/* 100 requests in 50 s one after another: at 4 at a time they take as long at most, a quarter at least. */
static void test_by_what_was_measured(void **state)
{
    _cleanup_(run_plan_done) struct run_plan p = {0};

    add(&p, "{\"requests\": 100}");
    add(&p, "{\"requests\": 100, \"concurrency\": 4}");
    add(&p, "{\"requests\": 200, \"concurrency\": 8}");
    assert_true(isnan(run_plan_estimate(&p, 0).low_s));
    assert_true(isnan(run_plan_remaining(&p, 0).high_s));
    assert_true(run_plan_requests(&p) == 400);
    measured(
        &p, 0,
        "{\"requested_at\": 0, \"ended_at\": 50000000000, \"requests\": {\"success\": 98, \"error\": 2}}");
    assert_range(run_plan_estimate(&p, 0), 50, 50);
    assert_range(run_plan_estimate(&p, 1), 12.5, 50);
    assert_range(run_plan_estimate(&p, 2), 12.5, 100);
    assert_range(run_plan_remaining(&p, 1), 25, 150);
    /* The nearer run tells more: 20 s for 100 at 4, so 200 at 8 take 20 to 40. */
    measured(&p, 1, "{\"requested_at\": 0, \"ended_at\": 20000000000, \"requests\": {\"success\": 100}}");
    assert_range(run_plan_estimate(&p, 2), 20, 40);
    assert_range(run_plan_remaining(&p, 3), 0, 0);
}

static void test_fewer_at_a_time_take_longer(void **state)
{
    _cleanup_(run_plan_done) struct run_plan p = {0};

    add(&p, "{\"requests\": 80, \"concurrency\": 8}");
    add(&p, "{\"requests\": 80, \"concurrency\": 2}");
    measured(&p, 0, "{\"requested_at\": 0, \"ended_at\": 10000000000, \"requests\": {\"success\": 80}}");
    assert_range(run_plan_estimate(&p, 1), 10, 40);
}

static void test_by_schedule(void **state)
{
    static const struct {
        const char *workload;
        double low, high;
    } cases[] = {
        {"{\"duration\": \"90s\", \"concurrency\": 4}", 90, 90},
        {"{\"rate\": 5, \"requests\": 100}", 20, 20},
        {"{\"rate\": 5, \"rate_to\": 15, \"requests\": 100}", 10, 10},
        {"{\"rate\": 5, \"requests\": 100, \"duration\": \"1min\"}", 20, 60},
        {"{\"prompts\": [\"a\", \"b\"], \"repeat\": 5, \"rate\": 2}", 5, 5},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(run_plan_done) struct run_plan p = {0};
        add(&p, cases[i].workload);
        assert_range(run_plan_estimate(&p, 0), cases[i].low, cases[i].high);
    }
}

/* Twice the tokens of a request take one to two times as long. */
static void test_by_length(void **state)
{
    _cleanup_(run_plan_done) struct run_plan p = {0};

    add(&p, "{\"requests\": 10, \"isl\": 100, \"osl\": 100}");
    add(&p, "{\"requests\": 10, \"isl\": 100, \"osl\": 300}");
    measured(&p, 0, "{\"requested_at\": 0, \"ended_at\": 10000000000, \"requests\": {\"success\": 10}}");
    assert_range(run_plan_estimate(&p, 1), 10, 20);
}

static void test_looks_back(void **state)
{
    static const char runs[] =
        "[{\"run\": 9, \"state\": \"failed\", \"targets\": [{\"url\": \"http://w\"}], \"workload\": "
        "{\"requests\": 10},"
        "  \"requested_at\": 0, \"ended_at\": 1000000000, \"requests\": {\"success\": 10}},"
        " {\"run\": 8, \"state\": \"complete\", \"targets\": [{\"url\": \"http://other\"}], \"workload\": "
        "{\"requests\": "
        "10},"
        "  \"requested_at\": 0, \"ended_at\": 1000000000, \"requests\": {\"success\": 10}},"
        " {\"run\": 7, \"state\": \"complete\", \"targets\": [{\"url\": \"http://w\"}], \"workload\": "
        "{\"requests\": 10},"
        "  \"requested_at\": 0, \"ended_at\": 5000000000, \"requests\": {\"success\": 10}}]";
    _cleanup_(run_plan_done) struct run_plan p = {0};
    _cleanup_json_ list = parse(runs);
    _cleanup_json_ request = parse("{\"workers\": [\"http://w\"]}");
    _cleanup_json_ other = parse("{\"router\": \"http://r\"}");

    add(&p, "{\"requests\": 20}");
    run_plan_look_back(&p, list, other);
    assert_int_equal(p.n_earlier, 0);
    run_plan_look_back(&p, list, request);
    assert_int_equal(p.n_earlier, 1);
    assert_string_equal(p.earlier[0].ref, "r7");
    assert_range(run_plan_estimate(&p, 0), 10, 10);
    _cleanup_(freep) char *line = run_plan_line(&p);
    assert_string_equal(line, "Plan: 1 run, 20 requests, about 10s, estimated from r7");
}

static void test_words(void **state)
{
    static const struct {
        struct time_range range;
        const char *text;
    } cases[] = {
        {{NAN, NAN}, "unknown"},  {{0.1, 0.3}, "about 1s"},           {{12.2, 12.4}, "about 12s"},
        {{10, 40}, "10s to 40s"}, {{60, 600}, "1min 0s to 10min 0s"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *text = time_range_text(cases[i].range);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_what_was_measured), cmocka_unit_test(test_fewer_at_a_time_take_longer),
        cmocka_unit_test(test_by_schedule),          cmocka_unit_test(test_by_length),
        cmocka_unit_test(test_looks_back),           cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
