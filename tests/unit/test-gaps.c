/* SPDX-License-Identifier: Apache-2.0 */
/* When streams had nothing to do, why, and what the host did meanwhile: gaps, gap_list. */
#include "tests/unit/report-fixture.h"

#define US 1000

static void host(struct report_fixture *r, const char *category, const char *name, double ts, double dur)
{
    fixture_event(r, category, name, 1, ts, dur, NULL);
}

/* The row of gap_list for the gap that `after` ended. */
static size_t gap_before(const struct report_fixture *r, const char *after)
{
    for (size_t row = 0; row < report_rows_count(&r->rows); row++)
        if (streq(fixture_cell(r, row, "after")->text, after))
            return row;
    fail_msg("no gap before %s", after);
    return 0;
}

static void assert_gap(const struct report_fixture *r, const char *after, int64_t start, int64_t dur,
                       const char *cause)
{
    size_t row = gap_before(r, after);

    assert_cell_int(r, row, "start_ns", start);
    assert_cell_int(r, row, "dur_ns", dur);
    assert_cell_text(r, row, "cause", cause);
}

static void assert_culprit(const struct report_fixture *r, const char *after, const char *culprit,
                           const char *kind, int64_t covered)
{
    size_t row = gap_before(r, after);

    assert_cell_text(r, row, "inside", culprit);
    assert_cell_text(r, row, "inside_kind", kind);
    assert_cell_int(r, row, "inside_ns", covered);
}

static void test_causes(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_launch(&r, "kernel", "first", 7, 1, 0, 10, 90);
    fixture_launch(&r, "kernel", "late", 7, 2, 150, 160, 40);       /* launched in the gap */
    fixture_launch(&r, "kernel", "soon", 7, 3, 155, 229.999, 1);    /* 29.999 us, launched before */
    fixture_launch(&r, "kernel", "later", 7, 4, 170, 260.999, 10);  /* 30 us, launched before */
    fixture_launch(&r, "kernel", "unknown", 7, 5, -1, 300.999, 1);  /* nobody knows who launched it */
    fixture_launch(&r, "kernel", "at once", 7, 6, 275, 301.999, 1); /* no gap */
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "gap_list"), 0);
    assert_int_equal(report_rows_count(&r.rows), 4);
    assert_gap(&r, "late", 100 * US, 60 * US, "host_wait");
    assert_gap(&r, "soon", 200 * US, 29999, "kernel_wait");
    assert_gap(&r, "later", 230999, 30 * US, "other");
    assert_gap(&r, "unknown", 270999, 30 * US, "other");

    assert_int_equal(fixture_make(&r, "gaps"), 0);
    assert_int_equal(report_rows_count(&r.rows), 3);
    /* The largest sum first. */
    assert_cell_text(&r, 0, "cause", "host_wait");
    assert_cell_int(&r, 0, "rank", 0);
    assert_cell_int(&r, 0, "stream", 7);
    assert_cell_int(&r, 0, "count", 1);
    assert_cell_int(&r, 0, "sum_ns", 60 * US);
    assert_cell_text(&r, 1, "cause", "other");
    assert_cell_int(&r, 1, "count", 2);
    assert_cell_int(&r, 1, "sum_ns", 60 * US);
    assert_cell_int(&r, 1, "max_ns", 30 * US);
    assert_cell_text(&r, 2, "cause", "kernel_wait");
    fixture_done(&r);
}

/* A stream is idle only behind the latest end so far: nothing is negative, nothing counted twice. */
static void test_work_that_overlaps(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_launch(&r, "kernel", "long", 7, 1, 0, 10, 90);
    fixture_launch(&r, "kernel", "within", 7, 2, 1, 20, 10);
    fixture_launch(&r, "kernel", "next", 7, 3, 2, 105, 5);
    fixture_launch(&r, "kernel", "other stream", 8, 4, 3, 102, 1);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "gap_list"), 0);
    assert_int_equal(report_rows_count(&r.rows), 1);
    assert_gap(&r, "next", 100 * US, 5 * US, "kernel_wait");
    assert_cell_text(&r, 0, "before", "long");
    assert_cell_int(&r, 0, "idle_ns", 4 * US);
    fixture_done(&r);
}

static void test_culprit_is_the_innermost_that_covers_most(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    host(&r, "user_annotation", "step", 0, 1000);
    fixture_launch(&r, "kernel", "first", 7, 1, 1, 10, 90); /* until 100 */
    host(&r, "cpu_op", "touches it first", 60, 60);
    host(&r, "python_function", "model.py(7): forward", 150, 700);
    host(&r, "cpu_op", "aten::item", 200, 600);
    host(&r, "cuda_runtime", "cudaStreamSynchronize", 210, 300);
    fixture_launch(&r, "kernel", "next", 7, 2, 880, 900, 10); /* a gap of 800 */
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "gap_list"), 0);
    assert_gap(&r, "next", 100 * US, 800 * US, "host_wait");
    assert_culprit(&r, "next", "aten::item", "operator", 600 * US);
    assert_int_equal(fixture_make(&r, "gaps"), 0);
    assert_cell_text(&r, 0, "inside", "aten::item");
    assert_cell_int(&r, 0, "inside_ns", 800 * US);
    fixture_done(&r);
}

/* What happens on a thread that launched nothing is nobody's fault. */
static void test_other_threads_do_not_count(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_launch(&r, "kernel", "first", 7, 1, 1, 10, 90);
    fixture_event(&r, "cpu_op", "elsewhere", 2, 100, 100, NULL);
    fixture_launch(&r, "kernel", "next", 7, 2, 199, 200, 10);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "gap_list"), 0);
    assert_cell_null(&r, gap_before(&r, "next"), "inside");
    fixture_done(&r);
}

static void test_where_nothing_covers_half(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_launch(&r, "kernel", "first", 7, 1, 1, 10, 90); /* until 100 */
    host(&r, "cpu_op", "a", 90, 40);                        /* 30 of it */
    host(&r, "cpu_op", "b", 130, 40);                       /* 40 */
    host(&r, "cpu_op", "in b", 131, 1);
    host(&r, "cpu_op", "c", 170, 20); /* 20 */
    fixture_launch(&r, "kernel", "second", 7, 2, 198, 200, 10);
    host(&r, "cpu_op", "little", 215, 20); /* of 200, with nothing known of most of it */
    fixture_launch(&r, "kernel", "third", 7, 3, 408, 410, 10);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "gap_list"), 0);
    assert_culprit(&r, "second", "b", "operator", 40 * US);
    assert_cell_null(&r, gap_before(&r, "third"), "inside");
    assert_cell_null(&r, gap_before(&r, "third"), "inside_ns");
    fixture_done(&r);
}

static void test_streams_of_several_devices(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    for (int device = 0; device < 2; device++)
        for (int i = 0; i < 2; i++) {
            char args[64];
            snprintf(args, sizeof(args), "\"device\":%d,\"stream\":7", device);
            fixture_event(&r, "kernel", "k", 7 + 100 * device, 10 + 100 * i + device, 5, args);
        }
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "gaps"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    for (size_t row = 0; row < 2; row++)
        assert_cell_int(&r, row, "sum_ns", 95 * US);
    assert_int_not_equal(fixture_cell(&r, 0, "device")->integer, fixture_cell(&r, 1, "device")->integer);
    fixture_done(&r);
}

/* A gap belongs to the part of the trace in which it ends. */
/* The product of many streams and many calls would take more memory than there is. */
static void test_streams_without_number(void **state)
{
    enum { CALLS = 2000, STREAMS = 400 };
    struct report_fixture r;
    size_t known = 0;

    fixture_begin(&r, "");
    for (int i = 0; i < CALLS; i++)
        host(&r, "cpu_op", "op", 1000 + 10 * i, 9);
    for (int i = 0; i < STREAMS; i++) {
        fixture_launch(&r, "kernel", "before", 7 + i, 1 + i, 0.5 * i, 500 + 0.1 * i, 1);
        fixture_launch(&r, "kernel", "after", 7 + i, 1000 + i, 21000 + 0.5 * i, 22000 + 0.1 * i, 1);
    }
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "gap_list"), 0);
    assert_int_equal(report_rows_count(&r.rows), STREAMS);
    for (size_t row = 0; row < STREAMS; row++)
        known += fixture_cell(&r, row, "call")->type == CELL_TEXT;
    assert_in_range(known, 10, STREAMS - 10);
    fixture_done(&r);
}

static void test_part_of_a_trace(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    for (int i = 0; i < 10; i++)
        fixture_launch(&r, "kernel", "k", 7, i + 1, 100 * i, 100 * i + 50, 20);
    fixture_read(&r);
    r.analysis.view.from = 200 * US;
    r.analysis.view.to = 400 * US;
    assert_int_equal(fixture_make(&r, "gaps"), 0);
    assert_int_equal(report_rows_count(&r.rows), 1);
    assert_cell_int(&r, 0, "count", 2);
    assert_cell_int(&r, 0, "sum_ns", 160 * US);
    fixture_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_work_that_overlaps),
        cmocka_unit_test(test_culprit_is_the_innermost_that_covers_most),
        cmocka_unit_test(test_other_threads_do_not_count),
        cmocka_unit_test(test_where_nothing_covers_half),
        cmocka_unit_test(test_streams_of_several_devices),
        cmocka_unit_test(test_streams_without_number),
        cmocka_unit_test(test_part_of_a_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
