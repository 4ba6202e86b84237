/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop_lag.h"

#include "base/clock.h"
#include "tests/unit/cmocka-all.h"
#include <event2/event.h>
#include <time.h>

#define HELD_NS (400 * NS_PER_MS)

static void add_timer(struct event_base *base, int64_t delay_ns, event_callback_fn fn, void *arg)
{
    const struct timeval tv = timeval_of(delay_ns);
    assert_int_equal(event_base_once(base, -1, EV_TIMEOUT, fn, arg, &tv), 0);
}

static void do_nothing(evutil_socket_t fd, short what, void *arg)
{
}

static void hold_up(evutil_socket_t fd, short what, void *arg)
{
    const struct timespec held = {.tv_nsec = HELD_NS};
    nanosleep(&held, NULL);
}

/* Not in the same turn, however slow the machine. */
static void hold_up_later(evutil_socket_t fd, short what, void *arg)
{
    add_timer(arg, 10 * NS_PER_MS, hold_up, NULL);
}

static void end(evutil_socket_t fd, short what, void *arg)
{
    event_base_loopbreak(arg);
}

static void test_a_loop_that_is_held_up(void **state)
{
    struct event_base *base = event_base_new();
    struct loop_lag *l;

    assert_int_equal(loop_lag_new(base, &l), 0);
    assert_int_equal(loop_lag_take(l), 0);
    add_timer(base, 0, hold_up_later, base);
    assert_int_equal(loop_lag_dispatch(l), 0);
    assert_in_range(loop_lag_take(l), HELD_NS / 2, INT64_MAX);
    assert_int_equal(loop_lag_take(l), 0);
    loop_lag_free(l);
    event_base_free(base);
}

/* Without anything to do it sets no timer: a loop that has nothing else ends. */
static void test_a_loop_that_waits_is_not_woken(void **state)
{
    struct event_base *base = event_base_new();
    struct loop_lag *l;

    assert_int_equal(loop_lag_new(base, &l), 0);
    add_timer(base, 0, do_nothing, NULL);
    assert_int_equal(loop_lag_dispatch(l), 0);
    assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
    loop_lag_free(l);
    event_base_free(base);
}

static void note_rest(bool at_rest, void *arg)
{
    unsigned *n = arg;
    n[at_rest]++;
}

static void test_a_loop_that_comes_to_rest_is_reported_once(void **state)
{
    struct event_base *base = event_base_new();
    struct loop_lag *l;
    unsigned n[2] = {0};

    assert_int_equal(loop_lag_new(base, &l), 0);
    loop_lag_on_probe(l, note_rest, n);
    add_timer(base, 0, hold_up_later, base); /* beyond the first probe */
    assert_int_equal(loop_lag_dispatch(l), 0);
    assert_int_equal(n[true], 1);
    assert_true(n[false] >= 1);
    loop_lag_free(l);
    event_base_free(base);
}

static void test_it_ends_when_it_is_asked_to(void **state)
{
    struct event_base *base = event_base_new();
    struct loop_lag *l;

    assert_int_equal(loop_lag_new(base, &l), 0);
    add_timer(base, 0, end, base);
    add_timer(base, 3600 * NS_PER_S, do_nothing, NULL);
    assert_int_equal(loop_lag_dispatch(l), 0);
    loop_lag_free(l);
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_loop_that_is_held_up),
        cmocka_unit_test(test_a_loop_that_waits_is_not_woken),
        cmocka_unit_test(test_a_loop_that_comes_to_rest_is_reported_once),
        cmocka_unit_test(test_it_ends_when_it_is_asked_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
