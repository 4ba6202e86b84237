/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each rule of the report findings speaks of a trace that is sick of what it looks for, and is quiet where
 * the rest of the trace is the same. Steps are of 10 ms: a graph of 6 ms, a window of 3 ms that is what the
 * test makes of it, and another graph until the next step.
 */
#include "tests/unit/report-fixture.h"
#include "trace/reports/rules/rule.h"

#define MS          1000.0 /* traces count microseconds */
#define STEP        (10 * MS)
#define WINDOW      (6 * MS) /* in a step */
#define WINDOW_END  (9 * MS)
#define STEPS       6
#define NS_PER_US   1000
#define DECODE      "execute_context_0(0)_generation_8(8)"
#define PREFILL     "execute_context_2(2048)_generation_0(0)"
#define GEMM        "cutlass_80_gemm"
#define KERNEL_US   100.0
#define HOST_THREAD 1
#define STREAM      7
#define COMM_STREAM 8

struct maker {
    struct report_fixture fixture;
    int correlation;
};

/* Where it is, it stays: the text is written through its address. */
static void begin(struct maker *m)
{
    m->correlation = 1;
    fixture_begin(&m->fixture, "");
}

static void work(struct maker *m, const char *category, const char *name, int stream, double ts, double dur)
{
    char args[96];

    snprintf(args, sizeof(args), "\"device\":0,\"stream\":%d,\"correlation\":%d", stream, m->correlation);
    fixture_event(&m->fixture, category, name, stream, ts, dur, args);
}

static void host(struct maker *m, const char *category, const char *name, double ts, double dur)
{
    char args[48];

    snprintf(args, sizeof(args), "\"correlation\":%d", m->correlation);
    fixture_event(&m->fixture, category, name, HOST_THREAD, ts, dur,
                  strcmp(category, "cuda_runtime") == 0 ? args : NULL);
}

/* One launch for kernels that fill [from, to), called and returned before. */
static void graph(struct maker *m, const char *kernel, double called, double from, double to, double each)
{
    m->correlation++;
    host(m, "cuda_runtime", "cudaGraphLaunch", called, 10);
    for (double at = from; at + 0.01 < to; at += each)
        work(m, "kernel", kernel, STREAM, at, each);
}

static void annotate(struct maker *m, const char *name, double at)
{
    host(m, "user_annotation", name, at - 600, STEP - 20);
}

/* Its window is left open. */
static void open_step(struct maker *m, const char *name, double at)
{
    annotate(m, name, at);
    graph(m, GEMM, at - 500, at, at + WINDOW, KERNEL_US);
    graph(m, GEMM, at + WINDOW_END - 12, at + WINDOW_END, at + STEP, KERNEL_US);
}

static void healthy_step(struct maker *m, const char *name, double at)
{
    annotate(m, name, at);
    graph(m, GEMM, at - 500, at, at + STEP, KERNEL_US);
}

static double step_at(int i)
{
    return 1 * MS + i * STEP;
}

static void analyze(struct maker *m)
{
    fixture_read(&m->fixture);
    assert_int_equal(fixture_make(&m->fixture, "findings"), 0);
}

static int row_of(const struct report_fixture *r, const char *rule)
{
    for (size_t i = 0; i < report_rows_count(&r->rows); i++)
        if (streq(fixture_cell(r, i, "rule")->text, rule))
            return (int)i;
    return -1;
}

/* The rule's cost in microseconds; it must have spoken, and said all that a finding has to say. */
static double cost_of(const struct report_fixture *r, const char *rule)
{
    static const char *const texts[] = {"severity", "what",       "where", "evidence",
                                        "advice",   "confidence", "report"};
    int row = row_of(r, rule);

    if (row < 0) {
        for (size_t i = 0; i < report_rows_count(&r->rows); i++)
            print_message("%s: %s; %s\n", fixture_cell(r, i, "rule")->text, fixture_cell(r, i, "what")->text,
                          fixture_cell(r, i, "evidence")->text);
        fail_msg("nothing of %s", rule);
    }
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        assert_true(strlen(fixture_cell(r, (size_t)row, texts[i])->text) > 0);
    assert_non_null(report_find(fixture_cell(r, (size_t)row, "report")->text));
    return (double)fixture_cell(r, (size_t)row, "cost_ns")->integer / NS_PER_US;
}

/* Statements cost nothing: they come last. */
static size_t count_costs(const struct report_fixture *r)
{
    size_t n = 0;

    while (n < report_rows_count(&r->rows) && fixture_cell(r, n, "cost_ns")->type != CELL_NULL)
        n++;
    return n;
}

static void assert_quiet(const struct report_fixture *r)
{
    for (size_t i = 0; i < count_costs(r); i++)
        print_message("%s: %s\n", fixture_cell(r, i, "rule")->text, fixture_cell(r, i, "what")->text);
    assert_int_equal(count_costs(r), 0);
}

static void assert_no(const struct report_fixture *r, const char *rule)
{
    assert_int_equal(row_of(r, rule), -1);
}

/* ----------------------------------------------------------------------------------------------------- */

static void test_healthy_trace_has_none(void **state)
{
    struct maker m;
    begin(&m);

    for (int i = 0; i < STEPS; i++)
        healthy_step(&m, DECODE, step_at(i));
    analyze(&m);
    assert_quiet(&m.fixture);
    fixture_done(&m.fixture);
}

/* What the host does in the window, and whose fault the idle window then is. */
static const struct window {
    const char *category, *name, *rule;
} windows[] = {
    {"python_function", "torch/_inductor/compile_fx.py(700): compile_fx_inner", "recompilation"},
    {"user_annotation", "_compile.compile_inner (dynamo_timed)", "recompilation"},
    {"cuda_driver", "cuModuleLoadDataEx", "recompilation"},
    {"python_function", "transformers/tokenization_utils_base.py(3000): batch_decode",
     "starved_by_tokenizer"},
    {"python_function", "vllm/v1/engine/detokenizer.py(100): detokenize", "starved_by_tokenizer"},
    {"python_function", "vllm/v1/core/sched/scheduler.py(150): schedule", "starved_by_scheduler"},
    {"python_function", "sglang/srt/managers/scheduler.py(900): get_next_batch_to_run",
     "starved_by_scheduler"},
    {"user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "starved_by_data"},
    {"python_function", "<built-in function collect>", "starved_by_collector"},
    {"cuda_runtime", "cudaMalloc", "allocation_in_step"},
    {"cpu_op", "aten::nonzero_on_host", "host_bound"},
    /* What runs compiled code is no compilation; what everything happens in is no scheduler. */
    {"python_function", "torch/_dynamo/eval_frame.py(1039): _fn", "host_bound"},
    {"python_function", "sglang/srt/managers/scheduler.py(1): event_loop_normal", "host_bound"},
};

static void test_idle_time_is_whose_name_covers_it(void **state)
{
    for (size_t k = 0; k < ARRAY_SIZE(windows); k++) {
        struct maker m;
        begin(&m);
        for (int i = 0; i < STEPS; i++) {
            open_step(&m, DECODE, step_at(i));
            host(&m, windows[k].category, windows[k].name, step_at(i) + WINDOW + 5, WINDOW_END - WINDOW - 30);
        }
        analyze(&m);
        /* The call is 30 us shorter than the window, which are no time of it. */
        bool is_of_host = streq(windows[k].rule, "host_bound");
        assert_float_equal(cost_of(&m.fixture, windows[k].rule), WINDOW_END - WINDOW - (is_of_host ? 0 : 30),
                           1);
        assert_int_equal(count_costs(&m.fixture), 1);
        assert_cell_text(&m.fixture, 0, "severity", "high");
        assert_cell_text(&m.fixture, 0, "confidence", "certain");
        assert_non_null(strstr(fixture_cell(&m.fixture, 0, "evidence")->text, windows[k].name));
        fixture_done(&m.fixture);
    }
}

static void test_same_names_cost_nothing_while_the_gpu_works(void **state)
{
    for (size_t k = 0; k < ARRAY_SIZE(windows); k++) {
        struct maker m;
        begin(&m);
        for (int i = 0; i < STEPS; i++) {
            healthy_step(&m, DECODE, step_at(i));
            host(&m, windows[k].category, windows[k].name, step_at(i) + WINDOW + 5, WINDOW_END - WINDOW - 30);
        }
        analyze(&m);
        assert_quiet(&m.fixture);
        fixture_done(&m.fixture);
    }
}

static void test_wait_of_the_host_in_the_step(void **state)
{
    struct maker m;
    begin(&m);

    /* Up to a millisecond after the wait is the wait's: then the host only launches what comes next. */
    for (int i = 0; i < STEPS; i++) {
        annotate(&m, DECODE, step_at(i));
        graph(&m, GEMM, step_at(i) - 500, step_at(i), step_at(i) + WINDOW, KERNEL_US);
        host(&m, "cuda_runtime", "cudaStreamSynchronize", step_at(i) + 4 * MS, WINDOW - 4 * MS + 300);
        graph(&m, GEMM, step_at(i) + WINDOW + 880, step_at(i) + WINDOW + 900, step_at(i) + STEP, KERNEL_US);
    }
    analyze(&m);
    assert_float_equal(cost_of(&m.fixture, "sync_in_step"), 900, 1);
    assert_cell_text(&m.fixture, 0, "confidence", "inferred");
    assert_non_null(strstr(fixture_cell(&m.fixture, 0, "evidence")->text, "synchronisation 33 %"));
    assert_non_null(
        strstr(fixture_cell(&m.fixture, 0, "evidence")->text, "cudaStreamSynchronize 33 % (6 calls)"));
    fixture_done(&m.fixture);

    /* What the host does for longer than that is its own time. */
    begin(&m);
    for (int i = 0; i < STEPS; i++) {
        open_step(&m, DECODE, step_at(i));
        host(&m, "cuda_runtime", "cudaStreamSynchronize", step_at(i) + 4 * MS, WINDOW - 4 * MS + 500);
        host(&m, "cpu_op", "aten::item", step_at(i) + WINDOW + 505, WINDOW_END - WINDOW - 530);
    }
    analyze(&m);
    assert_float_equal(cost_of(&m.fixture, "sync_in_step"), 500, 1);
    assert_float_equal(cost_of(&m.fixture, "host_bound"), WINDOW_END - WINDOW - 500, 1);
    fixture_done(&m.fixture);
}

/* What covers most of a gap is not what happened in it: the calls within an operator are. */
static void test_gap_is_divided_by_the_calls_in_it(void **state)
{
    struct maker m;
    begin(&m);

    for (int i = 0; i < STEPS; i++) {
        double at = step_at(i) + WINDOW;
        open_step(&m, DECODE, step_at(i));
        host(&m, "cpu_op", "aten::cat", at + 10, 2900);
        for (int k = 0; k < 5; k++)
            host(&m, "cuda_runtime", "cudaFree", at + 20 + k * 300, 290);
        /* Of two clocks: it begins before the operator that it lies in. */
        host(&m, "cuda_runtime", "cudaMalloc", at + 1600, 500);
        host(&m, "cpu_op", "aten::empty", at + 1604, 510);
        host(&m, "python_function", "transformers/tokenization_utils_base.py(3000): batch_decode", at + 2200,
             600);
        host(&m, "cuda_runtime", "cudaEventQuery", at + 2300, 100);
    }
    analyze(&m);
    assert_float_equal(cost_of(&m.fixture, "allocation_in_step"), 5 * 290 + 500, 1);
    assert_float_equal(cost_of(&m.fixture, "starved_by_tokenizer"), 600, 1);
    assert_no(&m.fixture, "host_bound"); /* the rest, 4 % */
    assert_non_null(strstr(fixture_cell(&m.fixture, 0, "evidence")->text,
                           "cudaFree 74 % (30 calls), cudaMalloc 26 % (6 calls)"));
    fixture_done(&m.fixture);
}

static void test_wait_that_ends_early_is_none(void **state)
{
    struct maker m;
    begin(&m);

    for (int i = 0; i < STEPS; i++) {
        open_step(&m, DECODE, step_at(i));
        host(&m, "cuda_runtime", "cudaStreamSynchronize", step_at(i) + 1 * MS, 1 * MS);
        host(&m, "cpu_op", "aten::item", step_at(i) + WINDOW + 5, WINDOW_END - WINDOW - 30);
    }
    analyze(&m);
    assert_no(&m.fixture, "sync_in_step");
    fixture_done(&m.fixture);
}

/* One kernel after the other, each launched when the one before has ended. */
static void eager(struct maker *m, const char *step, double kernel, double wait)
{
    begin(m);

    for (int i = 0; i < STEPS; i++) {
        annotate(m, step, step_at(i));
        for (double at = 0; at + kernel + wait <= STEP; at += kernel + wait) {
            m->correlation++;
            host(m, "cuda_runtime", "cudaLaunchKernel", step_at(i) + at + (wait > 10 ? -4 : -300), 3);
            work(m, "kernel", GEMM, STREAM, step_at(i) + at, kernel);
        }
    }
    analyze(m);
}

static void test_eager_decode_misses_its_graph(void **state)
{
    struct maker m;

    eager(&m, DECODE, 50, 50);

    assert_float_equal(cost_of(&m.fixture, "missing_graph"), STEP / 2, 200);
    assert_no(&m.fixture, "launch_bound");
    fixture_done(&m.fixture);
}

static void test_launches_that_keep_ahead_need_no_graph(void **state)
{
    struct maker m;

    eager(&m, DECODE, 99, 1);

    assert_quiet(&m.fixture);
    fixture_done(&m.fixture);
}

static void test_launch_bound_prefill_misses_no_graph(void **state)
{
    struct maker m;

    eager(&m, PREFILL, 50, 50);

    assert_float_equal(cost_of(&m.fixture, "launch_bound"), STEP / 2, 200);
    assert_no(&m.fixture, "missing_graph");
    fixture_done(&m.fixture);
}

static void test_exposed_communication_by_purpose(void **state)
{
    static const struct {
        const char *kernel, *rule;
    } kernels[] = {
        {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)", "exposed_all_reduce"},
        {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>()", "exposed_all_reduce"},
        {"void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>()", "exposed_expert_parallel"},
        {"ncclDevKernel_SendRecv(ncclDevKernelArgs)", "exposed_communication"},
    };

    for (size_t k = 0; k < 2 * ARRAY_SIZE(kernels); k++) {
        bool is_hidden = k >= ARRAY_SIZE(kernels);
        const char *kernel = kernels[k % ARRAY_SIZE(kernels)].kernel,
                   *rule = kernels[k % ARRAY_SIZE(kernels)].rule;
        struct maker m;
        begin(&m);
        for (int i = 0; i < STEPS; i++) {
            if (is_hidden)
                healthy_step(&m, DECODE, step_at(i));
            else
                open_step(&m, DECODE, step_at(i));
            m.correlation++;
            host(&m, "cuda_runtime", "cudaLaunchKernelExC", step_at(i) - 400, 5);
            work(&m, "kernel", kernel, COMM_STREAM, step_at(i) + WINDOW, WINDOW_END - WINDOW);
        }
        analyze(&m);
        if (is_hidden)
            assert_quiet(&m.fixture);
        else
            assert_float_equal(cost_of(&m.fixture, rule), WINDOW_END - WINDOW, 1);
        assert_in_range(count_costs(&m.fixture), 0, 1);
        fixture_done(&m.fixture);
    }
}

/* A copy whose call returns with it, in the window. */
static void copy_in_window(const char *name, const char *rule, bool is_sick)
{
    struct maker m;
    begin(&m);

    for (int i = 0; i < STEPS; i++) {
        open_step(&m, DECODE, step_at(i));
        m.correlation++;
        host(&m, "cuda_runtime", "cudaMemcpyAsync", step_at(i) + WINDOW - 50, 2950);
        work(&m, "gpu_memcpy", name, STREAM, step_at(i) + WINDOW, 2 * MS);
    }
    analyze(&m);
    if (is_sick)
        assert_float_equal(cost_of(&m.fixture, rule), 2900, 1);
    else
        assert_no(&m.fixture, rule);
    fixture_done(&m.fixture);
}

static void test_pageable_copies(void **state)
{
    copy_in_window("Memcpy HtoD (Pageable -> Device)", "pageable_copy", true);
    copy_in_window("Memcpy DtoH (Device -> Pageable)", "pageable_copy", true);
    copy_in_window("Memcpy HtoD (Pinned -> Device)", "pageable_copy", false);
}

/* Nothing computes while they run, whatever memory they are of; a copy beside kernels costs nothing. */
static void test_copies_that_nothing_hides(void **state)
{
    for (int is_hidden = 0; is_hidden < 2; is_hidden++) {
        struct maker m;
        begin(&m);
        for (int i = 0; i < STEPS; i++) {
            annotate(&m, DECODE, step_at(i));
            graph(&m, GEMM, step_at(i) - 500, step_at(i), step_at(i) + (is_hidden ? STEP : WINDOW),
                  KERNEL_US);
            m.correlation++;
            host(&m, "cuda_runtime", "cudaMemcpyAsync", step_at(i) - 300, 10);
            work(&m, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", STREAM + 2, step_at(i) + WINDOW,
                 STEP - WINDOW);
        }
        analyze(&m);
        if (is_hidden)
            assert_quiet(&m.fixture);
        else
            assert_float_equal(cost_of(&m.fixture, "exposed_copy"), STEP - WINDOW, 1);
        fixture_done(&m.fixture);
    }
}

/* What has no time, and a trace without a first slice, have no location that --from could be given. */
static void test_offset_without_a_time(void **state)
{
    struct maker m;
    char location[LOCATION_MAX];
    begin(&m);

    healthy_step(&m, DECODE, step_at(0));
    fixture_read(&m.fixture);
    struct rule_context context = {.analysis = &m.fixture.analysis, .n = 1};
    struct finding f = {.place = {.from = COLUMN_NULL, .to = COLUMN_NULL}};
    assert_string_equal(finding_location(location, &context, &f), "an unknown time");
    context.n = 2;
    f.place.to = 0;
    assert_string_equal(finding_location(location, &context, &f), "rank 0, an unknown time");
    fixture_done(&m.fixture);
}

static void test_many_tiny_kernels(void **state)
{
    for (int is_tiny = 0; is_tiny < 2; is_tiny++) {
        struct maker m;
        begin(&m);
        for (int i = 0; i < STEPS; i++) {
            annotate(&m, DECODE, step_at(i));
            graph(&m, GEMM, step_at(i) - 500, step_at(i), step_at(i) + WINDOW, KERNEL_US);
            graph(&m, GEMM, step_at(i) - 400, step_at(i) + WINDOW, step_at(i) + STEP, is_tiny ? 2.5 : 10);
        }
        analyze(&m);
        if (is_tiny)
            assert_float_equal(cost_of(&m.fixture, "tiny_kernels"), STEP - WINDOW, 1);
        else
            assert_quiet(&m.fixture);
        fixture_done(&m.fixture);
    }
}

static void test_chains_of_elementwise_kernels(void **state)
{
    static const char vectorized[] =
        "void at::native::vectorized_elementwise_kernel<4, at::native::Mul>(int)";

    for (int chain = 2; chain <= 5; chain += 3) {
        struct maker m;
        begin(&m);
        for (int i = 0; i < STEPS; i++) {
            annotate(&m, DECODE, step_at(i));
            m.correlation++;
            host(&m, "cuda_runtime", "cudaGraphLaunch", step_at(i) - 500, 10);
            for (int k = 0; k < 100; k++)
                work(&m, "kernel", k % 10 < chain ? vectorized : GEMM, STREAM, step_at(i) + k * KERNEL_US,
                     KERNEL_US);
        }
        analyze(&m);
        /* Of ten times five kernels each time one stays. */
        if (chain == 5)
            assert_float_equal(cost_of(&m.fixture, "unfused_elementwise"), 10 * 4 * KERNEL_US, 1);
        else
            assert_quiet(&m.fixture);
        fixture_done(&m.fixture);
    }
}

static void test_prefill_between_decode_steps(void **state)
{
    for (int k = 0; k < 3; k++) {
        struct maker m;
        begin(&m);
        for (int i = 0; i < 9; i++)
            healthy_step(&m, i == (k == 0 ? 4 : k == 1 ? 0 : -1) ? PREFILL : DECODE, step_at(i));
        analyze(&m);
        /* One step of nine, told per step; before all others nobody waits for it. */
        if (k == 0)
            assert_float_equal(cost_of(&m.fixture, "prefill_steals_decode"), STEP / 9, 1);
        else
            assert_quiet(&m.fixture);
        fixture_done(&m.fixture);
    }
}

static void test_python_frames_in_mass(void **state)
{
    for (int frames = 100; frames <= 4000; frames += 3900) {
        struct maker m;
        begin(&m);
        for (int i = 0; i < STEPS; i++) {
            open_step(&m, DECODE, step_at(i));
            host(&m, "cpu_op", "aten::linear", step_at(i) + WINDOW + 1, WINDOW_END - WINDOW - 20);
            for (int k = 0; k < frames; k++)
                host(&m, "python_function", "torch/nn/modules/module.py(1): __call__",
                     step_at(i) + WINDOW + 10 + k * 0.7, 0.5);
        }
        analyze(&m);
        if (frames == 4000)
            assert_float_equal(cost_of(&m.fixture, "profiler_overhead"), 4000 * 0.5, 5);
        else
            assert_no(&m.fixture, "profiler_overhead");
        fixture_done(&m.fixture);
    }
}

static void test_idle_worker(void **state)
{
    for (int seconds = 0; seconds < 2; seconds++) {
        struct maker m;
        begin(&m);
        for (int i = 0; i < STEPS; i++)
            healthy_step(&m, DECODE, step_at(i));
        host(&m, "python_function", "threading.py(1): wait", 0, 1 + seconds * 1000 * MS);
        analyze(&m);
        if (seconds)
            assert_in_range((int64_t)cost_of(&m.fixture, "idle_worker"), 930 * 1000, 940 * 1000);
        else
            assert_quiet(&m.fixture);
        fixture_done(&m.fixture);
    }
}

/* -- Two ranks ---------------------------------------------------------------------------------------- */

/* The same collective in each step, which a rank enters late in some; all leave it together. */
static void make_rank(struct maker *m, bool (*is_late)(int step))
{
    begin(m);
    for (int i = 0; i < STEPS; i++) {
        bool late = is_late(i);
        annotate(m, DECODE, step_at(i));
        graph(m, GEMM, step_at(i) - 500, step_at(i), step_at(i) + (late ? 8 : 6) * MS, KERNEL_US);
        m->correlation++;
        host(m, "cuda_runtime", "cudaLaunchKernelExC", step_at(i) - 400, 5);
        work(m, "kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)", COMM_STREAM,
             step_at(i) + (late ? 8 : 6) * MS, (late ? 0.4 : 2.4) * MS);
        graph(m, GEMM, step_at(i) - 300, step_at(i) + 8.4 * MS, step_at(i) + STEP, KERNEL_US);
    }
    fixture_read(&m->fixture);
}

static bool never(int step)
{
    return false;
}

static bool always(int step)
{
    return true;
}

static bool odd(int step)
{
    return step % 2 == 1;
}

static bool even(int step)
{
    return step % 2 == 0;
}

static void two_ranks(bool (*first)(int), bool (*second)(int), int64_t shift_ns, struct report_rows *ret)
{
    struct maker m[2];

    make_rank(&m[0], first);
    make_rank(&m[1], second);
    struct rank ranks[2] = {m[0].fixture.ranks[0], m[1].fixture.ranks[0]};
    ranks[1].number = 1;
    ranks[1].shift_ns = shift_ns;
    struct analysis a = {.ranks = ranks, .n = 2, .view = VIEW_ALL};
    assert_int_equal(report_make(report_find("findings"), &a, ret), 0);
    analysis_done(&a);
    fixture_done(&m[0].fixture);
    fixture_done(&m[1].fixture);
}

static double rank_cost(const struct report_rows *rows, const char *rule)
{
    struct report_fixture fixture = {.report = report_find("findings"), .rows = *rows};

    return row_of(&fixture, rule) < 0 ? 0 : cost_of(&fixture, rule);
}

static void test_stragglers_and_ranks_that_take_turns(void **state)
{
    struct report_rows rows;

    two_ranks(never, always, 0, &rows);
    /* The mean of all ranks: one waits for 2 ms, the other for nobody. */
    assert_float_equal(rank_cost(&rows, "straggler"), 1 * MS, 1);
    assert_float_equal(rank_cost(&rows, "uneven_ranks"), 0, 0);
    report_rows_done(&rows);

    two_ranks(odd, even, 0, &rows);
    assert_float_equal(rank_cost(&rows, "straggler"), 0.5 * MS, 1);
    report_rows_done(&rows);

    two_ranks(never, never, 0, &rows);
    assert_float_equal(rank_cost(&rows, "straggler"), 0, 0);
    assert_float_equal(rank_cost(&rows, "uneven_ranks"), 0, 0);
    report_rows_done(&rows);

    /* A clock that is off by 5 ms, as the ends of collectives show: it makes nobody a straggler. */
    two_ranks(never, never, (int64_t)(5 * MS) * NS_PER_US, &rows);
    assert_float_equal(rank_cost(&rows, "straggler"), 0, 0);
    report_rows_done(&rows);
}

/* Three ranks that take turns at being last, by `late_us`, with clocks that are off by `clock_us` from each other. */
static void take_turns(double late_us, double clock_us, struct report_rows *ret)
{
    /* Of three operations, so that no collective is taken for the next one, however far clocks are off. */
    static const char *const names[] = {"ncclDevKernel_AllReduce", "ncclDevKernel_AllGather",
                                        "ncclDevKernel_ReduceScatter"};
    struct report_fixture r[3];
    struct rank ranks[3];

    for (int rank = 0; rank < 3; rank++) {
        fixture_begin(&r[rank], "");
        for (int i = 0; i < 30; i++) {
            double begin = i * 1000, late = i % 3 == rank ? late_us : 0;
            fixture_event(&r[rank], "kernel", GEMM, STREAM, begin, 100 + late, "\"device\":0,\"stream\":7");
            fixture_event(&r[rank], "kernel", names[i % 3], COMM_STREAM, begin + 100 + late, 800 - late,
                          "\"device\":0,\"stream\":8");
        }
        fixture_read(&r[rank]);
        ranks[rank] = r[rank].ranks[0];
        ranks[rank].number = rank;
        ranks[rank].shift_ns = (int64_t)(rank * clock_us) * NS_PER_US;
    }
    struct analysis a = {.ranks = ranks, .n = 3, .view = VIEW_ALL};
    assert_int_equal(report_make(report_find("findings"), &a, ret), 0);
    analysis_done(&a);
    for (int rank = 0; rank < 3; rank++)
        fixture_done(&r[rank]);
}

/* Who is last is said of arrivals alone that the clock errors do not explain. */
static void test_lateness_within_the_clock_error_names_nobody(void **state)
{
    static const struct {
        double late_us, clock_us;
        const char *where;
    } cases[] = {
        {300, 0, "30 collectives; most often last by more than the clock errors: rank 0, at 10 of them"},
        {100, 300, "30 collectives; no rank is last by more than the clock errors"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct report_rows rows;
        take_turns(cases[i].late_us, cases[i].clock_us, &rows);
        struct report_fixture fixture = {.report = report_find("findings"), .rows = rows};
        assert_true(rank_cost(&rows, "uneven_ranks") > 0);
        assert_string_equal(fixture_cell(&fixture, (size_t)row_of(&fixture, "uneven_ranks"), "where")->text,
                            cases[i].where);
        report_rows_done(&rows);
    }
}

/* -- What is evaluated -------------------------------------------------------------------------------- */

static const char *what_of(const struct report_fixture *r, const char *rule)
{
    int row = row_of(r, rule);

    if (row < 0)
        fail_msg("nothing of %s", rule);
    return fixture_cell(r, (size_t)row, "what")->text;
}

/* A first step that allocates for 20 ms: other findings are of the steps behind it. */
static void test_outlier_is_a_finding_of_its_own(void **state)
{
    struct maker m;
    begin(&m);

    host(&m, "user_annotation", DECODE, step_at(0) - 600, 3 * STEP - 20);
    graph(&m, GEMM, step_at(0) - 500, step_at(0), step_at(0) + 5 * MS, KERNEL_US);
    host(&m, "cuda_runtime", "cudaMalloc", step_at(0) + 5 * MS + 2, 20 * MS);
    graph(&m, GEMM, step_at(0) + 25 * MS + 5, step_at(0) + 25 * MS + 20, step_at(3), KERNEL_US);
    for (int i = 3; i < 3 + STEPS; i++)
        healthy_step(&m, DECODE, step_at(i));
    analyze(&m);
    assert_no(&m.fixture, "allocation_in_step");
    /* 20 ms longer than the median of 10, told per step of all seven. */
    assert_float_equal(cost_of(&m.fixture, "step_outlier"), 20 * MS / 7, 30);
    assert_non_null(strstr(what_of(&m.fixture, "step_outlier"),
                           "3.0 times the median of 10 ms; findings cover the other 6 steps"));
    assert_non_null(
        strstr(fixture_cell(&m.fixture, 0, "evidence")->text, "with the host in memory allocation"));

    /* Whoever asks for the step gets its own findings. */
    analysis_done(&m.fixture.analysis);
    m.fixture.analysis.view.step = 0;
    assert_int_equal(fixture_make(&m.fixture, "findings"), 0);
    assert_no(&m.fixture, "step_outlier");
    assert_float_equal(cost_of(&m.fixture, "allocation_in_step"), 20 * MS, 30);
    fixture_done(&m.fixture);
}

/* Prefill is as long as what it prefills; half of all steps are no outliers; nor is a little more. */
static void test_other_lengths_are_no_outliers(void **state)
{
    for (int k = 0; k < 3; k++) {
        struct maker m;
        double at = 1 * MS;
        begin(&m);
        for (int i = 0; i < STEPS; i++) {
            bool is_long = k == 1 ? i % 2 == 0 : i == 2;
            double dur = is_long ? (k == 2 ? 1.9 : 3) * STEP : STEP;
            host(&m, "user_annotation", k == 0 && is_long ? PREFILL : DECODE, at - 600, dur - 20);
            graph(&m, GEMM, at - 500, at, at + dur, KERNEL_US);
            at += dur;
        }
        analyze(&m);
        assert_no(&m.fixture, "step_outlier");
        fixture_done(&m.fixture);
    }
}

/* The GPU seems idle while the host waits for it, and nothing recorded is left to do. */
static void test_work_of_before_the_recording(void **state)
{
    for (int was_drained = 0; was_drained < 2; was_drained++) {
        struct maker m;
        begin(&m);
        m.correlation++;
        host(&m, "cuda_runtime", "cudaLaunchKernel", 10, 5);
        work(&m, "kernel", GEMM, STREAM, 20, 4);
        if (was_drained)
            host(&m, "cuda_runtime", "cudaDeviceSynchronize", 22, 5);
        graph(&m, GEMM, 100, 200 * MS, 210 * MS, KERNEL_US);
        m.correlation++;
        host(&m, "cuda_runtime", "cudaStreamSynchronize", 200, 200 * MS - 205);
        analyze(&m);
        if (was_drained) {
            assert_no(&m.fixture, "recording_edge");
            assert_float_equal(cost_of(&m.fixture, "unexplained_idle"), 200 * MS, 200);
        } else {
            assert_quiet(&m.fixture);
            assert_non_null(strstr(what_of(&m.fixture, "recording_edge"),
                                   "most likely busy with kernels launched before"));
            assert_cell_text(&m.fixture, (size_t)row_of(&m.fixture, "recording_edge"), "confidence",
                             "inferred");
            assert_non_null(strstr(what_of(&m.fixture, "not_evaluated"), "200 ms at the start"));
        }
        fixture_done(&m.fixture);
    }
}

/* -- Silence is no answer ----------------------------------------------------------------------------- */

static void test_idle_time_that_no_rule_explains(void **state)
{
    for (int is_much = 0; is_much < 2; is_much++) {
        struct maker m;
        begin(&m);
        for (int i = 0; i < STEPS; i++) {
            annotate(&m, DECODE, step_at(i));
            graph(&m, GEMM, step_at(i) - 500, step_at(i), step_at(i) + WINDOW, KERNEL_US);
            graph(&m, GEMM, step_at(i) - 400, step_at(i) + WINDOW + (is_much ? 3 : 0.5) * MS,
                  step_at(i) + STEP, KERNEL_US);
        }
        analyze(&m);
        if (is_much) {
            assert_float_equal(cost_of(&m.fixture, "unexplained_idle"), 3 * MS, 1);
            assert_cell_text(&m.fixture, 0, "report", "streams");
            assert_non_null(strstr(what_of(&m.fixture, "unexplained_idle"),
                                   "before GPU events that were already launched"));
            assert_no(&m.fixture, "gpu_bound");
        } else {
            assert_quiet(&m.fixture);
        }
        fixture_done(&m.fixture);
    }
}

static void test_gpu_bound(void **state)
{
    struct maker m;
    begin(&m);

    for (int i = 0; i < STEPS; i++)
        healthy_step(&m, DECODE, step_at(i));
    analyze(&m);
    size_t row = (size_t)row_of(&m.fixture, "gpu_bound");
    assert_non_null(strstr(what_of(&m.fixture, "gpu_bound"),
                           "GPU-bound: kernels compute for 10 ms of 10 ms per step (100 %)"));
    assert_non_null(strstr(fixture_cell(&m.fixture, row, "evidence")->text,
                           "cutlass_#_gemm 100 %; step p50 10 ms (6 steps), 800 tokens per second"));
    fixture_done(&m.fixture);
}

static void test_long_names_end_in_an_ellipsis(void **state)
{
#define TEN   "abcdefghij"
#define SIXTY TEN TEN TEN TEN TEN TEN
    static const struct {
        const char *name, *shown;
    } cases[] = {
        {SIXTY "klmn", SIXTY "klmn 100 %"},
        {SIXTY "klmno", SIXTY "k... 100 %"},
        {SIXTY "\u00e9mno", SIXTY "... 100 %"}, /* the cut is within the second character from the end */
        {SIXTY "k\u20ac", SIXTY "k\u20ac 100 %"},
        {TEN TEN TEN TEN TEN "abcdefgh\U0001f600opqrstu", TEN TEN TEN TEN TEN "abcdefgh... 100 %"},
    };

    for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
        char expected[128];
        struct maker m;
        begin(&m);
        for (int i = 0; i < STEPS; i++) {
            annotate(&m, DECODE, step_at(i));
            graph(&m, cases[k].name, step_at(i) - 500, step_at(i), step_at(i) + STEP, KERNEL_US);
        }
        analyze(&m);
        snprintf(expected, sizeof(expected), "share of computing kernel time: %s;", cases[k].shown);
        assert_ptr_equal(
            strstr(fixture_cell(&m.fixture, (size_t)row_of(&m.fixture, "gpu_bound"), "evidence")->text,
                   expected),
            fixture_cell(&m.fixture, (size_t)row_of(&m.fixture, "gpu_bound"), "evidence")->text);
        fixture_done(&m.fixture);
    }
}

/* -- All together ------------------------------------------------------------------------------------- */

static void test_order_is_by_cost(void **state)
{
    struct maker m;
    begin(&m);

    for (int i = 0; i < STEPS; i++) {
        open_step(&m, DECODE, step_at(i));
        m.correlation++;
        host(&m, "cuda_runtime", "cudaLaunchKernelExC", step_at(i) - 400, 5);
        work(&m, "kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL()", COMM_STREAM, step_at(i) + WINDOW,
             1 * MS);
        host(&m, "python_function", "x/core/sched/scheduler.py(1): schedule", step_at(i) + WINDOW + 1005,
             1980);
    }
    analyze(&m);
    assert_int_equal(count_costs(&m.fixture), 2);
    assert_cell_text(&m.fixture, 0, "rule", "starved_by_scheduler");
    assert_cell_text(&m.fixture, 1, "rule", "exposed_all_reduce");
    assert_float_equal(cost_of(&m.fixture, "starved_by_scheduler"), 1980, 1);
    assert_float_equal(cost_of(&m.fixture, "exposed_all_reduce"), 1 * MS, 1);
    fixture_done(&m.fixture);
}

static void test_view_is_of_what_is_chosen(void **state)
{
    struct maker m;
    begin(&m);

    for (int i = 0; i < STEPS; i++)
        if (i < STEPS / 2) {
            healthy_step(&m, DECODE, step_at(i));
        } else {
            open_step(&m, DECODE, step_at(i));
            host(&m, "cpu_op", "aten::slow", step_at(i) + WINDOW + 5, WINDOW_END - WINDOW - 30);
        }
    analyze(&m);
    assert_float_equal(cost_of(&m.fixture, "host_bound"), (WINDOW_END - WINDOW) / 2, 1);
    analysis_done(&m.fixture.analysis);
    m.fixture.analysis.view.to = (int64_t)(STEPS / 2 * STEP) * NS_PER_US;
    assert_int_equal(fixture_make(&m.fixture, "findings"), 0);
    assert_no(&m.fixture, "host_bound");
    fixture_done(&m.fixture);
}

static void test_trace_without_a_gpu(void **state)
{
    struct maker m;
    begin(&m);

    host(&m, "cpu_op", "aten::add", 1, 10);
    fixture_read(&m.fixture);
    assert_int_equal(fixture_make(&m.fixture, "findings"), 0);
    assert_quiet(&m.fixture);
    fixture_done(&m.fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy_trace_has_none),
        cmocka_unit_test(test_idle_time_is_whose_name_covers_it),
        cmocka_unit_test(test_same_names_cost_nothing_while_the_gpu_works),
        cmocka_unit_test(test_wait_of_the_host_in_the_step),
        cmocka_unit_test(test_gap_is_divided_by_the_calls_in_it),
        cmocka_unit_test(test_wait_that_ends_early_is_none),
        cmocka_unit_test(test_eager_decode_misses_its_graph),
        cmocka_unit_test(test_launches_that_keep_ahead_need_no_graph),
        cmocka_unit_test(test_launch_bound_prefill_misses_no_graph),
        cmocka_unit_test(test_exposed_communication_by_purpose),
        cmocka_unit_test(test_pageable_copies),
        cmocka_unit_test(test_copies_that_nothing_hides),
        cmocka_unit_test(test_offset_without_a_time),
        cmocka_unit_test(test_many_tiny_kernels),
        cmocka_unit_test(test_chains_of_elementwise_kernels),
        cmocka_unit_test(test_prefill_between_decode_steps),
        cmocka_unit_test(test_python_frames_in_mass),
        cmocka_unit_test(test_idle_worker),
        cmocka_unit_test(test_stragglers_and_ranks_that_take_turns),
        cmocka_unit_test(test_lateness_within_the_clock_error_names_nobody),
        cmocka_unit_test(test_outlier_is_a_finding_of_its_own),
        cmocka_unit_test(test_other_lengths_are_no_outliers),
        cmocka_unit_test(test_work_of_before_the_recording),
        cmocka_unit_test(test_idle_time_that_no_rule_explains),
        cmocka_unit_test(test_gpu_bound),
        cmocka_unit_test(test_long_names_end_in_an_ellipsis),
        cmocka_unit_test(test_order_is_by_cost),
        cmocka_unit_test(test_view_is_of_what_is_chosen),
        cmocka_unit_test(test_trace_without_a_gpu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
