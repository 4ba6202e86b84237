/* SPDX-License-Identifier: Apache-2.0 */
/* What --sweep and --goodput say. */
#include "client/runs/plan.h"
#include "client/runs/workload.h"
#include "tests/unit/cmocka-all.h"

static void test_sweep(void **state)
{
    struct sweep s;

    assert_int_equal(sweep_parse("concurrency=1,2,4", &s, NULL), 0);
    assert_string_equal(s.member, "concurrency");
    assert_int_equal(s.n, 3);
    assert_true(s.values[2] == 4);
    assert_int_equal(sweep_parse("rate=0.5,1.5", &s, NULL), 0);
    assert_true(s.values[0] == 0.5);
}

static void test_no_sweep(void **state)
{
    static const char *const texts[] = {
        "",
        "concurrency",
        "concurrency=",
        "concurrency=1,x",
        "concurrency=0",
        "concurrency=1.5",
        "concurrency=-1",
        "concurrency=1,1",
        "concurrency=1e3",
        "rate=inf",
        "seed=1,2",
        "conc=1",
        "=1",
        "osl=99999999999",
        "isl=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,"
        "36,"
        "37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        _cleanup_(problem_done) struct problem p = {0};
        struct sweep s = {.n = 77};
        assert_true(sweep_parse(texts[i], &s, &p) < 0);
        assert_int_equal(s.n, 77);
        assert_int_equal(p.kind, PROBLEM_BAD_REQUEST);
        assert_non_null(p.remedy);
    }
}

/* A service of 10 ms for one, of which 4 fit side by side: beyond that more load is waiting only. */
static void test_knee(void **state)
{
    struct sweep_point points[6];

    for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
        double n = (double)(1u << i);
        points[i] = (struct sweep_point){n, (n < 4 ? n : 4) / 0.010, (n < 4 ? 1 : n / 4) * 0.010};
    }
    assert_int_equal(sweep_knee(points, 6), 2);
    /* It does not matter in which order they ran, nor that one failed. */
    struct sweep_point swapped[] = {points[3], points[2], {2, 0, 0}, points[1]};
    assert_int_equal(sweep_knee(swapped, 4), 1);
    /* Up to 4 it only rises: the knee may lie beyond. */
    assert_true(sweep_knee(points, 3) == SWEEP_NO_KNEE);
    assert_true(sweep_knee(points + 2, 2) == SWEEP_NO_KNEE);
    assert_true(sweep_knee(NULL, 0) == SWEEP_NO_KNEE);
}

static void test_goals(void **state)
{
    _cleanup_json_ goals = NULL;

    assert_int_equal(goals_parse("ttft:200ms,e2e:1.5s", &goals, NULL), 0);
    assert_int_equal(json_object_size(goals), 2);
    assert_string_equal(json_get_str(goals, "ttft"), "200ms");
    assert_string_equal(json_get_str(goals, "e2e"), "1.5s");
}

static void test_no_goals(void **state)
{
    static const char *const texts[] = {"",         ",",        "ttft",          "ttft:",
                                        "ttft:200", "ttft:0ms", "ttft:infinity", "ttft:1s,ttft:2s",
                                        "itl:3ms",  "ttft=3ms", "tpot:-3ms"};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        _cleanup_(problem_done) struct problem p = {0};
        json_t *goals = NULL;
        assert_true(goals_parse(texts[i], &goals, &p) < 0);
        assert_null(goals);
        assert_int_equal(p.kind, PROBLEM_BAD_REQUEST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sweep), cmocka_unit_test(test_no_sweep), cmocka_unit_test(test_knee),
        cmocka_unit_test(test_goals), cmocka_unit_test(test_no_goals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
