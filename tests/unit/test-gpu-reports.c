/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of the GPU's time: of small traces with known answers, and what holds of any trace. */
#include "tests/unit/report-fixture.h"
#include "trace/reports/hta.h"
#include "trace/reports/report.h"

#include <errno.h>

#define ROUNDS 60
#define WORK   60

#define CALL(name, ts, dur, correlation)                                                                     \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":" #ts           \
    ",\"dur\":" #dur ",\"args\":{\"correlation\":" #correlation "}}"
#define GPU(category, name, stream, ts, dur, correlation)                                                    \
    "{\"ph\":\"X\",\"cat\":\"" category "\",\"name\":\"" name "\",\"pid\":0,\"tid\":" #stream ",\"ts\":" #ts \
    ",\"dur\":" #dur ",\"args\":{\"device\":0,\"stream\":" #stream ",\"correlation\":" #correlation "}}"
#define STEP(number, ts, dur)                                                                                \
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#" #number                             \
    "\",\"pid\":1,\"tid\":1,\"ts\":" #ts ",\"dur\":" #dur "}"

/* Slices by time: 0 and 1 calls, 2 the first my_gemm, 3 a call, 4 nccl, 5 the copy, 6 a call, 7 and 8 its
 * graph. */
static const char small[] = CALL("cudaLaunchKernel", 0, 5, 1) "," CALL("cudaLaunchKernel", 6, 5, 2) "," CALL(
    "cudaMemcpyAsync", 12, 30, 3) "," CALL("cudaGraphLaunch", 70, 5, 4) "," GPU("kernel", "my_gemm", 7, 10,
                                                                                20, 1) //
    "," GPU("kernel", "ncclDevKernel_X", 20, 20, 30, 2)                                //
    "," GPU("gpu_memcpy", "Memcpy DtoD", 7, 60, 4, 3)                                  //
    "," GPU("kernel", "my_gemm", 7, 80, 10, 4) "," GPU("kernel", "silu_kernel", 7, 90, 1, 4);

static void test_small_trace(void **state)
{
    static const struct {
        const struct report *report;
        const char *rows;
    } cases[] = {
        {&report_temporal, "0|81000|55000|26000|31000|24000|0.679|0.3827|0.321\n"},
        {&report_overlap, "0|30000|31000|10000|20000|0.3333|0.2469|4000|4000\n"},
        {&report_categories, "gemm|matrix products|2|1|30000|0.4615|30000|0.5455|my_gemm\n"
                             "communication|between GPUs|1|1|30000|0.4615|30000|0.5455|ncclDevKernel_X\n"
                             "memory|memcpy and memset|1|1|4000|0.06154|4000|0.07273|Memcpy DtoD\n"
                             "activation|activation functions|1|1|1000|0.01538|1000|0.01818|silu_kernel\n"},
        {&report_kernels,
         "my_gemm|gemm|2|30000|15000|10000|20000|7071|10000|20000|0.4615|0|7|80000|0|2|10000\n"
         "ncclDevKernel_X|communication|1|30000|30000|30000|30000|0|30000|30000|0.4615|0|4|20000|0|4|20000\n"
         "Memcpy DtoD|memory|1|4000|4000|4000|4000|0|4000|4000|0.06154|0|5|60000|0|5|60000\n"
         "silu_kernel|activation|1|1000|1000|1000|1000|0|1000|1000|0.01538|0|8|90000|0|8|90000\n"},
        {&report_streams, "0|0|7|4|35000|0.4321|25000|31000|0|4000|10000|81000|0.9778|2\n"
                          "0|0|20|1|30000|0.3704|20000|0|30000|0|20000|30000|1|1\n"},
        {&report_launches, "cudaMemcpyAsync|1|1|30000|30000|4000|18000|18000|18000|18000|48000|1|1\n"
                           "cudaLaunchKernel|2|2|10000|5000|50000|7000|5000|9000|9000|12000|0|0\n"
                           "cudaGraphLaunch|1|2|5000|5000|11000|5000|5000|5000|5000|10000|0|0\n"},
        {&report_queue, "0|0|7|0|1\n0|0|7|10000|0\n0|0|7|12000|1\n0|0|7|60000|0\n0|0|7|70000|2\n"
                        "0|0|7|80000|1\n0|0|7|90000|0\n0|0|20|6000|1\n0|0|20|20000|0\n"},
        {&report_launch_bound, ""},
    };
    _cleanup_(fixture_done) struct report_fixture fixture = {0};

    fixture_add_rank(&fixture, small);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_report(&fixture, cases[i].report, cases[i].rows);
}

static void test_ranks_side_by_side_and_summed_up(void **state)
{
    _cleanup_(fixture_done) struct report_fixture fixture = {0};

    fixture_add_rank(&fixture, GPU("kernel", "my_gemm", 7, 10, 20, 1));
    fixture_add_rank(&fixture, GPU("kernel", "my_gemm", 7, 5, 40, 1) "," GPU("kernel", "other", 7, 50, 1, 2));
    assert_report(&fixture, &report_temporal,
                  "0|20000|20000|0|20000|0|1|1|0\n"
                  "1|46000|41000|5000|41000|0|0.8913|0.8913|0.1087\n");
    assert_report(&fixture, &report_kernels,
                  "my_gemm|gemm|2|60000|30000|20000|40000|14142|20000|40000|0.9836|0|0|0|1|0|0\n"
                  "other|other|1|1000|1000|1000|1000|0|1000|1000|0.01639|1|1|45000|1|1|45000\n");
}

static void test_a_part_of_the_time(void **state)
{
    _cleanup_(fixture_done) struct report_fixture fixture = {0};

    fixture_add_rank(&fixture, small);
    fixture.analysis.view.from = 60000;
    assert_report(&fixture, &report_overlap, "0|0|11000|0|0||0|4000|4000\n");
}

static void test_users_classes(void **state)
{
    _cleanup_(fixture_done) struct report_fixture fixture = {0};
    _cleanup_(kernel_patterns_done) struct kernel_patterns patterns = {0};
    size_t line;

    assert_int_equal(kernel_patterns_parse("communication MY_*", &patterns, &line), 0);
    fixture_add_rank(&fixture, GPU("kernel", "my_gemm", 7, 10, 20, 1));
    fixture.analysis.patterns = &patterns;
    assert_report(&fixture, &report_overlap, "0|20000|0|0|20000|0|1|0|0\n");
}

static void test_nothing_of_it(void **state)
{
    _cleanup_(fixture_done) struct report_fixture fixture = {0};
    _cleanup_(report_rows_done) struct report_rows rows = {0};

    fixture_add_rank(&fixture, CALL("cudaLaunchKernel", 0, 5, 1));
    assert_int_equal(report_make(&report_temporal, &fixture.analysis, &rows), -ENODATA);
}

/* -- Launches ------------------------------------------------------------------------------------------ */

/* Kernels of 2 us, one each 10 us; each with a call of its own, or all of one. */
static char *kernels_in_a_row(int n, bool one_call)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    for (int i = 0; i < n; i++) {
        if (i == 0 || !one_call)
            fprintf(
                f,
                "%s{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"launch\",\"pid\":1,\"tid\":1,\"ts\":%d,"
                "\"dur\":%d,\"args\":{\"correlation\":%d}}",
                i ? "," : "", 10 * i, one_call ? 10 * n : 5, i);
        fprintf(f,
                ",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":2,"
                "\"args\":{\"device\":0,\"stream\":7,\"correlation\":%d}}",
                10 * i + 6, one_call ? 0 : i);
    }
    fclose(f);
    return text;
}

static void test_a_launch_bound_stretch(void **state)
{
    _cleanup_(fixture_done) struct report_fixture fixture = {0};
    _cleanup_(freep) char *events = kernels_in_a_row(20, false);

    fixture_add_rank(&fixture, events);
    assert_report(&fixture, &report_launch_bound, "0|0|6000|192000|20|19|40000|152000|0.7917\n");
}

static void test_few_late_kernels_are_no_stretch(void **state)
{
    _cleanup_(fixture_done) struct report_fixture fixture = {0};
    _cleanup_(freep) char *events = kernels_in_a_row(16, false);

    fixture_add_rank(&fixture, events);
    assert_report(&fixture, &report_launch_bound, "");
}

static void test_a_graph_is_not_launch_bound(void **state)
{
    _cleanup_(fixture_done) struct report_fixture fixture = {0};
    _cleanup_(freep) char *events = kernels_in_a_row(40, true);

    fixture_add_rank(&fixture, events);
    assert_report(&fixture, &report_launch_bound, "");
}

/* -- HTA ----------------------------------------------------------------------------------------------- */

static void test_by_htas_rules(void **state)
{
    _cleanup_(fixture_done) struct report_fixture fixture = {0};

    fixture_add_rank(&fixture, small);
    fixture.analysis.hta = true;
    assert_report(&fixture, &report_launches,
                  "cudaMemcpyAsync|1|1|30000|30000|4000|18000|18000|18000|18000|48000|1|1\n"
                  "cudaLaunchKernel|2|2|10000|5000|50000|7000|5000|9000|9000|12000|0|0\n");
    /* HTA has nothing beyond the sum. */
    assert_report(&fixture, &report_gaps,
                  "0|7|host_wait|1|16000||||||||\n0|7|kernel_wait|1|0||||||||\n0|7|other|1|30000||||||||\n"
                  "0|20|other|0|0||||||||\n");
}

static void test_htas_kinds(void **state)
{
    static const char events[] =
        GPU("kernel", "deep_ep::dispatch", 7, 0, 10, 1) "," GPU("kernel", "ncclKernel", 7, 20, 10, 2) "," GPU(
            "cuda_sync", "Stream Sync", 7, 40, 10, 3) "," GPU("gpu_memset", "Memset", 7, 60, 10, 4);
    _cleanup_(fixture_done) struct report_fixture fixture = {0};

    fixture_add_rank(&fixture, events);
    assert_report(&fixture, &report_temporal, "0|70000|30000|40000|0|30000|0.4286|0|0.5714\n");
    analysis_done(&fixture.analysis);
    fixture.analysis.hta = true;
    assert_report(&fixture, &report_temporal, "0|70000|40000|30000|10000|30000|0.5714|0.1429|0.4286\n");
    assert_report(&fixture, &report_overlap, "0|10000|10000|0|10000|0|0.1429|10000|10000\n");
    assert_report(&fixture, &report_gaps, "0|7|kernel_wait|1|10000||||||||\n0|7|other|1|30000||||||||\n");
}

static void test_gaps_below_zero(void **state)
{
    _cleanup_(fixture_done) struct report_fixture fixture = {0};

    fixture_add_rank(&fixture, GPU("kernel", "a", 7, 0, 10,
                                   1) "," GPU("kernel", "b", 7, 4, 2, 2) "," GPU("kernel", "c", 7, 20, 1, 3));
    fixture.analysis.hta = true;
    /* The end of b counts, although a ends later. */
    assert_report(&fixture, &report_gaps, "0|7|kernel_wait|2|8000||||||||\n0|7|other|0|0||||||||\n");
}

/* Of the second step nothing stays, and of the first what has two calls counts twice. */
static void test_htas_steps(void **state)
{
    static const char events[] =
        STEP(1, 0, 50) "," STEP(2, 50, 50) "," CALL("cudaLaunchKernel", 10, 5, 1) "," CALL(
            "cuLaunchKernel", 11, 2, 1) "," CALL("cudaLaunchKernel", 60, 5,
                                                 2) "," GPU("kernel", "a", 7, 20, 7, 1) "," GPU("kernel", "b",
                                                                                                7, 70, 10, 2);
    _cleanup_(fixture_done) struct report_fixture fixture = {0};

    fixture_add_rank(&fixture, events);
    fixture.analysis.hta = true;
    assert_report(&fixture, &report_temporal, "0|7000|7000|0|7000|0|1|1|0\n");
    assert_report(&fixture, &report_kernels,
                  "a|COMPUTATION|2|14000|7000|7000|7000|0|7000|7000|1|0|3|20000|0|3|20000\n");
}

/* -- Whatever the trace is ----------------------------------------------------------------------------- */

static uint64_t state_of = 88172645463325252u;

static unsigned random_below(unsigned n)
{
    state_of ^= state_of << 13;
    state_of ^= state_of >> 7;
    state_of ^= state_of << 17;
    return (unsigned)(state_of % n);
}

static const char *const random_names[] = {"my_gemm", "ncclDevKernel", "Memcpy DtoH", "softmax", "sentinel"};

static char *random_trace(void)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    for (unsigned i = 0, n = 1 + random_below(WORK); i < n; i++) {
        unsigned name = random_below(ARRAY_SIZE(random_names));
        fprintf(f,
                "%s{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":0,\"tid\":%u,\"ts\":%u.%03u,\"dur\":%"
                "u.%03u,"
                "\"args\":{\"device\":0,\"stream\":%u}}",
                i ? "," : "", name == 2 ? "gpu_memcpy" : "kernel", random_names[name], random_below(4),
                random_below(300), random_below(1000), random_below(20), random_below(1000), random_below(4));
    }
    fclose(f);
    return text;
}

static int64_t value(const struct report_rows *rows, const struct report *report, size_t row,
                     const char *column)
{
    for (size_t i = 0; i < report->n_columns; i++)
        if (streq(report->columns[i].name, column))
            return report_rows_at(rows, row, i)->integer;
    fail_msg("no column %s", column);
    return 0;
}

static int64_t sum(const struct report_rows *rows, const struct report *report, const char *column)
{
    int64_t all = 0;

    for (size_t row = 0; row < report_rows_count(rows); row++)
        all += value(rows, report, row, column);
    return all;
}

static void check_laws(struct report_fixture *fixture)
{
    _cleanup_(report_rows_done) struct report_rows temporal = {0}, overlap = {0}, kernels = {0},
                                                   streams = {0}, categories = {0};

    assert_int_equal(report_make(&report_temporal, &fixture->analysis, &temporal), 0);
    assert_int_equal(report_make(&report_overlap, &fixture->analysis, &overlap), 0);
    assert_int_equal(report_make(&report_kernels, &fixture->analysis, &kernels), 0);
    assert_int_equal(report_make(&report_streams, &fixture->analysis, &streams), 0);
    assert_int_equal(report_make(&report_categories, &fixture->analysis, &categories), 0);
#define T(column) value(&temporal, &report_temporal, 0, column)
#define O(column) value(&overlap, &report_overlap, 0, column)
    assert_int_equal(T("busy_ns") + T("idle_ns"), T("span_ns"));
    assert_int_equal(T("compute_ns") + T("non_compute_ns"), T("busy_ns"));
    assert_int_equal(O("compute_ns"), T("compute_ns"));
    assert_int_equal(O("overlapped_ns") + O("exposed_ns"), O("comm_ns"));
    assert_int_equal(O("compute_ns") + O("exposed_ns") + O("exposed_memory_ns"), T("busy_ns"));
    int64_t time = sum(&kernels, &report_kernels, "sum_ns"), busy = sum(&streams, &report_streams, "busy_ns"),
            alone = sum(&streams, &report_streams, "alone_ns");
    assert_int_equal(sum(&categories, &report_categories, "sum_ns"), time);
    assert_int_equal(sum(&categories, &report_categories, "count"), sum(&streams, &report_streams, "count"));
    assert_int_equal(sum(&kernels, &report_kernels, "count"), sum(&streams, &report_streams, "count"));
    /* What overlaps is counted by each stream; what is alone, by one. */
    assert_true(alone <= T("busy_ns") && T("busy_ns") <= busy && busy <= time);
    assert_true(2 * (T("busy_ns") - alone) <= busy - alone);
#undef T
#undef O
}

static void test_laws(void **state)
{
    for (int i = 0; i < ROUNDS; i++) {
        _cleanup_(fixture_done) struct report_fixture fixture = {0};
        _cleanup_(freep) char *events = random_trace();
        fixture_add_rank(&fixture, events);
        check_laws(&fixture);
        analysis_done(&fixture.analysis);
        fixture.analysis.hta = true;
        check_laws(&fixture);
    }
}

/* All communication of a trace lies under computation that is the same. */
static void test_overlap_with_itself(void **state)
{
    _cleanup_(fixture_done) struct report_fixture fixture = {0};

    fixture_add_rank(&fixture,
                     GPU("kernel", "my_gemm", 7, 10, 20, 1) "," GPU("kernel", "nccl", 8, 10, 20, 2) "," GPU(
                         "kernel", "my_gemm", 7, 50, 5, 3) "," GPU("kernel", "nccl", 8, 50, 5, 4));
    assert_report(&fixture, &report_overlap, "0|25000|25000|25000|0|1|0|0|0\n");
}

/* Stamps and durations at the ends of what there is, correlations that are all one. */
static void test_hostile_trace(void **state)
{
    static const char events[] = GPU("kernel", "a", 7, -9000000000000000, 9000000000000000, 1) //
        "," GPU("kernel", "a", 7, 9000000000000000, 200000000000000, 1)                        //
        "," GPU("kernel", "a", 8, -4600000000000000, 9200000000000000, 1)                      //
        "," GPU("kernel", "a", 9, -4600000000000000, 9200000000000000, 1)                      //
        "," GPU("kernel", "a", 7, 4000000000000000, 600000000000000, 1)                        //
        "," GPU("kernel", "nccl", 7, 0, 0, 1) "," CALL("cudaLaunchKernel", -9000000000000000, 1, 1);
    _cleanup_(fixture_done) struct report_fixture fixture = {0};

    fixture_add_rank(&fixture, events);
    for (int hta = 0; hta < 2; hta++) {
        fixture.analysis.hta = hta;
        for (const struct report *const *r = reports; *r; r++) {
            _cleanup_(report_rows_done) struct report_rows rows = {0};
            int made = report_make(*r, &fixture.analysis, &rows);
            assert_true(made == 0 || made == -ENODATA);
        }
        analysis_done(&fixture.analysis);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_trace),
        cmocka_unit_test(test_ranks_side_by_side_and_summed_up),
        cmocka_unit_test(test_a_part_of_the_time),
        cmocka_unit_test(test_users_classes),
        cmocka_unit_test(test_nothing_of_it),
        cmocka_unit_test(test_a_launch_bound_stretch),
        cmocka_unit_test(test_few_late_kernels_are_no_stretch),
        cmocka_unit_test(test_a_graph_is_not_launch_bound),
        cmocka_unit_test(test_by_htas_rules),
        cmocka_unit_test(test_htas_kinds),
        cmocka_unit_test(test_gaps_below_zero),
        cmocka_unit_test(test_htas_steps),
        cmocka_unit_test(test_laws),
        cmocka_unit_test(test_overlap_with_itself),
        cmocka_unit_test(test_hostile_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
