/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/report-fixture.h"

#define US 1000

static void what_the_head_contains(void **state)
{
    struct report_fixture r;

    fixture_begin(
        &r, "\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,\"name\":\"NVIDIA H200\","
            "\"totalGlobalMem\":150021734400,\"numSms\":132},{\"id\":1}],\"cuda_runtime_version\":12090,"
            "\"cuda_driver_version\":13000,\"vllm_version\":\"0.11.0\","
            "\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":0,\"world_size\":8,"
            "\"nccl_version\":\"2.27.5\"},");
    fixture_event(&r, "cpu_op", "aten::mm", 1, 0, 100, NULL);
    fixture_launch(&r, "kernel", "my_gemm", 7, 1, 10, 20, 30);
    fixture_launch(&r, "kernel", "my_gemm", 7, 2, 15, 60, 30);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "summary"), 0);
    assert_int_equal(report_rows_count(&r.rows), 1);
    assert_cell_text(&r, 0, "gpu", "NVIDIA H200");
    assert_cell_int(&r, 0, "gpus", 2);
    assert_cell_int(&r, 0, "gpu_memory_bytes", 150021734400);
    assert_cell_int(&r, 0, "sm_count", 132);
    assert_cell_text(&r, 0, "runtime", "CUDA 12.9");
    assert_cell_text(&r, 0, "driver", "CUDA 13.0");
    assert_cell_text(&r, 0, "backend", "nccl");
    assert_cell_text(&r, 0, "nccl", "2.27.5");
    assert_cell_int(&r, 0, "world_size", 8);
    assert_cell_text(&r, 0, "engine", "vllm");
    assert_cell_text(&r, 0, "engine_version", "0.11.0");
    assert_cell_int(&r, 0, "wall_ns", 100 * US);
    assert_cell_int(&r, 0, "span_ns", 70 * US);
    assert_cell_int(&r, 0, "busy_ns", 60 * US);
    assert_cell_int(&r, 0, "idle_ns", 10 * US);
    assert_cell_real(&r, 0, "utilisation", 6.0 / 7);
    assert_cell_int(&r, 0, "gpu_events", 2);
    fixture_done(&r);
}

static void what_it_does_not_tell(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "\"hip_runtime_version\":60443483,");
    fixture_event(&r, "user_annotation", "step[DECODE bs=4]", 1, 0, 100, NULL);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "summary"), 0);
    assert_cell_null(&r, 0, "gpu");
    assert_cell_null(&r, 0, "gpu_memory_bytes");
    assert_cell_text(&r, 0, "runtime", "HIP 6.4.43483");
    assert_cell_null(&r, 0, "driver");
    assert_cell_null(&r, 0, "nccl");
    assert_cell_text(&r, 0, "engine", "sglang");
    assert_cell_null(&r, 0, "engine_version");
    assert_cell_null(&r, 0, "span_ns");
    assert_cell_null(&r, 0, "utilisation");
    assert_cell_int(&r, 0, "steps", 1);
    fixture_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_head_contains),
        cmocka_unit_test(what_it_does_not_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
