/* SPDX-License-Identifier: Apache-2.0 */
#include "base/offload.h"
#include "tests/unit/cmocka-all.h"
#include <stdlib.h>
#include <time.h>

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
    offload_drain(o);
    struct job jobs[5] = {{o, 3}, {o, 0}, {o, 7}, {o, 1}, {o, 0}};
    for (size_t i = 0; i < 5; i++)
        offload_run(o, work, done, &jobs[i]);
    offload_drain(o);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_done_runs_on_the_loop),
        cmocka_unit_test(test_drain_waits_for_what_jobs_add),
        cmocka_unit_test(test_free_runs_what_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
