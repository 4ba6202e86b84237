/* SPDX-License-Identifier: Apache-2.0 */
/* Loops whose turns run side by side, and reports that are made so: the same as one after the other. */
#include "tests/unit/report-fixture.h"
#include "trace/reports/parallel.h"
#include <errno.h>
#include <stdatomic.h>

#define TURNS 1000

struct counts {
    _Atomic int of_turn[TURNS];
    _Atomic int all;
    int result; /* of each turn */
};

static int count(void *arg, size_t i)
{
    struct counts *c = arg;

    atomic_fetch_add(&c->of_turn[i], 1);
    atomic_fetch_add(&c->all, 1);
    return c->result;
}

static void each_turn_is_taken_once(void **state)
{
    struct counts c = {0};

    assert_int_equal(parallel_each(TURNS, count, &c), 0);
    for (size_t i = 0; i < TURNS; i++)
        assert_int_equal(c.of_turn[i], 1);
    assert_int_equal(parallel_each(0, count, &c), 0);
    assert_int_equal(c.all, TURNS);
}

static void an_error_ends_it(void **state)
{
    struct counts c = {.result = -EIO};

    assert_int_equal(parallel_each(TURNS, count, &c), -EIO);
    /* Whoever met one takes no further turn. */
    assert_in_range(c.all, 1, PARALLEL_THREADS_MAX);
}

static int count_within(void *arg, size_t i)
{
    return parallel_each(TURNS, count, arg);
}

static void loops_lie_in_each_other(void **state)
{
    struct counts c = {0};

    assert_int_equal(parallel_each(3, count_within, &c), 0);
    assert_int_equal(c.all, 3 * TURNS);
}

/* Collectives that one rank is late at, in steps, with operators around the launches. */
static void add_rank(struct report_fixture *fixture, int late)
{
    char *events = NULL;
    size_t size;
    FILE *out = open_memstream(&events, &size);

    for (int i = 0; i < 40; i++) {
        double at = 1000.0 * i;
        fprintf(
            out,
            "%s{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%d\",\"pid\":1,\"tid\":1,"
            "\"ts\":%f,\"dur\":900},"
            "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":%f,\"dur\":30}"
            ","
            "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
            "\"ts\":%f,\"dur\":5,\"args\":{\"correlation\":%d}},"
            "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":%f,\"dur\":%d,"
            "\"args\":{\"stream\":7,\"device\":0,\"correlation\":%d}},"
            "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce\",\"pid\":0,\"tid\":8,"
            "\"ts\":%f,\"dur\":%d,\"args\":{\"stream\":8,\"device\":0}}",
            i ? "," : "", i, at, at + 5, at + 10, i + 1, at + 20, 100 + late, i + 1, at + 120 + late,
            300 - late);
    }
    fclose(out);
    fixture_add_rank(fixture, events);
    free(events);
}

static void reports_are_the_same(void **state)
{
    _cleanup_(fixture_done) struct report_fixture fixture = {0};
    struct made_report made[64] = {0};
    size_t n = 0;

    for (int rank = 0; rank < FIXTURE_RANKS_MAX; rank++)
        add_rank(&fixture, 10 * rank);
    for (; reports[n]; n++)
        made[n].report = reports[n];
    assert_true(n <= ARRAY_SIZE(made));
    reports_make(made, n, &fixture.analysis);
    analysis_done(&fixture.analysis);
    for (size_t i = 0; i < n; i++) {
        _cleanup_(report_rows_done) struct report_rows alone = {0};
        assert_int_equal(report_make(made[i].report, &fixture.analysis, &alone), made[i].result);
        _cleanup_(freep) char *expected = rows_text(&alone), *found = rows_text(&made[i].rows);
        assert_string_equal(found, expected);
    }
    reports_done(made, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_turn_is_taken_once),
        cmocka_unit_test(an_error_ends_it),
        cmocka_unit_test(loops_lie_in_each_other),
        cmocka_unit_test(reports_are_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
