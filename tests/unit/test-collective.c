/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives, copies, waits and graphs: collectives, memcpy, syncs, graphs, graph_list. */
#include "tests/unit/report-fixture.h"
#include "trace/reports/collective.h"
#include "trace/reports/host.h"
#include <math.h>

#define US 1000

static struct text text_of(const char *text)
{
    return (struct text){text, strlen(text)};
}

static void assert_cell_near(const struct report_fixture *r, size_t row, const char *column, double expected)
{
    const struct cell *cell = fixture_cell(r, row, column);

    assert_int_equal(cell->type, CELL_REAL);
    assert_true(fabs(cell->real - expected) <= fabs(expected) * 1e-12);
}

static void test_kinds(void **state)
{
    static const struct {
        const char *name;
        enum collective_kind kind;
    } known[] = {
        {"allreduce", COLLECTIVE_ALL_REDUCE},
        {"allreduce_coalesced", COLLECTIVE_ALL_REDUCE},
        {"_allgather_base", COLLECTIVE_ALL_GATHER},
        {"all_gather_into_tensor", COLLECTIVE_ALL_GATHER},
        {"_reduce_scatter_base", COLLECTIVE_REDUCE_SCATTER},
        {"all_to_allv", COLLECTIVE_ALL_TO_ALL},
        {"_broadcast_oop", COLLECTIVE_BROADCAST},
        {"_reduce_oop", COLLECTIVE_REDUCE},
        {"gather", COLLECTIVE_GATHER},
        {"scatter", COLLECTIVE_SCATTER},
        {"send", COLLECTIVE_SEND},
        {"recv", COLLECTIVE_RECV},
        {"barrier", COLLECTIVE_BARRIER},
        {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", COLLECTIVE_ALL_GATHER},
        {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", COLLECTIVE_SEND_RECV},
        {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", COLLECTIVE_ALL_REDUCE},
        {"void deep_ep::internode_ll::combine<3, 10, 7168, 9>(void*)", COLLECTIVE_COMBINE},
        {"void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*)", COLLECTIVE_DISPATCH},
        {"gemm", COLLECTIVE_OTHER},
        {"", COLLECTIVE_OTHER},
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        assert_string_equal(collective_kind_name(collective_kind_of(text_of(known[i].name))),
                            collective_kind_name(known[i].kind));
}

/* The sizes and factors of nccl-tests' PERFORMANCE.md. */
static void test_sizes_and_factors(void **state)
{
    assert_int_equal(collective_bytes(COLLECTIVE_ALL_REDUCE, 100, 100, 2, 8), 200);
    assert_int_equal(collective_bytes(COLLECTIVE_ALL_GATHER, 100, 800, 2, 8), 1600);
    assert_int_equal(collective_bytes(COLLECTIVE_REDUCE_SCATTER, 800, 100, 2, 8), 1600);
    assert_int_equal(collective_bytes(COLLECTIVE_ALL_TO_ALL, 800, 800, 4, 8), 3200);
    assert_int_equal(collective_bytes(COLLECTIVE_GATHER, 100, 0, 4, 8), 3200);
    assert_int_equal(collective_bytes(COLLECTIVE_SCATTER, 0, 100, 4, 8), 3200);
    assert_int_equal(collective_bytes(COLLECTIVE_BARRIER, 1, 1, 1, 8), COLUMN_NULL);
    assert_int_equal(collective_bytes(COLLECTIVE_ALL_REDUCE, COLUMN_NULL, 1, 2, 8), COLUMN_NULL);
    assert_int_equal(collective_bytes(COLLECTIVE_ALL_REDUCE, INT64_MAX, 1, 2, 8), COLUMN_NULL);
    assert_int_equal(dtype_bytes(text_of("BFloat16")), 2);
    assert_int_equal(dtype_bytes(text_of("Float8_e4m3fn")), 1);
    assert_int_equal(dtype_bytes(text_of("float")), COLUMN_NULL);

    assert_float_equal(collective_bus_factor(COLLECTIVE_ALL_REDUCE, 8), 1.75, 0);
    assert_float_equal(collective_bus_factor(COLLECTIVE_ALL_GATHER, 8), 0.875, 0);
    assert_float_equal(collective_bus_factor(COLLECTIVE_BROADCAST, 8), 1, 0);
    assert_true(isnan(collective_bus_factor(COLLECTIVE_ALL_REDUCE, 0)));
    assert_true(isnan(collective_bus_factor(COLLECTIVE_DISPATCH, 8)));
}

#define ALL_REDUCE                                                                                           \
    "\"stream\":20,\"device\":0,\"Collective name\":\"allreduce\",\"In msg nelems\":1000000,\"Out msg "      \
    "nelems\":1000000,\"Group size\":8,\"dtype\":\"Half\",\"Process Group Name\":\"3\",\"Process Group "     \
    "Description\":\"tp\",\"Process Group Ranks\":\"[0, 1, 2]\""

static void test_collectives(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "kernel", "ncclDevKernel_AllReduce_Sum_f16_RING_LL(x)", 20, 100, 100, ALL_REDUCE);
    fixture_event(&r, "kernel", "ncclDevKernel_AllReduce_Sum_f16_RING_LL(x)", 20, 300, 300, ALL_REDUCE);
    fixture_event(&r, "kernel", "void deep_ep::combine(int)", 20, 700, 50, "\"stream\":20");
    fixture_event(&r, "kernel", "gemm", 7, 150, 100, "\"stream\":7"); /* hides 50 of the first */
    fixture_event(&r, "gpu_memcpy", "Memcpy DtoD (Device -> Device)", 8, 350, 100,
                  "\"stream\":8"); /* hides nothing */
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "collectives"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_cell_text(&r, 0, "name", "allreduce");
    assert_cell_text(&r, 0, "kind", "all_reduce");
    assert_cell_text(&r, 0, "dtype", "Half");
    assert_cell_int(&r, 0, "bytes", 2000000);
    assert_cell_text(&r, 0, "group", "tp");
    assert_cell_text(&r, 0, "ranks", "[0, 1, 2]");
    assert_cell_int(&r, 0, "group_size", 8);
    assert_cell_int(&r, 0, "count", 2);
    assert_cell_int(&r, 0, "sum_ns", 400 * US);
    assert_cell_int(&r, 0, "mean_ns", 200 * US);
    assert_cell_int(&r, 0, "exposed_ns", 350 * US);
    assert_cell_near(&r, 0, "algbw", 1e10);
    assert_cell_near(&r, 0, "busbw", 1.75e10);
    assert_cell_near(&r, 0, "max_busbw", 3.5e10);
    assert_cell_text(&r, 1, "name", "void deep_ep::combine(int)");
    assert_cell_text(&r, 1, "kind", "combine");
    assert_cell_null(&r, 1, "bytes");
    assert_cell_null(&r, 1, "busbw");
    assert_cell_int(&r, 1, "exposed_ns", 50 * US);
    fixture_done(&r);
}

/* Where the kernel says nothing of it, the operator around its launch does. */
static void test_collective_of_the_operator(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "cpu_op", "record_param_comms", 1, 0, 30,
                  "\"Collective name\":\"_allgather_base\",\"In msg nelems\":10,\"Out msg nelems\":20,"
                  "\"Group size\":2,\"dtype\":\"Float\"");
    fixture_event(&r, "cpu_op", "nccl:_all_gather_base", 1, 1, 28, NULL);
    fixture_launch(&r, "kernel", "ncclDevKernel_AllGather_RING_LL(x)", 7, 1, 5, 40, 10);
    fixture_launch(&r, "kernel", "gemm", 7, 2, 8, 60, 10);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "collectives"), 0);
    assert_int_equal(report_rows_count(&r.rows), 1);
    assert_cell_text(&r, 0, "kind", "all_gather");
    assert_cell_int(&r, 0, "bytes", 80);
    assert_cell_int(&r, 0, "sum_ns", 10 * US);
    fixture_done(&r);
}

static void test_no_collectives(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_launch(&r, "kernel", "gemm", 7, 2, 8, 60, 10);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "collectives"), -ENODATA);
    assert_int_equal(fixture_make(&r, "memcpy"), -ENODATA);
    assert_int_equal(fixture_make(&r, "syncs"), -ENODATA);
    assert_int_equal(fixture_make(&r, "graphs"), -ENODATA);
    fixture_done(&r);
}

/* -- Copies and waits --------------------------------------------------------------------------------- */

static void test_calls_that_wait(void **state)
{
    static const struct {
        const char *name;
        enum sync_call kind;
    } known[] = {
        {"cudaStreamSynchronize", SYNC_WAIT},
        {"cudaDeviceSynchronize", SYNC_WAIT},
        {"hipEventSynchronize", SYNC_WAIT},
        {"cuCtxSynchronize", SYNC_WAIT},
        {"cudaMemcpy", SYNC_COPY},
        {"hipMemcpyWithStream", SYNC_COPY},
        {"cuMemcpyDtoH_v2", SYNC_COPY},
        {"cudaMemcpyAsync", SYNC_NONE},
        {"cudaMemcpy2DAsync", SYNC_NONE},
        {"cudaFree", SYNC_FREE},
        {"cudaFreeAsync", SYNC_NONE},
        {"cudaLaunchKernel", SYNC_NONE},
        {"cudaStreamWaitEvent", SYNC_NONE},
        {"cudaPointerGetAttributes", SYNC_ASKS},
        {"", SYNC_NONE},
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        assert_int_equal(sync_call_of(text_of(known[i].name)), known[i].kind);
}

static void copy(struct report_fixture *r, const char *call, const char *name, int correlation, double called,
                 double ts, double dur, int bytes)
{
    char args[128];

    snprintf(args, sizeof(args), "\"correlation\":%d", correlation);
    fixture_event(r, "cuda_runtime", call, 1, called, 5, args);
    snprintf(args, sizeof(args), "\"stream\":7,\"correlation\":%d,\"bytes\":%d", correlation, bytes);
    fixture_event(r, "gpu_memcpy", name, 7, ts, dur, args);
}

static void test_copies(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "python_function", "item()", 1, 0, 200, NULL);
    fixture_event(&r, "cpu_op", "aten::item", 1, 1, 99, NULL);
    copy(&r, "cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", 1, 10, 20, 10, 1000);
    fixture_event(&r, "cuda_runtime", "cudaStreamIsCapturing", 1, 15, 1, "\"correlation\":8");
    fixture_event(&r, "cuda_runtime", "cudaStreamSynchronize", 1, 16, 40, "\"correlation\":9");
    copy(&r, "cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)", 2, 60, 70, 20, 4000);
    copy(&r, "cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)", 3, 65, 90, 20, 4000);
    copy(&r, "hipMemcpyWithStream", "Memcpy DtoH (Device -> Host)", 4, 150, 152, 2, 8);
    fixture_event(&r, "gpu_memset", "Memset (Device)", 7, 160, 1, "\"stream\":7,\"bytes\":64");
    fixture_event(&r, "kernel", "gemm", 8, 75, 10, "\"stream\":8");
    fixture_read(&r);

    assert_int_equal(fixture_make(&r, "memcpy"), 0);
    assert_int_equal(report_rows_count(&r.rows), 4);
    assert_cell_text(&r, 0, "direction", "HtoD");
    assert_cell_text(&r, 0, "from", "Pinned");
    assert_cell_text(&r, 0, "to", "Device");
    assert_cell_int(&r, 0, "count", 2);
    assert_cell_int(&r, 0, "sum_ns", 40 * US);
    assert_cell_int(&r, 0, "exposed_ns", 30 * US);
    assert_cell_int(&r, 0, "bytes", 8000);
    assert_cell_near(&r, 0, "bandwidth", 2e8);
    assert_cell_int(&r, 0, "pageable", 0);
    assert_cell_int(&r, 0, "sync_calls", 0);
    assert_cell_text(&r, 1, "direction", "DtoH");
    assert_cell_text(&r, 1, "to", "Pageable");
    assert_cell_int(&r, 1, "pageable", 1);
    assert_cell_int(&r, 1, "sync_calls", 1);
    assert_cell_int(&r, 1, "sync_ns", 40 * US);
    assert_cell_text(&r, 2, "to", "Host");
    assert_cell_int(&r, 2, "sync_calls", 1);
    assert_cell_int(&r, 2, "sync_ns", 5 * US);
    assert_cell_text(&r, 3, "direction", "Memset");
    assert_cell_text(&r, 3, "to", "Device");
    assert_cell_int(&r, 3, "bytes", 64);

    assert_int_equal(fixture_make(&r, "syncs"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_cell_text(&r, 0, "name", "cudaStreamSynchronize");
    assert_cell_text(&r, 0, "op", "aten::item");
    assert_cell_text(&r, 0, "frame", "item()");
    assert_cell_int(&r, 0, "sum_ns", 40 * US);
    assert_cell_text(&r, 1, "name", "hipMemcpyWithStream");
    assert_cell_null(&r, 1, "op");
    fixture_done(&r);
}

/* -- Graphs ------------------------------------------------------------------------------------------- */

static void graph(struct report_fixture *r, int correlation, double called, double ts,
                  const char *const names[], int n, const char *more)
{
    char args[128];

    snprintf(args, sizeof(args), "\"correlation\":%d", correlation);
    fixture_event(r, "cuda_runtime", "cudaGraphLaunch", 1, called, 4, args);
    for (int i = 0; i < n; i++) {
        snprintf(args, sizeof(args), "\"stream\":7,\"correlation\":%d%s", correlation, more);
        fixture_event(r, "kernel", names[i], 7, ts + 10 * i, 8, args);
    }
}

static void test_graphs(void **state)
{
    static const char *const decode[] = {"norm", "gemm", "act"}, *const sample[] = {"softmax"};
    struct report_fixture r;

    fixture_begin(&r, "");
    graph(&r, 1, 0, 10, decode, 3, "");
    graph(&r, 2, 20, 100, decode, 3, "");
    graph(&r, 3, 30, 140, sample, 1, "");
    graph(&r, 4, 160, 150, sample, 1, ""); /* the clocks differ a little */
    fixture_launch(&r, "kernel", "eager", 7, 5, 170, 180, 10);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "graphs"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_cell_null(&r, 0, "graph");
    assert_cell_int(&r, 0, "launches", 2);
    assert_cell_int(&r, 0, "kernels", 3);
    assert_cell_int(&r, 0, "sum_ns", 56 * US);
    assert_cell_int(&r, 0, "p50_ns", 28 * US);
    assert_cell_int(&r, 0, "busy_ns", 48 * US);
    assert_cell_int(&r, 0, "gap_ns", 62 * US);
    assert_cell_int(&r, 0, "call_ns", 4 * US);
    assert_cell_text(&r, 0, "first_kernel", "norm");
    assert_cell_int(&r, 1, "launches", 2);
    assert_cell_int(&r, 1, "gap_ns", (12 + 2) * US);
    assert_cell_int(&r, 1, "gap_max_ns", 12 * US);

    assert_int_equal(fixture_make(&r, "graph_list"), 0);
    assert_int_equal(report_rows_count(&r.rows), 4);
    assert_cell_int(&r, 0, "start_ns", 10 * US);
    assert_cell_int(&r, 0, "dur_ns", 28 * US);
    assert_cell_int(&r, 0, "delay_ns", 6 * US);
    assert_cell_null(&r, 0, "gap_ns");
    assert_cell_int(&r, 1, "gap_ns", 62 * US);
    assert_cell_int(&r, 3, "delay_ns", 0);
    fixture_done(&r);
}

/* Its id says which graph it is, though a conditional node made it run otherwise. */
static void test_graphs_with_ids(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    struct report_fixture r;

    fixture_begin(&r, "");
    graph(&r, 1, 0, 10, names, 3, ",\"graph id\":5");
    graph(&r, 2, 50, 60, names, 2, ",\"graph id\":5");
    graph(&r, 3, 90, 100, names, 3, ",\"graph id\":6");
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "graphs"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_cell_int(&r, 0, "graph", 5);
    assert_cell_int(&r, 0, "launches", 2);
    assert_cell_int(&r, 0, "kernels", 3);
    assert_cell_int(&r, 1, "graph", 6);
    fixture_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),           cmocka_unit_test(test_sizes_and_factors),
        cmocka_unit_test(test_collectives),     cmocka_unit_test(test_collective_of_the_operator),
        cmocka_unit_test(test_no_collectives),  cmocka_unit_test(test_calls_that_wait),
        cmocka_unit_test(test_copies),          cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_graphs_with_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
