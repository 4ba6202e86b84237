/* SPDX-License-Identifier: Apache-2.0 */
/* What comparisons are decided by: percentiles, outliers, significance, names without versions, conditions.
 */
#include "base/estimate.h"
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

static void test_samples(void **state)
{
    const int64_t values[] = {2, 4, 4, 4, 5, 5, 7, 9};
    double odd[] = {9, 1, 5}, even[] = {8, 2, 4, 6};

    assert_float_equal(sample_median(odd, 3), 5, 0);
    assert_float_equal(sample_median(even, 4), 5, 0);
    assert_true(isnan(sample_median(even, 0)));
    assert_float_equal(sample_deviation(values, 8, 5), sqrt(32.0 / 7), 1e-9);
    assert_float_equal(sample_deviation(values, 1, 2), 0, 0);
}

static void test_outliers_stand_out_from_many(void **state)
{
    const int64_t values[] = {98, 99, 100, 100, 101, 102, 200}, equal[] = {5, 5, 5, 5, 6};
    struct spread usual = spread_of(values, 7), of_two = spread_of(values, 2), of_equal = spread_of(equal, 5);

    assert_int_equal(usual.median, 100);
    assert_float_equal(usual.deviation, 1.4826, 1e-9);
    assert_float_equal(spread_distance(&usual, 98), -2 / 1.4826, 1e-9);
    assert_true(is_outlier(&usual, 200, 0));
    assert_false(is_outlier(&usual, 102, 0));
    /* Far from the others, but not by what matters. */
    assert_false(is_outlier(&usual, 200, 500));
    assert_false(is_outlier(&of_two, 200, 0));
    /* Where most are equal the least difference counts, if it matters. */
    assert_true(is_outlier(&of_equal, 6, 0));
    assert_false(is_outlier(&of_equal, 5, 0));
    assert_float_equal(spread_distance(&of_equal, 6), 1, 0);
}

static void test_student(void **state)
{
    /* From a table of 0.975 and 0.8. */
    static const struct {
        double probability, df, t;
    } known[] = {{0.975, 1, 12.7062},   {0.975, 2, 4.30265}, {0.975, 4, 2.77645}, {0.975, 18, 2.10092},
                 {0.975, 1e6, 1.95996}, {0.8, 1, 1.37638},   {0.8, 10, 0.87906},  {0.995, 1, 63.6567}};

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        assert_float_equal(student_quantile(known[i].probability, known[i].df), known[i].t, 1e-4);
}

static void test_percentiles_need_values_beyond(void **state)
{
    assert_true(percentile_is_supported(0.5, 2));
    assert_false(percentile_is_supported(0.5, 1));
    assert_true(percentile_is_supported(0.9, 10));
    assert_false(percentile_is_supported(0.9, 9));
    assert_true(percentile_is_supported(0.99, 100));
    assert_false(percentile_is_supported(0.99, 99));
    assert_false(percentile_is_supported(0.999, 15));
    assert_true(percentile_is_supported(0.999, 1000));
    assert_false(percentile_is_supported(0.01, 99));
    assert_true(percentile_is_supported(1, 1));
    assert_false(percentile_is_supported(1, 0));
}

/* Of 20 values in four blocks whose means are 1, 2, 3, 4. */
static void make_blocks(struct timed_value *values)
{
    for (size_t i = 0; i < 20; i++) {
        unsigned block = block_of(i, 20, 4);
        values[i] = (struct timed_value){1 + block + (i % 5 - 2.0) / 10, block};
    }
    timed_values_sort(values, 20);
}

static void test_estimates(void **state)
{
    const double figures[] = {10, 12, 14};
    struct timed_value values[20];
    struct ratio_sums ratios[4] = {{5, 5}, {10, 5}, {15, 5}, {20, 5}};

    struct estimate runs = estimate_of_units(figures, 3);
    assert_float_equal(runs.value, 12, 1e-9);
    assert_float_equal(runs.unit_sd, 2, 1e-9);
    assert_true(isnan(estimate_of_units(figures, 1).unit_sd));
    /* The standard deviation of 1, 2, 3, 4. */
    make_blocks(values);
    struct estimate run = values_as_run(values, 20, 4, FRACTION_MEAN);
    assert_float_equal(run.value, 2.5, 1e-9);
    assert_float_equal(run.unit_sd, sqrt(5.0 / 3), 1e-9);
    assert_float_equal(run.df, 3, 0);
    assert_int_equal(run.n, 1);
    assert_float_equal(ratio_as_run(ratios, 4).unit_sd, sqrt(5.0 / 3), 1e-9);
    /* As units, the error of the mean is that of four blocks. */
    struct estimate steps = values_as_units(values, 20, 4, FRACTION_MEAN, 20);
    assert_float_equal(steps.unit_sd / sqrt(20), sqrt(5.0 / 3 / 4), 1e-9);
    assert_float_equal(values_as_run(values, 20, 4, 0.5).value, 2.5, 1e-9);
    assert_true(isnan(values_as_run(values, 20, 4, 0.99).value));
    assert_true(isnan(values_as_run(values, 20, 4, 1).unit_sd));
    assert_float_equal(values_as_run(values, 20, 4, 1).value, 4.2, 1e-9);
    assert_true(isnan(values_as_run(values, 0, 4, FRACTION_MEAN).value));
}

static void test_contrasts(void **state)
{
    /* Welch's test: s2/n of 1 and 4, 4 and 9 degrees of freedom: 25 / (1/4 + 16/9) = 12.33. */
    struct estimate a = {100, sqrt(5), 4, 5}, b = {110, sqrt(40), 9, 10}, single = {120, NAN, 0, 1};
    struct contrast c = estimate_contrast(&a, &b, 1);

    assert_float_equal(c.value, 10, 1e-9);
    assert_float_equal(c.error, sqrt(5), 1e-9);
    assert_float_equal(c.high - 10, student_quantile(0.975, 25 / (0.25 + 16.0 / 9)) * sqrt(5), 1e-6);
    assert_float_equal(c.high - 10, 10 - c.low, 1e-9);
    /* A single run next to five varies as they do: sd * sqrt(1 + 1/5) with their degrees of freedom. */
    c = estimate_contrast(&a, &single, 1);
    assert_float_equal(c.high - 20, student_quantile(0.975, 4) * sqrt(5 * 1.2), 1e-6);
    assert_true(isnan(estimate_contrast(&single, &single, 1).low));
    /* 1.05 * a is compared with b. */
    c = estimate_contrast(&a, &b, 1.05);
    assert_float_equal(c.value, 5, 1e-9);
    assert_float_equal(c.error, sqrt(1.05 * 1.05 + 4), 1e-9);
    /* Twice the standard deviation: 80 % power takes 6 of each side (Cohen 1988, d = 2). */
    struct estimate x = {0, 1, 4, 5}, y = {2, 1, 4, 5};
    assert_in_range(estimate_units_needed(&x, &y, 1, 2), 5, 6);
    assert_int_equal(estimate_units_needed(&x, &y, 1, 0.001), 0);
}

static void test_conditions_by_interval(void **state)
{
    struct estimate before = {100, 1, 9, 10}, after = {106, 1, 9, 10}, rough = {106, 10, 9, 10};
    struct condition c;

    assert_int_equal(condition_parse("a > +3%", &c), 0);
    assert_int_equal(condition_decide(&c, &before, &after, 1, false).result, CONDITION_MET);
    struct condition_decision d = condition_decide(&c, &before, &rough, 1, false);
    assert_int_equal(d.result, CONDITION_UNDECIDED);
    assert_float_equal(d.value, 0.06, 1e-9);
    assert_true(d.low < 0.03 && d.high > 0.06 && d.units_needed > 10);
    assert_int_equal(condition_decide(&c, &before, &rough, 1, true).result, CONDITION_MET);
    assert_int_equal(condition_parse("a > +10%", &c), 0);
    assert_int_equal(condition_decide(&c, &before, &after, 1, false).result, CONDITION_NOT_MET);
    assert_int_equal(condition_parse("a < -3%", &c), 0);
    assert_int_equal(condition_decide(&c, &after, &before, 1, false).result, CONDITION_MET);
    /* Without a sign, of the second alone: 104 ns. */
    assert_int_equal(condition_parse("a > 104ns", &c), 0);
    assert_int_equal(condition_decide(&c, &before, &after, 1, false).result, CONDITION_MET);
    assert_int_equal(condition_decide(&c, &after, &before, 1, false).result, CONDITION_NOT_MET);
}

/* A value that is missing meets no condition, and must not pass for one that is not met. */
static void test_conditions_without_values(void **state)
{
    static const char *const conditions[] = {"a > +3%", "a < +3%", "a > 104ns", "a < 104ns"};
    struct estimate known = {100, 1, 9, 10}, missing = {NAN, NAN, 0, 3};
    struct condition c;

    for (size_t i = 0; i < ARRAY_SIZE(conditions); i++)
        for (int by_estimate = 0; by_estimate < 2; by_estimate++) {
            assert_int_equal(condition_parse(conditions[i], &c), 0);
            struct condition_decision d = condition_decide(&c, &known, &missing, 1, by_estimate);
            assert_int_equal(d.result, CONDITION_UNDECIDED);
            assert_false(d.has_values);
            assert_int_equal(condition_decide(&c, &missing, &missing, 1, by_estimate).result,
                             CONDITION_UNDECIDED);
            assert_true(condition_decide(&c, &known, &known, 1, by_estimate).has_values);
        }
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
    struct estimate x = {(double)before, NAN, 0, 1}, y = {(double)after, NAN, 0, 1};
    assert_int_equal(condition_decide(&c, &x, &y, 1, true).result, met ? CONDITION_MET : CONDITION_NOT_MET);
    /* One value says nothing of its interval. */
    assert_int_equal(condition_decide(&c, &x, &y, 1, false).result, CONDITION_UNDECIDED);
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
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_outliers_stand_out_from_many),
        cmocka_unit_test(test_student),
        cmocka_unit_test(test_percentiles_need_values_beyond),
        cmocka_unit_test(test_estimates),
        cmocka_unit_test(test_contrasts),
        cmocka_unit_test(test_conditions_by_interval),
        cmocka_unit_test(test_conditions_without_values),
        cmocka_unit_test(test_names_without_versions),
        cmocka_unit_test(test_conditions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
