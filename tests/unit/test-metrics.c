/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/engine.h"
#include "tests/unit/cmocka-all.h"

static const char text[] = "# HELP vllm:num_requests_running Number of requests\n"
                           "# TYPE vllm:num_requests_running gauge\n"
                           "vllm:num_requests_running{engine=\"0\",model_name=\"a}b\\\"c\"} 3.0\n"
                           "vllm:num_requests_running{engine=\"1\",model_name=\"x\"} 4\n"
                           "vllm:num_requests_running_peak 100\n"
                           "vllm:num_requests_waiting 2 1700000000000\n"
                           "vllm:iteration_tokens_total_bucket{le=\"1.0\"} 7\n"
                           "vllm:iteration_tokens_total_count{engine=\"0\"} 1.5e3\n"
                           "broken{le=\"\n"
                           "nothing\n"
                           "nothing \n"
                           "nan_metric NaN\n"
                           "inf_metric +Inf\n"
                           "last 9";

static void expect(const char *metric, double value)
{
    double sum = -1;
    /* Not NUL-terminated, and exactly as long as it says. */
    size_t n = strlen(text);
    char *copy = xcalloc(n, 1);
    memcpy(copy, text, n);
    bool found = metrics_sum(copy, n, metric, &sum);
    free(copy);
    if (value >= 0) {
        assert_true(found);
        assert_true(sum == value);
    } else {
        assert_false(found);
        assert_true(sum == -1);
    }
}

static void test_sums(void **state)
{
    expect("vllm:num_requests_running", 7);
    expect("vllm:num_requests_waiting", 2);
    expect("vllm:iteration_tokens_total_count", 1500);
    expect("last", 9);
}

static void test_absent(void **state)
{
    expect("vllm:num_requests", -1);
    expect("# HELP", -1);
    expect("broken", -1);
    expect("nothing", -1);
    expect("nan_metric", -1);
    expect("inf_metric", -1);
}

static void test_empty(void **state)
{
    double sum;
    assert_false(metrics_sum("", 0, "a", &sum));
    assert_false(metrics_sum("\n\n", 2, "a", &sum));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
