/* SPDX-License-Identifier: Apache-2.0 */
/* The reports steps and layers, on traces whose answers are known. */
#include "tests/unit/report-fixture.h"

#define US 1000

static void decode_step(struct report_fixture *r, int number, double host, double gpu, double gemm)
{
    fixture_event(r, "user_annotation", "step[DECODE bs=4]", 1, host, 50, NULL);
    fixture_launch(r, "kernel", "my_gemm", 7, number * 10 + 1, host + 5, gpu, gemm);
    fixture_launch(r, "kernel", "rms_norm", 7, number * 10 + 2, host + 10, gpu + gemm + 5, 10);
}

/* Work belongs to the step that launched it, however late it runs. */
static void time_is_of_the_gpu(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "user_annotation", "step[EXTEND bs=2 toks=300]", 1, 100, 50, NULL);
    fixture_launch(&r, "kernel", "my_gemm", 7, 1, 110, 400, 100);
    fixture_launch(&r, "kernel", "rms_norm", 7, 2, 120, 520, 30);
    decode_step(&r, 2, 200, 600, 40);
    fixture_launch(&r, "kernel", "of_nobody", 7, 900, 700, 702, 5);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "steps"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_cell_text(&r, 0, "name", "step[EXTEND bs=2 toks=300]");
    assert_cell_text(&r, 0, "phase", "prefill");
    assert_cell_text(&r, 0, "found_by", "sglang");
    assert_cell_int(&r, 0, "index", 0);
    assert_cell_int(&r, 0, "start_ns", 300 * US);
    assert_cell_int(&r, 0, "dur_ns", 150 * US);
    assert_cell_int(&r, 0, "busy_ns", 130 * US);
    assert_cell_int(&r, 0, "idle_ns", 20 * US);
    assert_cell_int(&r, 0, "tokens", 300);
    assert_cell_int(&r, 0, "requests", 2);
    assert_cell_int(&r, 0, "kernels", 2);
    assert_cell_int(&r, 0, "host_start_ns", 0);
    assert_cell_int(&r, 0, "host_dur_ns", 50 * US);
    assert_cell_null(&r, 0, "outlier");
    assert_cell_text(&r, 1, "phase", "decode");
    assert_cell_int(&r, 1, "start_ns", 500 * US);
    assert_cell_int(&r, 1, "dur_ns", 55 * US);
    fixture_done(&r);
}

/* A copy for the next step on another stream does not let that step begin early, nor overlap. */
static void steps_are_separate(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "user_annotation", "ProfilerStep#7", 1, 0, 50, NULL);
    fixture_launch(&r, "kernel", "my_gemm", 7, 1, 10, 20, 200);
    fixture_launch(&r, "kernel", "ncclDevKernel_AllReduce", 9, 2, 12, 100, 180);
    fixture_event(&r, "user_annotation", "ProfilerStep#8", 1, 60, 50, NULL);
    fixture_launch(&r, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 11, 3, 70, 80, 5);
    fixture_launch(&r, "kernel", "my_gemm", 7, 4, 80, 220, 100);
    fixture_event(&r, "user_annotation", "ProfilerStep#9", 1, 120, 50, NULL);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "steps"), 0);
    assert_int_equal(report_rows_count(&r.rows), 3);
    assert_cell_int(&r, 0, "index", 7);
    assert_cell_int(&r, 0, "start_ns", 20 * US);
    assert_cell_int(&r, 0, "dur_ns", 200 * US);
    assert_cell_int(&r, 1, "index", 8);
    assert_cell_int(&r, 1, "start_ns", 220 * US);
    assert_cell_int(&r, 1, "dur_ns", 100 * US);
    /* Nothing was launched in it. */
    assert_cell_int(&r, 2, "index", 9);
    assert_cell_int(&r, 2, "dur_ns", 0);
    fixture_done(&r);
}

/* What an engine calls a step counts, not what is in it or around it. */
static void one_kind_of_name(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "user_annotation", "ProfilerStep#3", 1, 0, 300, NULL);
    fixture_event(&r, "user_annotation", "execute_context_0(0)_generation_4(4)", 1, 10, 100, NULL);
    fixture_event(&r, "gpu_user_annotation", "execute_context_0(0)_generation_4(4)", 7, 20, 100, NULL);
    fixture_event(&r, "user_annotation", "execute_context_1(9)_generation_0(0)", 1, 150, 100, NULL);
    fixture_event(&r, "user_annotation", "execute_context_1(9)_generation_0(0)", 1, 160, 50, NULL);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "steps"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_cell_text(&r, 0, "phase", "decode");
    assert_cell_text(&r, 1, "phase", "prefill");
    /* No step has work: the time is the annotation's. */
    assert_cell_int(&r, 1, "dur_ns", 100 * US);
    fixture_done(&r);
}

static void find_the_outlier(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    for (int i = 0; i < 9; i++)
        decode_step(&r, i, 100 * i, 100 * i + 20, i == 6 ? 60 : i % 2 ? 21 : 20);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "steps"), 0);
    for (size_t i = 0; i < 9; i++) {
        if (i != 6) {
            assert_cell_null(&r, i, "outlier");
            continue;
        }
        assert_true(fixture_cell(&r, i, "outlier")->real > 3.5);
        assert_cell_text(&r, i, "differs", "gemm");
        assert_cell_int(&r, i, "differs_ns", 39 * US);
    }
    fixture_done(&r);
}

static void view_of_a_step(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "user_annotation", "step[EXTEND bs=2 toks=300]", 1, 0, 50, NULL);
    fixture_launch(&r, "kernel", "my_gemm", 7, 1, 10, 20, 30);
    decode_step(&r, 2, 100, 120, 40);
    decode_step(&r, 3, 200, 220, 40);
    fixture_read(&r);
    r.analysis.view.phase = "decode";
    assert_int_equal(fixture_make(&r, "steps"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_int_equal(fixture_make(&r, "temporal"), 0);
    assert_cell_int(&r, 0, "busy_ns", 2 * 50 * US);
    analysis_done(&r.analysis);
    r.analysis.view = VIEW_ALL;
    r.analysis.view.step = 0;
    assert_int_equal(fixture_make(&r, "temporal"), 0);
    assert_cell_int(&r, 0, "busy_ns", 30 * US);
    fixture_done(&r);
}

/* Ten times: a few kernels, twelve layers of three, something for the host. */
static void recurring(struct report_fixture *r, bool host_gets_something)
{
    static const char *const layer[] = {"my_gemm", "flash_attn", "rms_norm"};
    static const char *const head[] = {"embed", "prepare", "positions"};
    static const char *const tail[] = {"last_norm", "logits", "sample"};
    double at = 0;

    for (int step = 0; step < 10; step++) {
        at += 50;
        for (int i = 0; i < 3; i++, at += 4)
            fixture_launch(r, "kernel", head[i], 7, 0, -1, at, 3);
        for (int i = 0; i < 36; i++, at += 10)
            fixture_launch(r, "kernel", layer[i % 3], 7, 0, -1, at, 9);
        for (int i = 0; i < 3; i++, at += 4)
            fixture_launch(r, "kernel", tail[i], 7, 0, -1, at, 3);
        if (host_gets_something)
            fixture_launch(r, "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 7, 0, -1, at, 2);
        at += 4;
    }
}

static void steps_that_nobody_named(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    recurring(&r, true);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "steps"), 0);
    assert_int_equal(report_rows_count(&r.rows), 10);
    for (size_t i = 0; i < 10; i++) {
        assert_cell_int(&r, i, "index", (int64_t)i);
        assert_cell_int(&r, i, "kernels", 43);
        assert_cell_text(&r, i, "found_by", "period");
        assert_cell_null(&r, i, "name");
        assert_cell_int(&r, i, "dur_ns", (3 * 4 + 36 * 10 + 3 * 4 + 2) * US);
    }
    assert_int_equal(fixture_make(&r, "layers"), 0);
    assert_int_equal(report_rows_count(&r.rows), 120);
    assert_cell_int(&r, 13, "step", 1);
    assert_cell_int(&r, 13, "layer", 1);
    assert_cell_int(&r, 13, "kernels", 3);
    assert_cell_int(&r, 13, "dur_ns", 29 * US);
    fixture_done(&r);
}

/* What recurs could as well be layers. */
static void recurring_is_not_enough(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    recurring(&r, false);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "steps"), 0);
    assert_int_equal(report_rows_count(&r.rows), 0);
    assert_int_equal(fixture_make(&r, "layers"), 0);
    assert_true(report_rows_count(&r.rows) >= 10);
    assert_cell_null(&r, 0, "step");
    fixture_done(&r);
}

/* All that a graph launch sets off is of one step, whatever recurs in it. */
static void graph_is_one_step(void **state)
{
    static const char *const layer[] = {"my_gemm", "flash_attn", "rms_norm", "silu_and_mul"};
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_launch(&r, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 7, 1, 0, 5, 2);
    fixture_event(&r, "cuda_runtime", "cudaGraphLaunch", 1, 10, 5, "\"correlation\":2");
    for (int i = 0; i < 40; i++)
        fixture_launch(&r, "kernel", layer[i % 4], 7, 2, -1, 20 + 10 * i, 9);
    fixture_launch(&r, "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 7, 3, 450, 460, 2);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "steps"), 0);
    assert_int_equal(report_rows_count(&r.rows), 1);
    assert_cell_text(&r, 0, "name", "cudaGraphLaunch");
    assert_cell_text(&r, 0, "found_by", "graph");
    assert_cell_int(&r, 0, "kernels", 40);
    assert_cell_int(&r, 0, "dur_ns", (40 * 10 - 1) * US);
    assert_int_equal(fixture_make(&r, "layers"), 0);
    assert_int_equal(report_rows_count(&r.rows), 10);
    assert_cell_int(&r, 9, "layer", 9);
    assert_cell_int(&r, 9, "kernels", 4);
    fixture_done(&r);
}

static void phases_by_rule(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "user_annotation", "ProfilerStep#1", 1, 0, 50, NULL);
    fixture_launch(&r, "kernel", "BatchPrefillWithPagedKVCacheKernel", 7, 1, 10, 20, 10);
    fixture_event(&r, "user_annotation", "ProfilerStep#2", 1, 100, 50, NULL);
    fixture_launch(&r, "kernel", "flash_decode_stage1", 7, 2, 110, 120, 10);
    fixture_event(&r, "user_annotation", "ProfilerStep#3", 1, 200, 50, NULL);
    fixture_launch(&r, "kernel", "my_gemm", 7, 3, 210, 220, 10);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "steps"), 0);
    assert_cell_text(&r, 0, "phase", "prefill");
    assert_cell_text(&r, 1, "phase", "decode");
    assert_cell_text(&r, 2, "phase", "");
    fixture_done(&r);

    fixture_begin(&r, "");
    fixture_event(&r, "user_annotation", "ProfilerStep#1", 1, 0, 50, NULL);
    fixture_event(&r, "user_annotation", "Optimizer.step#SGD.step", 1, 10, 20, NULL);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "steps"), 0);
    assert_cell_text(&r, 0, "phase", "training");
    fixture_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_is_of_the_gpu),      cmocka_unit_test(steps_are_separate),
        cmocka_unit_test(one_kind_of_name),        cmocka_unit_test(find_the_outlier),
        cmocka_unit_test(view_of_a_step),          cmocka_unit_test(steps_that_nobody_named),
        cmocka_unit_test(recurring_is_not_enough), cmocka_unit_test(graph_is_one_step),
        cmocka_unit_test(phases_by_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
