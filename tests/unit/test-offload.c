/* SPDX-License-Identifier: Apache-2.0 */
#include "base/offload.h"

#include "base/clock.h"
#include "tests/unit/cmocka-all.h"
#include "tests/unit/patience.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS (60 * NS_PER_S)

struct job {
    struct offload *offload;
    int works_left; /* done() runs it again so often */
    int n_works, n_dones;
};

static void work(void *arg)
{
    const struct timespec moment = {.tv_nsec = 2000000};
    nanosleep(&moment, NULL);
    ((struct job *)arg)->n_works++;
}

static void done(void *arg)
{
    struct job *job = arg;
    job->n_dones++;
    if (job->works_left-- > 0)
        offload_run(job->offload, work, done, job);
}

static void test_done_runs_on_the_loop(void **state)
{
    struct event_base *base = event_base_new();
    struct job jobs[20] = {0};
    struct offload *o;

    assert_int_equal(offload_new(base, 2, &o), 0);
    for (size_t i = 0; i < 20; i++)
        offload_run(o, work, done, &jobs[i]);
    for (size_t i = 0; i < 20; i++)
        while (jobs[i].n_dones == 0)
            event_base_loop(base, EVLOOP_ONCE);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(jobs[i].n_works, 1);
        assert_int_equal(jobs[i].n_dones, 1);
    }
    assert_null(offload_free(o));
    event_base_free(base);
}

static void test_drain_waits_for_what_jobs_add(void **state)
{
    struct event_base *base = event_base_new();
    struct offload *o;

    assert_int_equal(offload_new(base, 2, &o), 0);
    assert_int_equal(offload_drain(o, DEADLINE_NEVER), 0);
    struct job jobs[5] = {{o, 3}, {o, 0}, {o, 7}, {o, 1}, {o, 0}};
    for (size_t i = 0; i < 5; i++)
        offload_run(o, work, done, &jobs[i]);
    assert_int_equal(offload_drain(o, DEADLINE_NEVER), 0);
    static const int expected[5] = {4, 1, 8, 2, 1};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(jobs[i].n_works, expected[i]);
        assert_int_equal(jobs[i].n_dones, expected[i]);
    }
    assert_null(offload_free(o));
    event_base_free(base);
}

static void test_free_runs_what_waits(void **state)
{
    struct event_base *base = event_base_new();
    struct job jobs[5] = {0};
    struct offload *o;

    assert_int_equal(offload_new(base, 1, &o), 0);
    for (size_t i = 0; i < 5; i++)
        offload_run(o, work, done, &jobs[i]);
    assert_null(offload_free(o));
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(jobs[i].n_dones, 1);
    event_base_free(base);
}

/* Jobs that hang, until the test lets them go. */
struct hanging {
    int go[2]; /* a pipe: each byte lets one of them go */
    int n_begun, n_running, n_at_once, n_dones;
};

static void hang(void *arg)
{
    struct hanging *h = arg;
    char byte;

    int n = __atomic_add_fetch(&h->n_running, 1, __ATOMIC_SEQ_CST);
    if (n > h->n_at_once)
        h->n_at_once = n;
    __atomic_add_fetch(&h->n_begun, 1, __ATOMIC_SEQ_CST);
    while (read(h->go[0], &byte, 1) != 1)
        ;
    __atomic_sub_fetch(&h->n_running, 1, __ATOMIC_SEQ_CST);
}

static void hung_done(void *arg)
{
    ((struct hanging *)arg)->n_dones++;
}

static void let_go(struct hanging *h, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(write(h->go[1], "x", 1), 1);
}

static void run_until(struct event_base *base, const int *count, int wanted)
{
    int64_t deadline = mono_ns() + patience_ns(PATIENCE_NS);

    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < wanted) {
        event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        assert_true(mono_ns() < deadline);
    }
}

static void test_threads_that_are_held_are_replaced(void **state)
{
    struct event_base *base = event_base_new();
    struct hanging h = {0};
    struct job job = {0};
    struct offload *o;

    assert_int_equal(pipe(h.go), 0);
    assert_int_equal(offload_new(base, 2, &o), 0);
    for (int i = 0; i < 5; i++)
        offload_run(o, hang, hung_done, &h);
    offload_run(o, work, done, &job);
    run_until(base, &job.n_dones, 1);
    assert_int_equal(h.n_begun, 5);
    assert_int_equal(h.n_dones, 0);
    let_go(&h, 5);
    run_until(base, &h.n_dones, 5);
    /* Those that were too many are gone; as many as wanted are left. */
    offload_run(o, work, done, &job);
    run_until(base, &job.n_dones, 2);
    assert_null(offload_free(o));
    event_base_free(base);
}

static void test_a_queue_holds_one_thread(void **state)
{
    struct event_base *base = event_base_new();
    struct hanging h = {0};
    struct job jobs[3] = {0};
    struct offload *o;

    assert_int_equal(pipe(h.go), 0);
    assert_int_equal(offload_new(base, 2, &o), 0);
    for (int i = 0; i < 2 * OFFLOAD_THREADS_MAX; i++)
        offload_run_in(o, 7, hang, hung_done, &h);
    for (int i = 0; i < 3; i++)
        offload_run_in(o, 8 + (uint64_t)i / 2, work, done, &jobs[i]);
    for (int i = 0; i < 3; i++)
        run_until(base, &jobs[i].n_dones, 1);
    assert_int_equal(h.n_begun, 1);
    let_go(&h, 2 * OFFLOAD_THREADS_MAX);
    run_until(base, &h.n_dones, 2 * OFFLOAD_THREADS_MAX);
    assert_int_equal(h.n_at_once, 1);
    assert_null(offload_free(o));
    event_base_free(base);
}

static void test_drain_gives_up(void **state)
{
    struct event_base *base = event_base_new();
    struct hanging h = {0};
    struct job job = {0};
    struct offload *o;

    assert_int_equal(pipe(h.go), 0);
    assert_int_equal(offload_new(base, 1, &o), 0);
    offload_run_in(o, 7, hang, hung_done, &h);
    offload_run_in(o, 7, hang, hung_done, &h);
    offload_run(o, work, done, &job);
    assert_int_equal(offload_drain(o, mono_ns() + 2 * NS_PER_S), -ETIMEDOUT);
    assert_int_equal(job.n_dones, 1);
    assert_int_equal(h.n_dones, 0);
    let_go(&h, 2);
    assert_int_equal(offload_drain(o, DEADLINE_NEVER), 0);
    assert_int_equal(h.n_dones, 2);
    assert_null(offload_free(o));
    event_base_free(base);
}

#define MANY 200

struct crowd {
    int n_dones, n_before; /* the timer */
};

static void do_nothing(void *arg)
{
}

static void take_a_moment(void *arg)
{
    const struct timespec moment = {.tv_nsec = NS_PER_MS};
    nanosleep(&moment, NULL);
    ((struct crowd *)arg)->n_dones++;
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    struct crowd *crowd = arg;
    crowd->n_before = crowd->n_dones;
}

/* What has a time does not wait behind all that threads have done. */
static void test_a_turn_of_the_loop_is_bounded(void **state)
{
    const struct timeval soon = timeval_of(20 * NS_PER_MS), at_last = timeval_of(patience_ns(PATIENCE_NS));
    struct event_base *base = event_base_new();
    struct crowd crowd = {0};
    struct offload *o;

    assert_int_equal(offload_new(base, 2, &o), 0);
    for (int i = 0; i < MANY; i++)
        offload_run(o, do_nothing, take_a_moment, &crowd);
    event_base_once(base, -1, EV_TIMEOUT, on_time, &crowd, &soon);
    event_base_loopexit(base, &at_last);
    while (crowd.n_dones < MANY)
        event_base_loop(base, EVLOOP_ONCE);
    assert_in_range(crowd.n_before, 1, MANY / 2);
    assert_null(offload_free(o));
    event_base_free(base);
}

static void test_queues(void **state)
{
    assert_int_not_equal(offload_queue_of_device(0), OFFLOAD_NO_QUEUE);
    assert_int_not_equal(offload_queue_of_device(1), offload_queue_of_device(2));
    assert_int_not_equal(offload_queue_of_dir("/a"), offload_queue_of_dir("/b"));
    assert_int_equal(offload_queue_of_dir("/a"), offload_queue_of_file("/a/file"));
    assert_int_not_equal(offload_queue_of_file("/a"), OFFLOAD_NO_QUEUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_done_runs_on_the_loop),
        cmocka_unit_test(test_drain_waits_for_what_jobs_add),
        cmocka_unit_test(test_free_runs_what_waits),
        cmocka_unit_test(test_threads_that_are_held_are_replaced),
        cmocka_unit_test(test_a_queue_holds_one_thread),
        cmocka_unit_test(test_drain_gives_up),
        cmocka_unit_test(test_a_turn_of_the_loop_is_bounded),
        cmocka_unit_test(test_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
