/* SPDX-License-Identifier: Apache-2.0 */
/* A start that is refused at once, and whose requester leaves before he hears of it. */
#include "base/clock.h"
#include "daemon/session/sessions.h"
#include "tests/unit/cmocka-all.h"
#include <event2/event.h>

struct fixture {
    struct event_base *base;
    struct sessions *sessions;
    struct session_settings settings;
    unsigned n_answers;
};

static void ignore(void *arg)
{
    (void)arg;
}

/* One that is stopping refuses every start. */
static int setup(void **state)
{
    static struct fixture fixture;

    fixture = (struct fixture){.base = event_base_new()};
    assert_int_equal(
        sessions_new(fixture.base, NULL, NULL, NULL, NULL, NULL, &fixture.settings, &fixture.sessions), 0);
    jobs_shutdown(sessions_jobs(fixture.sessions), mono_ns() + NS_PER_S, ignore, NULL);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    sessions_free(fixture->sessions);
    event_base_free(fixture->base);
    return 0;
}

static void count(const struct job_created *created, void *arg)
{
    struct fixture *fixture = arg;

    assert_int_equal(created->id, 0);
    fixture->n_answers++;
}

static struct job_creation *create_session(struct fixture *fixture)
{
    struct job_request request = {0};
    json_t *options = json_object();
    struct job_creation *o =
        job_create(sessions_jobs(fixture->sessions), &request, options, "somebody", count, fixture);

    json_decref(options);
    assert_int_equal(fixture->n_answers, 0);
    return o;
}

static void test_refused_in_the_next_turn(void **state)
{
    struct fixture *fixture = *state;

    create_session(fixture);
    event_base_loop(fixture->base, EVLOOP_NONBLOCK);
    assert_int_equal(fixture->n_answers, 1);
}

static void test_who_left_is_not_notified(void **state)
{
    struct fixture *fixture = *state;

    job_creation_cancel(create_session(fixture));
    event_base_loop(fixture->base, EVLOOP_NONBLOCK);
    assert_int_equal(fixture->n_answers, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refused_in_the_next_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_left_is_not_notified, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
