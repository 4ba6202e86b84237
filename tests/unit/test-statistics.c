/* SPDX-License-Identifier: Apache-2.0 */
/* What comparisons are decided by: percentiles, outliers, significance, names without versions, conditions.
 */
#include "base/statistics.h"
#include "cmocka-all.h"
#include "trace/reports/condition.h"
#include "trace/reports/kernel_name.h"

#include <errno.h>

static void test_percentiles_are_values(void **state)
{
    const int64_t ten[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

    assert_int_equal(percentile(ten, 10, 0), 1);
    assert_int_equal(percentile(ten, 10, 50), 5);
    assert_int_equal(percentile(ten, 10, 99), 10);
    assert_int_equal(percentile(ten, 1, 99), 1);
    assert_int_equal(percentile(ten, 0, 50), 0);
}

static void test_outliers_lie_apart_from_many(void **state)
{
    const int64_t values[] = {98, 99, 100, 100, 101, 102, 200};

    assert_true(is_outlier(values, 7, 200, 0));
    assert_false(is_outlier(values, 7, 102, 0));
    /* Far from the others, but not by what matters. */
    assert_false(is_outlier(values, 7, 200, 500));
    assert_false(is_outlier(values, 2, 200, 0));
    /* Where most are equal the least difference counts, if it matters. */
    const int64_t equal[] = {5, 5, 5, 5, 6};
    assert_true(is_outlier(equal, 5, 6, 0));
    assert_false(is_outlier(equal, 5, 5, 0));
}

static void test_significance(void **state)
{
    const int64_t low[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, high[] = {11, 12, 13, 14, 15, 16, 17, 18, 19, 20},
                  mixed[] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19}, same[] = {4, 4, 4, 4, 4, 4};

    /* scipy.stats.mannwhitneyu(low, high, method="asymptotic"): 0.000182672 */
    assert_true(p_of_difference(low, 10, high, 10) > 0.000182 &&
                p_of_difference(low, 10, high, 10) < 0.000183);
    /* The same by hand, with ties: U = 27.5, sum of t^3 - t is 30, z = 1.66618. */
    assert_true(p_of_difference(low, 10, mixed, 10) > 0.09567 &&
                p_of_difference(low, 10, mixed, 10) < 0.09568);
    assert_float_equal(p_of_difference(low, 10, low, 10), 1, 0);
    assert_float_equal(p_of_difference(same, 6, same, 6), 1, 0);
    assert_float_equal(p_of_difference(low, 3, high, 10), 1, 0);
}

static void assert_normal(const char *name, const char *expected)
{
    char *normal = kernel_name_normal((struct text){name, strlen(name)});

    assert_string_equal(normal, expected);
    free(normal);
}

static void test_names_without_versions(void **state)
{
    assert_normal("void ns::gemm_kernel<4096u, (T)2>(float*, int)", "ns::gemm_kernel<>");
    assert_normal("triton_poi_fused_add_12", "triton_poi_fused_add_#");
    assert_normal("volta_sgemm_128x32_nt", "volta_sgemm_128x32_nt");
    assert_normal("kernel_v2", "kernel_v2");
    assert_normal("(anonymous namespace)::f<a<b>>(int)", "(anonymous namespace)::f<>");
    assert_normal("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD ");
    assert_normal("", "");
    assert_normal("<<<", "<>");
    assert_normal("a>b", "a>b");
}

static void assert_condition(const char *text, bool met, int64_t before, int64_t after)
{
    struct condition c;

    assert_int_equal(condition_parse(text, &c), 0);
    assert_int_equal(condition_is_met(&c, before, after), met);
}

static void test_conditions(void **state)
{
    static const char *const wrong[] = {"",
                                        "step",
                                        "step.p50 >",
                                        "> 5%",
                                        "step.p50 = 5%",
                                        "step.p50 > 5%",
                                        "a > +x%",
                                        "a > +5% or so",
                                        "a > +nan%",
                                        "STEP > +5%",
                                        "a > ++5%",
                                        "a > + 5 % %",
                                        "a > +infinity"};
    struct condition c;

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        assert_int_equal(condition_parse(wrong[i], &c), -EINVAL);
    assert_condition("step.p50 > +5%", true, 100, 106);
    assert_condition("step.p50 > +5%", false, 100, 105);
    assert_condition(" step.p50>+5 % ", true, 100, 106);
    assert_condition("step.p50 < -5%", true, 100, 94);
    assert_condition("gpu.idle > +1ms", true, 0, 1000001);
    assert_condition("gpu.idle > 1ms", false, 0, 1000000);
    assert_condition("gpu.idle > +5%", true, 0, 1);
    assert_condition("gpu.idle > +5%", false, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles_are_values),
        cmocka_unit_test(test_outliers_lie_apart_from_many),
        cmocka_unit_test(test_significance),
        cmocka_unit_test(test_names_without_versions),
        cmocka_unit_test(test_conditions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
