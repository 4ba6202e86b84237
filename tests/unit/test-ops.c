/* SPDX-License-Identifier: Apache-2.0 */
/* What operators cost: ops, op_shapes, op_kernels, op_tree, stacks, sequences. */
#include "tests/unit/report-fixture.h"

#define US 1000

static size_t row_of(const struct report_fixture *r, const char *column, const char *name)
{
    for (size_t row = 0; row < report_rows_count(&r->rows); row++) {
        const struct cell *cell = fixture_cell(r, row, column);
        if (cell->type == CELL_TEXT && streq(cell->text, name))
            return row;
    }
    fail_msg("no row with %s %s", column, name);
    return 0;
}

static void assert_op(const struct report_fixture *r, const char *name, int64_t calls, int64_t host,
                      int64_t self)
{
    size_t row = row_of(r, "name", name);

    assert_cell_int(r, row, "calls", calls);
    assert_cell_int(r, row, "host_ns", host * US);
    assert_cell_int(r, row, "self_host_ns", self * US);
}

static void assert_device(const struct report_fixture *r, const char *name, int64_t all, int64_t self,
                          int64_t kernels)
{
    size_t row = row_of(r, "name", name);

    assert_cell_int(r, row, "device_ns", all * US);
    assert_cell_int(r, row, "self_device_ns", self * US);
    assert_cell_int(r, row, "kernels", kernels);
}

/* step { linear { frame { addmm { launch } } } linear { addmm { launch launch } } }; a launch beside them */
static void begin_model(struct report_fixture *r)
{
    fixture_begin(r, "");
    fixture_event(r, "user_annotation", "ProfilerStep#1", 1, 0, 200, NULL);
    fixture_event(r, "cpu_op", "aten::linear", 1, 10, 50,
                  "\"Input Dims\":[[2,3]],\"Input type\":[\"float\"]");
    fixture_event(r, "python_function", "between", 1, 15, 40, NULL);
    fixture_event(r, "cpu_op", "aten::addmm", 1, 20, 30, "\"Input Dims\":[[2,3]]");
    fixture_launch(r, "kernel", "gemm", 7, 1, 25, 70, 10);
    fixture_event(r, "cpu_op", "aten::linear", 1, 100, 50,
                  "\"Input Dims\":[[4,3]],\"Input type\":[\"float\"]");
    fixture_event(r, "cpu_op", "aten::addmm", 1, 110, 30, "\"Input Dims\":[[2,3]]");
    fixture_launch(r, "kernel", "gemm", 7, 2, 115, 160, 12);
    fixture_launch(r, "kernel", "bias", 7, 3, 120, 180, 3);
    fixture_launch(r, "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 7, 4, 190, 195, 4);
}

static void test_self_and_total(void **state)
{
    struct report_fixture r;

    begin_model(&r);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "ops"), 0);
    assert_int_equal(report_rows_count(&r.rows), 3);
    assert_op(&r, "aten::linear", 2, 100, 40);
    assert_op(&r, "aten::addmm", 2, 60, 60);
    assert_op(&r, "ProfilerStep*", 1, 200, 100);
    assert_device(&r, "aten::linear", 25, 0, 3);
    assert_device(&r, "aten::addmm", 25, 25, 3);
    assert_device(&r, "ProfilerStep*", 29, 4, 4);
    assert_cell_int(&r, row_of(&r, "name", "aten::addmm"), "runtime_ns", 6 * US);
    assert_cell_int(&r, row_of(&r, "name", "aten::linear"), "shapes", 2);
    assert_cell_text(&r, row_of(&r, "name", "ProfilerStep*"), "kind", "annotation");
    fixture_done(&r);
}

/* Three calls, each of which launched a kernel that takes 127 years. */
static void test_sums_beyond_a_number(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    for (int i = 0; i < 3; i++) {
        fixture_event(&r, "cpu_op", "aten::addmm", 1, 10 + 20 * i, 10, NULL);
        fixture_launch(&r, "kernel", "gemm", 7 + i, 1 + i, 11 + 20 * i, 100, 4e15);
    }
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "ops"), 0);
    assert_cell_int(&r, 0, "kernels", 3);
    assert_cell_int(&r, 0, "device_ns", INT64_MAX);
    assert_cell_int(&r, 0, "self_device_ns", INT64_MAX);
    fixture_done(&r);
}

static void test_shapes(void **state)
{
    struct report_fixture r;

    begin_model(&r);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "op_shapes"), 0);
    assert_int_equal(report_rows_count(&r.rows), 3);
    size_t small = row_of(&r, "dims", "[[2,3]]"), large = row_of(&r, "dims", "[[4,3]]");
    assert_cell_text(&r, small, "name", "aten::addmm");
    assert_cell_int(&r, small, "calls", 2);
    assert_cell_text(&r, large, "name", "aten::linear");
    assert_cell_text(&r, large, "types", "[\"float\"]");
    assert_cell_int(&r, large, "device_ns", 15 * US);
    fixture_done(&r);
}

static void test_kernels_of_operators(void **state)
{
    struct report_fixture r;

    begin_model(&r);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "op_kernels"), 0);
    assert_int_equal(report_rows_count(&r.rows), 3);
    assert_cell_text(&r, 0, "op", "aten::addmm");
    assert_cell_text(&r, 0, "kernel", "gemm");
    assert_cell_int(&r, 0, "count", 2);
    assert_cell_int(&r, 0, "sum_ns", 22 * US);
    assert_cell_text(&r, row_of(&r, "kernel", "Memcpy DtoH (Device -> Pinned)"), "op", "ProfilerStep*");
    fixture_done(&r);
}

/* Where the launch lies in no operator, the External id says whose it is; where that is nobody's, nobody's.
 */
static void test_external_id(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "cpu_op", "aten::mul", 1, 10, 10, "\"External id\":77");
    fixture_event(&r, "cuda_runtime", "cudaLaunchKernel", 2, 12, 2, "\"correlation\":1");
    fixture_event(&r, "kernel", "known", 7, 20, 5, "\"stream\":7,\"correlation\":1,\"External id\":77");
    fixture_event(&r, "kernel", "unknown", 7, 30, 5, "\"stream\":7,\"correlation\":2,\"External id\":78");
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "op_kernels"), 0);
    assert_cell_text(&r, row_of(&r, "kernel", "known"), "op", "aten::mul");
    assert_cell_null(&r, row_of(&r, "kernel", "unknown"), "op");
    fixture_done(&r);
}

/* Annotations that lie across Python frames are on a track of their own: operators are in them all the same.
 */
static void test_what_lies_across(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "python_function", "loop", 1, 0, 100, NULL);
    fixture_event(&r, "user_annotation", "step", 1, 50, 100, NULL);
    fixture_event(&r, "cpu_op", "aten::mul", 1, 60, 10, NULL);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "op_tree"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_cell_text(&r, 0, "name", "step");
    assert_cell_int(&r, 0, "self_host_ns", 90 * US);
    assert_cell_text(&r, 1, "name", "aten::mul");
    assert_cell_int(&r, 1, "depth", 1);
    assert_cell_int(&r, 1, "parent", fixture_cell(&r, 0, "id")->integer);
    fixture_done(&r);
}

static void test_tree(void **state)
{
    static const struct {
        const char *name;
        int depth, calls;
        int64_t host;
    } expected[] = {{"ProfilerStep*", 0, 1, 200}, {"aten::linear", 1, 2, 100}, {"aten::addmm", 2, 2, 60}};
    struct report_fixture r;

    begin_model(&r);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "op_tree"), 0);
    assert_int_equal(report_rows_count(&r.rows), ARRAY_SIZE(expected));
    for (size_t row = 0; row < ARRAY_SIZE(expected); row++) {
        assert_cell_text(&r, row, "name", expected[row].name);
        assert_cell_int(&r, row, "depth", expected[row].depth);
        assert_cell_int(&r, row, "calls", expected[row].calls);
        assert_cell_int(&r, row, "host_ns", expected[row].host * US);
    }
    fixture_done(&r);
}

static void test_stacks(void **state)
{
    struct report_fixture r;

    begin_model(&r);
    fixture_event(&r, "python_function", "inner", 1, 21, 8, NULL);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "stacks"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_op(&r, "between", 1, 40, 32);
    assert_op(&r, "inner", 1, 8, 8);
    assert_device(&r, "between", 10, 0, 1);
    assert_device(&r, "inner", 10, 10, 1);
    fixture_done(&r);
}

/* Self times sum up to what lies in nothing, whatever calls lie in what. */
static void test_self_times_sum_to_total(void **state)
{
    struct report_fixture r;
    unsigned seed = 1;
    double at = 0, total = 0;

    fixture_begin(&r, "");
    for (int i = 0; i < 300; i++) {
        /* Each root has up to three calls within, each of them one. */
        seed = seed * 1103515245 + 12345;
        double dur = 10 + seed % 90;
        char name[16];
        snprintf(name, sizeof(name), "op%u", seed % 7);
        fixture_event(&r, "cpu_op", name, 1 + i % 3, at, dur, "\"External id\":1");
        for (unsigned k = 0; k < seed / 1000 % 4; k++) {
            fixture_event(&r, "cpu_op", "child", 1 + i % 3, at + k * dur / 4, dur / 4, NULL);
            fixture_event(&r, "cpu_op", name, 1 + i % 3, at + k * dur / 4 + 1, dur / 8, NULL);
        }
        total += dur;
        at += dur / 2; /* other threads go on meanwhile */
        if (i % 3 == 2)
            at += 100;
    }
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "ops"), 0);
    int64_t self = 0, in_tree = 0, roots = 0;
    for (size_t row = 0; row < report_rows_count(&r.rows); row++)
        self += fixture_cell(&r, row, "self_host_ns")->integer;
    assert_int_equal(fixture_make(&r, "op_tree"), 0);
    for (size_t row = 0; row < report_rows_count(&r.rows); row++) {
        in_tree += fixture_cell(&r, row, "self_host_ns")->integer;
        if (fixture_cell(&r, row, "depth")->integer == 0)
            roots += fixture_cell(&r, row, "host_ns")->integer;
    }
    assert_int_equal(self, (int64_t)(total * US));
    assert_int_equal(in_tree, self);
    assert_int_equal(roots, self);
    fixture_done(&r);
}

static void test_sequences(void **state)
{
    struct report_fixture r;
    int correlation = 1;

    fixture_begin(&r, "");
    for (int i = 0; i < 5; i++) {
        double at = 100 * i;
        fixture_event(&r, "cpu_op", "aten::gelu", 1, at, 50, "\"External id\":1");
        /* All that it launches is launched within another: that says nothing of its own. */
        fixture_event(&r, "cpu_op", "aten::gelu_impl", 1, at + 1, 45, NULL);
        fixture_launch(&r, "kernel", "mul", 7, correlation++, at + 5, at + 10, 4);
        fixture_launch(&r, "kernel", i == 4 ? "exp" : "tanh", 7, correlation++, at + 10, at + 20, 6);
        fixture_launch(&r, "kernel", "add", 7, correlation++, at + 15, at + 30, 2);
    }
    fixture_event(&r, "cpu_op", "alone", 1, 1000, 50, "\"External id\":2");
    fixture_launch(&r, "kernel", "mul", 7, correlation++, 1005, 1010, 4);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "stacks"), -ENODATA);
    assert_int_equal(fixture_make(&r, "sequences"), 0);
    assert_int_equal(report_rows_count(&r.rows), 1);
    assert_cell_text(&r, 0, "op", "aten::gelu");
    assert_cell_text(&r, 0, "kernels", "mul -> tanh -> add");
    assert_cell_int(&r, 0, "length", 3);
    assert_cell_int(&r, 0, "count", 4);
    assert_cell_int(&r, 0, "sum_ns", 48 * US);
    assert_cell_int(&r, 0, "op_ns", 200 * US);
    assert_cell_int(&r, 0, "saved_launches", 8);
    fixture_done(&r);
}

/* Work belongs to the part of the trace in which it runs, a call to the one in which it begins. */
static void test_part_of_a_trace(void **state)
{
    struct report_fixture r;

    begin_model(&r);
    fixture_read(&r);
    r.analysis.view.from = 60 * US;
    r.analysis.view.to = 120 * US;
    assert_int_equal(fixture_make(&r, "ops"), 0);
    assert_op(&r, "aten::linear", 1, 50, 20);
    assert_device(&r, "aten::linear", 10, 0, 1);
    fixture_done(&r);
}

/* Stamps at the ends of what fits: no report may stumble, whatever it says. */
static void test_times_out_of_all_bounds(void **state)
{
    static const char *const categories[] = {"kernel",          "gpu_memcpy",   "cpu_op",
                                             "user_annotation", "cuda_runtime", "python_function"};
    static const double times[] = {-9.2e15, -1, 0, 1, 4.6e15, 9.2e15};
    struct report_fixture r;

    fixture_begin(&r, "");
    for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
        for (size_t k = 0; k < ARRAY_SIZE(times); k++)
            for (size_t d = 2; d < ARRAY_SIZE(times); d++) {
                char args[128];
                snprintf(args, sizeof(args),
                         "\"correlation\":%zu,\"stream\":7,\"External id\":%zu,\"bytes\":9223372036854775807",
                         k * d, k + d);
                fixture_event(&r, categories[i], k % 2 ? "cudaGraphLaunch" : "nccl Memcpy (", 1, times[k],
                              times[d], args);
            }
    fixture_read(&r);
    for (const struct report *const *report = reports; *report; report++) {
        int result = fixture_make(&r, (*report)->name);
        assert_true(result == 0 || result == -ENODATA);
    }
    fixture_done(&r);
}

/* torch's emit_nvtx numbers each range. */
static void test_numbered_ranges_are_one(void **state)
{
    static const char *const reports_by_name[] = {"ops", "op_tree"};
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "user_annotation", "aten::mm, op_id = 7", 1, 0, 20, NULL);
    fixture_launch(&r, "kernel", "gemm", 7, 1, 5, 30, 10);
    fixture_event(&r, "user_annotation", "aten::mm, op_id = 8", 1, 100, 30, NULL);
    fixture_read(&r);
    for (size_t i = 0; i < ARRAY_SIZE(reports_by_name); i++) {
        assert_int_equal(fixture_make(&r, reports_by_name[i]), 0);
        assert_int_equal(report_rows_count(&r.rows), 1);
        assert_cell_text(&r, 0, "name", "aten::mm");
        assert_cell_int(&r, 0, "calls", 2);
    }
    assert_int_equal(fixture_make(&r, "op_kernels"), 0);
    assert_int_equal(report_rows_count(&r.rows), 1);
    fixture_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self_and_total),
        cmocka_unit_test(test_sums_beyond_a_number),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_kernels_of_operators),
        cmocka_unit_test(test_external_id),
        cmocka_unit_test(test_what_lies_across),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_numbered_ranges_are_one),
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_self_times_sum_to_total),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_part_of_a_trace),
        cmocka_unit_test(test_times_out_of_all_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
