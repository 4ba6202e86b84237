/* SPDX-License-Identifier: Apache-2.0 */
/* What is odd about a worker, by traces of its figures: when it has to be reported, and when it must not. */
#include "daemon/fleet/odd.h"
#include "tests/unit/cmocka-all.h"
#include <math.h>

#define STEP_NS  (2 * NS_PER_S)
#define BEGIN_NS (100 * NS_PER_S)
#define BEGIN_AT (INT64_C(1700000000) * NS_PER_S)
#define WORKERS  4
#define MINUTE   30 /* samples */

static const struct odd_sample quiet = {.waiting = 0, .kv_use = 0.5, .ttft_s = NAN};

static void see(struct odd_history *h, int i, struct odd_sample sample)
{
    sample.at_ns = BEGIN_NS + i * STEP_NS;
    sample.at = BEGIN_AT + i * STEP_NS;
    odd_see(h, &sample);
}

static void see_waiting(struct odd_history *h, int i, double waiting)
{
    struct odd_sample s = quiet;
    s.waiting = waiting;
    see(h, i, s);
}

static int64_t at(int i)
{
    return BEGIN_AT + i * STEP_NS;
}

static bool has(const struct odd_history *h, enum odd_kind kind)
{
    return h->since_at[kind] > 0;
}

/* Number of facts. */
static size_t count(const struct odd_history *h)
{
    json_t *list = json_array();
    odd_add_json(h, "http://w", "why", "what to do", list);
    size_t n = json_array_size(list);
    json_decref(list);
    return n;
}

static void test_quiet(void **state)
{
    struct odd_history h = {0};

    for (int i = 0; i < 100; i++)
        see(&h, i, quiet);
    assert_int_equal(count(&h), 0);
}

static void test_down(void **state)
{
    struct odd_history h = {0};
    struct odd_sample down = {
        .down = true, .unprofilable = true, .waiting = NAN, .kv_use = NAN, .ttft_s = NAN};

    see(&h, 0, quiet);
    see(&h, 1, down);
    see(&h, 2, down);
    assert_int_equal(h.since_at[ODD_DOWN], at(1));
    /* That it cannot be profiled either is no fact of its own. */
    assert_int_equal(count(&h), 1);
    see(&h, 3, quiet);
    assert_int_equal(count(&h), 0);
    see(&h, 4, down);
    assert_int_equal(h.since_at[ODD_DOWN], at(4));
}

static void test_unprofilable(void **state)
{
    struct odd_history h = {0};
    struct odd_sample s = quiet;
    _cleanup_json_ list = json_array();

    s.unprofilable = true;
    see(&h, 0, s);
    see(&h, 1, s);
    odd_add_json(&h, "http://w", "launched without a profiler", "Launch it with one.", list);
    const json_t *fact = json_array_get(list, 0);
    assert_string_equal(json_get_str(fact, "worker"), "http://w");
    assert_string_equal(json_get_str(fact, "kind"), "unprofilable");
    assert_string_equal(json_get_str(fact, "what"), "cannot be profiled: launched without a profiler");
    assert_string_equal(json_get_str(fact, "remedy"), "Launch it with one.");
    assert_int_equal(json_get_int(fact, "since_at", 0), at(0));
}

static void test_kv_full(void **state)
{
    struct odd_history h = {0};
    struct odd_sample s = quiet;

    s.kv_use = ODD_KV_USE;
    see(&h, 0, s);
    assert_false(has(&h, ODD_KV));
    s.kv_use = 0.97;
    see(&h, 1, s);
    see(&h, 2, s);
    assert_int_equal(h.since_at[ODD_KV], at(1));
    s.kv_use = NAN;
    see(&h, 3, s);
    assert_false(has(&h, ODD_KV));
}

/* One more request each 2 s is reported after a minute, not before, and no longer after it has stopped. */
static void test_waiting_grows(void **state)
{
    struct odd_history h = {0};
    int i;

    for (i = 0; i < MINUTE; i++) {
        see_waiting(&h, i, i);
        assert_false(has(&h, ODD_WAITING));
    }
    see_waiting(&h, i, i);
    assert_int_equal(h.since_at[ODD_WAITING], at(0));
    for (i++; i < 2 * MINUTE; i++)
        see_waiting(&h, i, i);
    assert_int_equal(h.since_at[ODD_WAITING], at(0));
    for (; i < 3 * MINUTE; i++)
        see_waiting(&h, i, 2 * MINUTE);
    assert_false(has(&h, ODD_WAITING));
}

/* Growth with noise counts, noise without growth does not. */
static void test_waiting_is_noisy(void **state)
{
    struct odd_history grows = {0}, stays = {0};

    for (int i = 0; i <= MINUTE; i++) {
        double noise = i * 7 % 5;
        see_waiting(&grows, i, i + noise);
        see_waiting(&stays, i, 40 + noise);
    }
    assert_true(has(&grows, ODD_WAITING));
    assert_false(has(&stays, ODD_WAITING));
}

static void test_waiting_grows_too_little(void **state)
{
    struct odd_history h = {0};

    for (int i = 0; i <= 2 * MINUTE; i++)
        see_waiting(&h, i, 3 + i * 0.01);
    assert_false(has(&h, ODD_WAITING));
}

/* A minute without figures, or the end of the worker, begins anew. */
static void test_waiting_is_unknown(void **state)
{
    struct odd_history h = {0};
    int i;

    for (i = 0; i < MINUTE - 5; i++)
        see_waiting(&h, i, i);
    see_waiting(&h, i, NAN);
    for (i++; i < 2 * MINUTE - 5; i++)
        see_waiting(&h, i, i);
    assert_false(has(&h, ODD_WAITING));
    h = (struct odd_history){0};
    for (i = 0; i < MINUTE - 5; i++)
        see_waiting(&h, i, i);
    for (i += MINUTE; i < 2 * MINUTE + 20; i++)
        see_waiting(&h, i, i);
    assert_false(has(&h, ODD_WAITING));
}

/* -- Comparing workers ---------------------------------------------------------------------------------- */

struct bench {
    struct odd_history workers[WORKERS], *all[WORKERS];
};

static void bench_init(struct bench *b, enum role last_role)
{
    *b = (struct bench){0};
    for (int w = 0; w < WORKERS; w++) {
        b->all[w] = &b->workers[w];
        b->workers[w].role = w < WORKERS - 1 ? ROLE_DECODE : last_role;
    }
}

/* The last worker has its own TTFT, the others 100 ms. */
static void bench_see(struct bench *b, int i, double last_s)
{
    for (int w = 0; w < WORKERS; w++) {
        struct odd_sample s = quiet;
        s.ttft_s = w < WORKERS - 1 ? 0.1 : last_s;
        see(&b->workers[w], i, s);
    }
    odd_compare(b->all, WORKERS, BEGIN_NS + i * STEP_NS);
}

static void test_ttft_high(void **state)
{
    struct bench b;
    _cleanup_json_ list = json_array();

    bench_init(&b, ROLE_DECODE);
    for (int i = 0; i < ODD_TTFT_SAMPLES - 1; i++)
        bench_see(&b, i, 0.3);
    assert_false(has(b.all[3], ODD_TTFT));
    bench_see(&b, 2, 0.3);
    assert_true(has(b.all[3], ODD_TTFT));
    assert_false(has(b.all[0], ODD_TTFT));
    odd_add_json(b.all[3], "http://w3", NULL, NULL, list);
    assert_string_equal(json_get_str(json_array_get(list, 0), "what"),
                        "time to first token is 300 ms, the median of its role 100 ms");
    /* No request at all for a moment changes nothing. */
    bench_see(&b, 3, NAN);
    assert_true(has(b.all[3], ODD_TTFT));
    bench_see(&b, 4, 0.1);
    assert_false(has(b.all[3], ODD_TTFT));
}

static void test_ttft_of_another_role(void **state)
{
    struct bench b;

    bench_init(&b, ROLE_PREFILL);
    for (int i = 0; i < 10; i++)
        bench_see(&b, i, 3);
    assert_false(has(b.all[3], ODD_TTFT));
}

static void test_ttft_once(void **state)
{
    struct bench b;

    bench_init(&b, ROLE_DECODE);
    for (int i = 0; i < 20; i++) {
        bench_see(&b, i, i % 3 == 0 ? 0.1 : 0.9);
        assert_false(has(b.all[3], ODD_TTFT));
    }
}

/* Twice the median is not above it; an old figure is no figure. */
static void test_ttft_at_the_threshold(void **state)
{
    struct bench b;

    bench_init(&b, ROLE_DECODE);
    for (int i = 0; i < 10; i++)
        bench_see(&b, i, 0.2);
    assert_false(has(b.all[3], ODD_TTFT));
    bench_init(&b, ROLE_DECODE);
    for (int i = 0; i < 5; i++)
        bench_see(&b, i, 0.9);
    assert_true(has(b.all[3], ODD_TTFT));
    for (int i = 5; i < 20; i++)
        bench_see(&b, i, NAN);
    assert_false(has(b.all[3], ODD_TTFT));
}

/* Figures of a worker are what it writes. */
static void test_absurd_figures(void **state)
{
    struct odd_history h = {0};

    for (int i = 0; i < 3 * MINUTE; i++) {
        struct odd_sample s = {.waiting = i % 2 ? 1e308 : -1e308, .kv_use = 1e308, .ttft_s = 1e308};
        see(&h, i, s);
        count(&h);
    }
    assert_true(has(&h, ODD_KV));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quiet),
        cmocka_unit_test(test_down),
        cmocka_unit_test(test_unprofilable),
        cmocka_unit_test(test_kv_full),
        cmocka_unit_test(test_waiting_grows),
        cmocka_unit_test(test_waiting_is_noisy),
        cmocka_unit_test(test_waiting_grows_too_little),
        cmocka_unit_test(test_waiting_is_unknown),
        cmocka_unit_test(test_ttft_high),
        cmocka_unit_test(test_ttft_of_another_role),
        cmocka_unit_test(test_ttft_once),
        cmocka_unit_test(test_ttft_at_the_threshold),
        cmocka_unit_test(test_absurd_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
