/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of open loops, and the prompts that go with them: the same for the same seed, of the right shape.
 */
#include "base/clock.h"
#include "daemon/load/prompts.h"
#include "daemon/load/random.h"
#include "daemon/load/schedule.h"
#include "tests/unit/cmocka-all.h"
#include <math.h>

#define MANY 20000

static struct schedule made(const struct workload *w)
{
    struct schedule s;
    assert_int_equal(schedule_make(w, &s), 0);
    for (size_t i = 1; i < s.n; i++)
        assert_true(s.at_ns[i] >= s.at_ns[i - 1]);
    assert_true(s.n == 0 || s.at_ns[0] == 0);
    return s;
}

/* Mean of the gaps in seconds, and their coefficient of variation. */
static void shape_of(const struct schedule *s, double *ret_mean_s, double *ret_variation)
{
    double n = (double)(s->n - 1), mean = (double)s->at_ns[s->n - 1] / n, sum = 0;

    for (size_t i = 1; i < s->n; i++)
        sum += pow((double)(s->at_ns[i] - s->at_ns[i - 1]) - mean, 2);
    *ret_mean_s = mean / (double)NS_PER_S;
    *ret_variation = sqrt(sum / n) / mean;
}

static void test_distributions(void **state)
{
    static const struct {
        enum arrival arrival;
        double burstiness, variation; /* of a gamma of that shape: its root's inverse */
    } cases[] = {
        {ARRIVAL_CONSTANT, 1, 0}, {ARRIVAL_POISSON, 1, 1}, {ARRIVAL_GAMMA, 1, 1},
        {ARRIVAL_GAMMA, 0.25, 2}, {ARRIVAL_GAMMA, 4, 0.5},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct workload w = {
            .arrival = cases[i].arrival, .burstiness = cases[i].burstiness, .rate = 50, .requests = MANY};
        double mean_s, variation;
        struct schedule s = made(&w);
        assert_int_equal(s.n, MANY);
        shape_of(&s, &mean_s, &variation);
        assert_true(fabs(mean_s - 0.02) < 0.02 * 0.04);
        assert_true(fabs(variation - cases[i].variation) < 0.1);
        schedule_done(&s);
    }
}

/* Kolmogorov and Smirnov's distance from the exponential: at a level of 0.001 it is below 1.95 / sqrt(n). */
static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void test_poisson_is_exponential(void **state)
{
    static double gaps[MANY - 1];
    struct workload w = {.arrival = ARRIVAL_POISSON, .rate = 100, .requests = MANY, .seed = 5};
    struct schedule s = made(&w);
    double distance = 0, n = MANY - 1;

    for (size_t i = 1; i < s.n; i++)
        gaps[i - 1] = (double)(s.at_ns[i] - s.at_ns[i - 1]) / (double)NS_PER_S * 100;
    qsort(gaps, MANY - 1, sizeof(*gaps), by_value);
    for (size_t i = 0; i < MANY - 1; i++)
        distance = fmax(distance, fabs(1 - exp(-gaps[i]) - ((double)i + 0.5) / n));
    assert_true(distance < 1.95 / sqrt(n));
    schedule_done(&s);
}

static void test_same_seed_same_moments(void **state)
{
    struct workload w = {.arrival = ARRIVAL_GAMMA, .burstiness = 0.7, .rate = 9, .requests = 500, .seed = 11};
    struct schedule a = made(&w), b = made(&w);

    assert_memory_equal(a.at_ns, b.at_ns, a.n * sizeof(*a.at_ns));
    w.seed = 12;
    struct schedule other = made(&w);
    assert_memory_not_equal(a.at_ns, other.at_ns, a.n * sizeof(*a.at_ns));
    schedule_done(&a);
    schedule_done(&b);
    schedule_done(&other);
}

/* Pinned: the moments of a published seed do not change from version to version. */
static void test_moments_are_pinned(void **state)
{
    struct workload w = {.arrival = ARRIVAL_POISSON, .rate = 1, .requests = 4, .seed = 1};
    struct schedule s = made(&w);
    struct random r;

    random_init(&r, 1, 1);
    double sum = 0;
    for (size_t i = 1; i < s.n; i++) {
        sum += random_exponential(&r);
        assert_int_equal(s.at_ns[i], (int64_t)(sum * 1e9));
    }
    random_init(&r, 1, 1);
    assert_int_equal(random_next(&r), UINT64_C(0x5775264a9a7e1b09));
    schedule_done(&s);
}

static void test_duration_bounds(void **state)
{
    struct workload w = {.arrival = ARRIVAL_CONSTANT, .rate = 10, .duration_ns = 2 * NS_PER_S};
    struct schedule s = made(&w);

    assert_int_equal(s.n, 20);
    assert_int_equal(s.at_ns[19], 1900 * NS_PER_MS);
    schedule_done(&s);
    w.requests = 5;
    s = made(&w);
    assert_int_equal(s.n, 5);
    schedule_done(&s);
}

/* From 10 to 30 a second over 10 s: 200 in all, 75 of them in the first half. */
static void test_ramp(void **state)
{
    struct workload w = {
        .arrival = ARRIVAL_CONSTANT, .rate = 10, .rate_to = 30, .duration_ns = 10 * NS_PER_S};
    struct schedule s = made(&w);
    size_t first_half = 0;

    assert_in_range(s.n, 199, 200);
    while (s.at_ns[first_half] < 5 * NS_PER_S)
        first_half++;
    assert_in_range(first_half, 74, 76);
    schedule_done(&s);

    w = (struct workload){.arrival = ARRIVAL_CONSTANT, .rate = 30, .rate_to = 10, .requests = 200};
    s = made(&w);
    assert_int_equal(s.n, 200);
    assert_true(s.at_ns[199] < 10 * NS_PER_S && s.at_ns[199] > 9800 * NS_PER_MS);
    schedule_done(&s);

    /* A rate that falls to nearly nothing has an end. */
    w = (struct workload){
        .arrival = ARRIVAL_POISSON, .rate = 1000, .rate_to = 0.001, .requests = 1000, .seed = 2};
    s = made(&w);
    assert_in_range(s.n, 800, 1000);
    schedule_done(&s);
}

/* -- Prompts ------------------------------------------------------------------------------------------ */

/* A tokenizer of bytes behind a token that begins every text. */
static int64_t byte_tokens(const char *text)
{
    return 1 + (int64_t)strlen(text);
}

static void calibrate(struct prompts *p)
{
    char repeated[256];

    for (size_t i = 0; i < PROMPT_WORDS; i++) {
        repeated[0] = '\0';
        for (int k = 0; k < PROMPT_REPEATS; k++)
            strcat(repeated, prompts_word(i));
        prompts_calibrate(p, i, byte_tokens(prompts_word(i)), byte_tokens(repeated));
    }
}

static void test_exact_length(void **state)
{
    struct workload w = {.seed = 3};
    struct prompts p;

    for (int64_t isl = 3; isl < 300; isl++) {
        enum token_source source;
        int64_t tokens;
        w.isl = isl;
        prompts_init(&p, &w, 0);
        calibrate(&p);
        char *text = prompts_text(&p, isl, &tokens, &source);
        assert_int_equal(byte_tokens(text), isl);
        assert_int_equal(tokens, isl);
        assert_int_equal(source, TOKENS_TOKENIZED);
        free(text);
    }
}

static void test_estimated_without_tokenizer(void **state)
{
    struct workload w = {.isl = 40, .seed = 3};
    enum token_source source;
    struct prompts p;
    int64_t tokens;

    prompts_init(&p, &w, 0);
    char *text = prompts_text(&p, 0, &tokens, &source);
    assert_int_equal(source, TOKENS_ESTIMATED);
    assert_int_equal(tokens, 40);
    free(text);
}

static size_t common_bytes(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

static void test_prompts_vary(void **state)
{
    struct workload w = {.isl = 400, .seed = 3};
    enum token_source source;
    int64_t tokens;
    struct prompts p;

    prompts_init(&p, &w, 0);
    calibrate(&p);
    char *a = prompts_text(&p, 0, &tokens, &source), *b = prompts_text(&p, 1, &tokens, &source);
    char *again = prompts_text(&p, 0, &tokens, &source);
    assert_string_equal(a, again);
    assert_true(common_bytes(a, b) < 40);
    free(a);
    free(b);

    w.shared_prefix = 200;
    a = prompts_text(&p, 0, &tokens, &source);
    b = prompts_text(&p, 1, &tokens, &source);
    assert_in_range(common_bytes(a, b), 200, 260);
    assert_int_equal(byte_tokens(b), 400);
    free(a);
    free(b);
    free(again);
}

/* Without a seed the next run's prompts are not in a cache either. */
static void test_seedless_prompts_differ_from_run_to_run(void **state)
{
    struct workload w = {.isl = 50};
    enum token_source source;
    struct prompts p;
    int64_t tokens;

    prompts_init(&p, &w, 1);
    char *a = prompts_text(&p, 0, &tokens, &source);
    prompts_init(&p, &w, 2);
    char *b = prompts_text(&p, 0, &tokens, &source);
    assert_string_not_equal(a, b);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distributions),
        cmocka_unit_test(test_poisson_is_exponential),
        cmocka_unit_test(test_same_seed_same_moments),
        cmocka_unit_test(test_moments_are_pinned),
        cmocka_unit_test(test_duration_bounds),
        cmocka_unit_test(test_ramp),
        cmocka_unit_test(test_exact_length),
        cmocka_unit_test(test_estimated_without_tokenizer),
        cmocka_unit_test(test_prompts_vary),
        cmocka_unit_test(test_seedless_prompts_differ_from_run_to_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
