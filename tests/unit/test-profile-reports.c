/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of other profilers' traces: nsys, callgrind, ONNX Runtime. */
#include "tests/unit/report-fixture.h"

#define US 1000

static void statistics_of_nsys(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_launch(&r, "kernel", "gemm", 7, 1, 0, 100, 10);
    fixture_launch(&r, "kernel", "gemm", 7, 2, 10, 200, 20);
    fixture_launch(&r, "kernel", "gemm", 7, 3, 20, 300, 60);
    fixture_launch(&r, "kernel", "gemm", 7, 4, 30, 400, 30);
    fixture_launch(&r, "kernel", "norm", 7, 5, 40, 500, 40);
    fixture_event(&r, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 7, 600, 4,
                  "\"stream\":7,\"device\":0,\"bytes\":1000");
    fixture_event(&r, "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 7, 610, 6,
                  "\"stream\":7,\"device\":0,\"bytes\":3000");
    fixture_event(&r, "gpu_memset", "Memset (Device)", 7, 620, 1, "\"stream\":7,\"device\":0,\"bytes\":64");
    fixture_event(&r, "cuda_driver", "cuLaunchKernel", 1, 50, 8, NULL);
    fixture_read(&r);

    assert_int_equal(fixture_make(&r, "cuda_gpu_kern_sum"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_cell_text(&r, 0, "name", "gemm");
    assert_cell_real(&r, 0, "share", 0.75);
    assert_cell_int(&r, 0, "sum_ns", 120 * US);
    assert_cell_int(&r, 0, "count", 4);
    assert_cell_int(&r, 0, "mean_ns", 30 * US);
    assert_cell_int(&r, 0, "median_ns", 25 * US); /* between the middle two */
    assert_cell_int(&r, 0, "min_ns", 10 * US);
    assert_cell_int(&r, 0, "max_ns", 60 * US);
    assert_cell_int(&r, 0, "std_ns", 21602); /* sqrt(1400 / 3) */
    assert_cell_int(&r, 1, "std_ns", 0);

    assert_int_equal(fixture_make(&r, "cuda_gpu_mem_time_sum"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_cell_text(&r, 0, "name", "[CUDA memcpy Host-to-Device]");
    assert_cell_int(&r, 0, "sum_ns", 10 * US);
    assert_cell_text(&r, 1, "name", "[CUDA memset]");
    assert_int_equal(fixture_make(&r, "cuda_gpu_mem_size_sum"), 0);
    assert_cell_int(&r, 0, "sum_bytes", 4000);
    assert_cell_int(&r, 0, "mean_bytes", 2000);
    assert_cell_int(&r, 1, "sum_bytes", 64);

    assert_int_equal(fixture_make(&r, "cuda_api_sum"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_cell_text(&r, 0, "name", "cudaLaunchKernel");
    assert_cell_int(&r, 0, "count", 5);
    assert_cell_text(&r, 1, "name", "cuLaunchKernel");
    assert_int_equal(fixture_make(&r, "osrt_sum"), -ENODATA);
    assert_int_equal(fixture_make(&r, "nvtx_sum"), -ENODATA);

    analysis_done(&r.analysis);
    r.analysis.view.from = 450 * US;
    assert_int_equal(fixture_make(&r, "cuda_gpu_kern_sum"), 0);
    assert_int_equal(report_rows_count(&r.rows), 1);
    assert_cell_text(&r, 0, "name", "norm");
    fixture_done(&r);
}

/* A range has what was launched in it, whenever that runs; its number is no part of its name. */
static void ranges(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "user_annotation", "forward", 1, 0, 100, NULL);
    fixture_event(&r, "user_annotation", "linear, op_id = 7", 1, 10, 20, NULL);
    fixture_launch(&r, "kernel", "gemm", 7, 1, 12, 200, 10);
    fixture_event(&r, "user_annotation", "linear, op_id = 8", 1, 50, 30, NULL);
    fixture_launch(&r, "kernel", "gemm", 7, 2, 52, 240, 10);
    fixture_launch(&r, "kernel", "add", 7, 3, 55, 260, 10);
    fixture_event(&r, "cpu_op", "forward", 1, 300, 100, NULL);
    fixture_launch(&r, "kernel", "gemm", 7, 4, 310, 400, 10);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "nvtx"), 0);
    assert_int_equal(report_rows_count(&r.rows), 2);
    assert_cell_text(&r, 0, "name", "forward");
    assert_cell_int(&r, 0, "count", 1);
    assert_cell_int(&r, 0, "kernels", 3);
    assert_cell_int(&r, 0, "gpu_span_ns", 70 * US);
    assert_cell_int(&r, 0, "gpu_busy_ns", 30 * US);
    assert_cell_text(&r, 1, "name", "linear");
    assert_cell_int(&r, 1, "count", 2);
    assert_cell_int(&r, 1, "sum_ns", 50 * US);
    assert_cell_int(&r, 1, "kernels", 3);
    assert_cell_int(&r, 1, "gpu_span_ns", (10 + 30) * US);
    assert_int_equal(fixture_make(&r, "nvtx_sum"), 0);
    assert_int_equal(report_rows_count(&r.rows), 3);
    fixture_done(&r);
}

/* A range that begins in a frame and outlives it lies beside the calls of that frame, and holds them all the
 * same. */
static void ranges_across_frames(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "python_function", "across", 1, 0, 100, NULL);
    fixture_event(&r, "user_annotation", "forward", 1, 10, 140, NULL);
    fixture_launch(&r, "kernel", "gemm", 7, 1, 50, 300, 10);
    fixture_launch(&r, "kernel", "gemm", 7, 2, 120, 320, 10);
    fixture_launch(&r, "kernel", "gemm", 7, 3, 180, 340, 10);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "nvtx"), 0);
    assert_int_equal(report_rows_count(&r.rows), 1);
    assert_cell_int(&r, 0, "kernels", 2);
    assert_int_equal(fixture_make(&r, "op_tree"), 0);
    assert_cell_int(&r, 0, "kernels", 2);
    fixture_done(&r);
}

static void node(struct report_fixture *r, const char *name, double ts, double dur, const char *op,
                 const char *provider)
{
    char args[128];

    snprintf(args, sizeof(args), "\"op_name\":\"%s\",\"provider\":\"%s\",\"node_index\":\"3\"", op, provider);
    fixture_event(r, "Node", name, 1, ts, dur, args);
}

static void onnx_runtime(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "Session", "model_run", 1, 0, 1000, NULL);
    node(&r, "conv1_fence_before", 1, 1, "Conv", "CUDAExecutionProvider");
    node(&r, "conv1_kernel_time", 10, 100, "Conv", "CUDAExecutionProvider");
    node(&r, "conv2_kernel_time", 200, 50, "Conv", "CUDAExecutionProvider");
    node(&r, "conv1_kernel_time", 300, 90, "Conv", "CUDAExecutionProvider");
    node(&r, "top_kernel_time", 400, 60, "TopK", "CPUExecutionProvider");
    node(&r, "conv9_kernel_time", 500, 10, "Conv", "CPUExecutionProvider");
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "ort"), 0);
    assert_int_equal(report_rows_count(&r.rows), 3);
    assert_cell_text(&r, 0, "operator", "Conv");
    assert_cell_text(&r, 0, "provider", "CUDAExecutionProvider");
    assert_cell_int(&r, 0, "nodes", 2);
    assert_cell_int(&r, 0, "count", 3);
    assert_cell_int(&r, 0, "sum_ns", 240 * US);
    assert_cell_real(&r, 0, "share", 240.0 / 310);
    assert_cell_int(&r, 0, "median_ns", 90 * US);
    assert_cell_text(&r, 1, "operator", "TopK");
    assert_cell_text(&r, 2, "provider", "CPUExecutionProvider");
    assert_cell_int(&r, 2, "sum_ns", 10 * US);
    assert_int_equal(fixture_make(&r, "functions"), -ENODATA);
    fixture_done(&r);
}

static void callgrind(void **state)
{
    struct report_fixture r = {0};

    r.out = open_memstream(&r.text, &r.size);
    fputs("# callgrind format\nevents: ns\n\n"
          "fn=main\n1 100\ncfn=work\ncalls=3 1\n2 900\n\n"
          "fn=work\n3 300\ncfn=leaf\ncalls=6 1\n4 600\n\n"
          "fn=leaf\n5 600\n",
          r.out);
    fixture_read_text(&r);
    assert_int_equal(fixture_make(&r, "functions"), 0);
    assert_int_equal(report_rows_count(&r.rows), 3);
    assert_cell_text(&r, 0, "function", "leaf");
    assert_cell_int(&r, 0, "self_ns", 600);
    assert_cell_int(&r, 0, "inclusive_ns", 600);
    assert_cell_real(&r, 0, "self_share", 0.6);
    assert_cell_text(&r, 1, "function", "work");
    assert_cell_int(&r, 1, "self_ns", 300);
    assert_cell_int(&r, 1, "inclusive_ns", 900);
    assert_cell_text(&r, 2, "function", "main");
    assert_cell_int(&r, 2, "inclusive_ns", 1000);
    assert_cell_real(&r, 2, "inclusive_share", 1);
    fixture_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_of_nsys),
        cmocka_unit_test(ranges),
        cmocka_unit_test(ranges_across_frames),
        cmocka_unit_test(onnx_runtime),
        cmocka_unit_test(callgrind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
