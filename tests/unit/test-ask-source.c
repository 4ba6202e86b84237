/* SPDX-License-Identifier: Apache-2.0 */
/* Which look-ups wait for each other: a source that does not answer holds a thread. */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/ask_source.h"
#include "tests/unit/cmocka-all.h"
#include "tests/unit/patience.h"
#include <poll.h>
#include <stdatomic.h>

#define N_THREADS 4
#define WAIT_NS   (10 * NS_PER_S)
#define QUIET_NS  (50 * NS_PER_MS)

/* Threads that look up now, and the most at once. */
static atomic_int n_looking, n_looking_max;

static int slow_look(const struct source_config *c, size_t max, struct fleet *f,
                     char why[static SOURCE_WHY_MAX])
{
    int n = ++n_looking;

    if (n > n_looking_max)
        n_looking_max = n;
    /* One that is asked for has time to meet another one; one of profd.conf waits for it. */
    const int64_t deadline = mono_ns() + (c->asked ? QUIET_NS : patience_ns(WAIT_NS) / 2);
    while (n_looking_max < 2 && mono_ns() < deadline)
        poll(NULL, 0, 1);
    n_looking--;
    return 0;
}

static const struct fleet_source slow = {.key = "slow", .look = slow_look};

static void on_done(struct fleet *f, const struct problem *p, void *arg)
{
    (*(int *)arg)++;
}

/* The most look-ups at once of N_THREADS different values. */
static int looks_at_once(bool asked)
{
    struct event_base *base = event_base_new();
    struct offload *offload;
    int n_done = 0;

    assert_int_equal(offload_new(base, N_THREADS, &offload), 0);
    n_looking_max = 0;
    for (int i = 0; i < N_THREADS; i++) {
        struct source_config c = {.source = &slow, .value = xasprintf("name-%d", i), .asked = asked};
        const struct source_question q = {.config = &c, .workers_max = 1};
        source_ask_start(base, NULL, offload, &q, on_done, &n_done);
        free(c.value);
    }
    const int64_t deadline = mono_ns() + patience_ns(WAIT_NS);
    while (n_done < N_THREADS) {
        assert_true(mono_ns() < deadline);
        event_base_loop(base, EVLOOP_NONBLOCK);
        poll(NULL, 0, 1);
    }
    offload_free(offload);
    event_base_free(base);
    return n_looking_max;
}

/* Names of requests can be any: they must not hold all threads. */
static void test_asked(void **state)
{
    assert_int_equal(looks_at_once(true), 1);
}

/* Those of profd.conf are few, and one must not wait for another. */
static void test_configured(void **state)
{
    assert_true(looks_at_once(false) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asked),
        cmocka_unit_test(test_configured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
