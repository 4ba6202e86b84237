/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/report-fixture.h"
#include "trace/reports/roofline.h"

#define NONE COLUMN_NULL

static struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}

#define CONV                                                                                                 \
    "[\"\",\"\",\"\",\"[2, 2]\",\"[3, 3]\",\"[1, 1]\",\"False\",\"[0, 0]\",\"1\"]",                          \
        2 * 8 * 64 * 16 * 16 * 3 * 49L

static const struct {
    const char *name, *dims, *types, *concrete;
    int64_t flops, bytes;
    enum precision precision;
} ops[] = {
    {"aten::mm", "[[4, 8], [8, 16]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]", "", 2 * 4 * 8 * 16,
     2 * (4 * 8 + 8 * 16 + 4 * 16), PRECISION_BF16},
    {"aten::mm", "[\n [\n  4,\n 8 ], [ 8, 16 ]\n]", "[\"double\",\"double\"]", "", 2 * 4 * 8 * 16,
     8 * (4 * 8 + 8 * 16 + 4 * 16), PRECISION_FP64},
    {"aten::addmm", "[[16], [4, 8], [8, 16], [], []]", "[\"float\", \"float\", \"float\"]", "",
     2 * 4 * 8 * 16, 4 * (4 * 8 + 8 * 16 + 4 * 16), PRECISION_FP32},
    {"aten::bmm", "[[3, 4, 8], [3, 8, 16]]", "[\"float\", \"float\"]", "", 2 * 3 * 4 * 8 * 16,
     4 * 3 * (4 * 8 + 8 * 16 + 4 * 16), PRECISION_FP32},
    {"aten::linear", "[[2, 5, 8], [16, 8], [16]]", "[\"c10::Half\", \"c10::Half\"]", "", 2 * 10 * 8 * 16,
     2 * (10 * 8 + 16 * 8 + 10 * 16), PRECISION_FP16},
    /* What is narrow has results of two bytes. */
    {"aten::_scaled_mm", "[[4, 8], [8, 16]]", "[\"c10::Float8_e4m3fn\", \"c10::Float8_e4m3fn\"]", "",
     2 * 4 * 8 * 16, 4 * 8 + 8 * 16 + 2 * 4 * 16, PRECISION_FP8},
    {"aten::scaled_dot_product_attention", "[[2, 4, 6, 8], [2, 4, 10, 8], [2, 4, 10, 8], [], [], []]",
     "[\"c10::Half\", \"c10::Half\", \"c10::Half\"]", "[\"\",\"\",\"\",\"\",\"0.\",\"False\"]",
     2 * 2 * 4 * 6 * 10 * 16, 2 * 2 * 4 * 8 * (6 + 10 + 10 + 6), PRECISION_FP16},
    {"aten::scaled_dot_product_attention", "[[2, 4, 6, 8], [2, 4, 10, 8], [2, 4, 10, 8], [], [], []]",
     "[\"c10::Half\", \"c10::Half\", \"c10::Half\"]", "[\"\",\"\",\"\",\"\",\"0.\",\"True\"]",
     2 * 4 * 6 * 10 * 16, 2 * 2 * 4 * 8 * (6 + 10 + 10 + 6), PRECISION_FP16},
    /* 7x7, stride 2, padding 3: 32x32 becomes 16x16. */
    {"aten::convolution", "[[8, 3, 32, 32], [64, 3, 7, 7], [64], [], [], [], [], [], []]",
     "[\"float\",\"float\"]", CONV, 4 * (8 * 3 * 32 * 32 + 64 * 3 * 49 + 8 * 64 * 16 * 16), PRECISION_FP32},
    /* Types that nobody knows: work but no bytes. */
    {"aten::mm", "[[4, 8], [8, 16]]", "", "", 2 * 4 * 8 * 16, NONE, _PRECISION_MAX},
};

static void costs(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
        struct op_cost cost;
        if (!op_cost_of(text_of(ops[i].name), text_of(ops[i].dims), text_of(ops[i].types),
                        text_of(ops[i].concrete), &cost))
            fail_msg("%s %s", ops[i].name, ops[i].dims);
        assert_int_equal(cost.flops, ops[i].flops);
        assert_int_equal(cost.bytes, ops[i].bytes);
        assert_int_equal(cost.precision, ops[i].precision);
    }
}

static void no_costs(void **state)
{
    static const struct {
        const char *name, *dims, *concrete;
    } others[] = {
        {"aten::add", "[[4, 8], [8, 16]]", ""},
        {"aten::mm", "", ""},
        {"aten::mm", "[[4, 8]]", ""},
        {"aten::mm", "[[4, 8], [9, 16]]", ""},
        {"aten::mm", "[[4, -8], [-8, 16]]", ""},
        {"aten::mm", "[[4, \"x\"], [8, 16]]", ""},
        {"aten::mm", "[[4000000000, 4000000000], [4000000000, 4000000000]]", ""},
        {"aten::mm", "[[4, 8], [8, ", ""},
        {"aten::linear", "[[8], [[16, 8]]]", ""},
        /* Without its strides, or transposed. */
        {"aten::convolution", "[[8, 3, 32, 32], [64, 3, 7, 7]]", ""},
        {"aten::convolution", "[[8, 3, 32, 32], [3, 64, 7, 7]]",
         "[\"\",\"\",\"\",\"[2, 2]\",\"[3, 3]\",\"[1, 1]\",\"True\",\"[0, 0]\",\"1\"]"},
        {"aten::convolution", "[[8, 3, 2, 2], [64, 3, 7, 7]]",
         "[\"\",\"\",\"\",\"[1, 1]\",\"[0, 0]\",\"[1, 1]\",\"False\",\"[0, 0]\",\"1\"]"},
        {"aten::convolution", "[[8, 3, 32, 32], [64, 3, 7, 7]]",
         "[\"\",\"\",\"\",\"[0, 0]\",\"[0, 0]\",\"[1, 1]\",\"False\",\"[0, 0]\",\"1\"]"},
    };
    struct op_cost cost;

    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (op_cost_of(text_of(others[i].name), text_of(others[i].dims), (struct text){0},
                       text_of(others[i].concrete), &cost))
            fail_msg("%s %s", others[i].name, others[i].dims);
    assert_false(op_cost_of((struct text){0}, (struct text){0}, (struct text){0}, (struct text){0}, &cost));
}

static void known_gpus(void **state)
{
    assert_true(gpu_peak_find(text_of("NVIDIA H200"))->bytes_per_s == 4800e9);
    assert_true(gpu_peak_find(text_of("NVIDIA H100 80GB HBM3"))->flops[PRECISION_FP16] == 989.4e12);
    assert_true(gpu_peak_find(text_of("NVIDIA H100 PCIe"))->flops[PRECISION_FP16] == 756e12);
    assert_true(gpu_peak_find(text_of("NVIDIA A100-SXM4-80GB"))->bytes_per_s == 2039e9);
    assert_true(gpu_peak_find(text_of("NVIDIA A100 80GB PCIe"))->bytes_per_s == 1935e9);
    assert_true(gpu_peak_find(text_of("NVIDIA A100-SXM4-40GB"))->bytes_per_s == 1555e9);
    assert_true(gpu_peak_find(text_of("AMD Instinct MI300X"))->flops[PRECISION_FP8] == 2614.9e12);
    assert_true(gpu_peak_find(text_of("NVIDIA H20"))->flops[PRECISION_FP16] == 148e12);
    assert_true(gpu_peak_find(text_of("NVIDIA H200"))->flops[PRECISION_BF16] == 989.4e12);
    /* Volta and Turing have no units for it. */
    assert_true(gpu_peak_find(text_of("Tesla V100-SXM2-16GB"))->flops[PRECISION_BF16] == 0);
    assert_null(gpu_peak_find(text_of("NVIDIA GeForce RTX 4090")));
    assert_null(gpu_peak_find((struct text){0}));
}

#define DIMS                                                                                                 \
    "\"External id\":1,\"Input Dims\":[[1024,1024],[1024,1024]],"                                            \
    "\"Input type\":[\"c10::BFloat16\",\"c10::BFloat16\"],\"Concrete Inputs\":[\"\",\"\"]"

static void time_of_the_innermost(struct report_fixture *r, const char *head)
{
    fixture_begin(r, head);
    fixture_event(r, "cpu_op", "aten::linear", 1, 0, 100, DIMS);
    fixture_event(r, "cpu_op", "aten::mm", 1, 5, 50, DIMS);
    fixture_launch(r, "kernel", "gemm_main", 7, 1, 10, 100, 6);
    fixture_launch(r, "kernel", "gemm_reduce", 7, 2, 20, 120, 4);
    fixture_event(r, "cpu_op", "aten::mm", 1, 200, 50, DIMS);
    fixture_launch(r, "kernel", "gemm_main", 7, 3, 210, 300, 10);
    fixture_event(r, "cpu_op", "aten::add", 1, 400, 50, DIMS);
    fixture_launch(r, "kernel", "add", 7, 4, 410, 500, 10);
    fixture_read(r);
    assert_int_equal(fixture_make(r, "roofline"), 0);
    assert_int_equal(report_rows_count(&r->rows), 1);
    assert_cell_text(r, 0, "operator", "aten::mm");
    assert_cell_text(r, 0, "dims", "[[1024, 1024], [1024, 1024]]");
    assert_cell_text(r, 0, "precision", "bf16");
    assert_cell_int(r, 0, "calls", 2);
    assert_cell_int(r, 0, "device_ns", 20000);
    assert_cell_int(r, 0, "flops", INT64_C(2) << 30);
    assert_cell_int(r, 0, "bytes", 6 << 20);
    assert_cell_real(r, 0, "tflops", 2.0 * (INT64_C(2) << 30) / 20e-6 / 1e12);
    assert_cell_real(r, 0, "intensity", 1024.0 / 3);
}

static void of_a_known_gpu(void **state)
{
    struct report_fixture r;

    time_of_the_innermost(&r, "\"deviceProperties\":[{\"id\":0,\"name\":\"NVIDIA H100 80GB HBM3\"}],");
    /* 1024 / 3 operations a byte, of 3350 GB/s, is more than the 989.4 TFLOP/s there are. */
    assert_cell_text(&r, 0, "bound", "compute");
    assert_cell_real(&r, 0, "roof_share", 2.0 * (INT64_C(2) << 30) / 20e-6 / 989.4e12);
    fixture_done(&r);
}

static void of_an_unknown_gpu(void **state)
{
    struct report_fixture r;

    time_of_the_innermost(&r, "\"deviceProperties\":[{\"id\":0,\"name\":\"Abacus 3\"}],");
    assert_cell_null(&r, 0, "bound");
    assert_cell_null(&r, 0, "roof_share");
    fixture_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs),          cmocka_unit_test(no_costs),          cmocka_unit_test(known_gpus),
        cmocka_unit_test(of_a_known_gpu), cmocka_unit_test(of_an_unknown_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
