/* SPDX-License-Identifier: Apache-2.0 */
/* A start that is refused at once, and whose requester leaves before he hears of it. */
#include "base/clock.h"
#include "daemon/session/sessions.h"
#include "tests/unit/cmocka-all.h"
#include <event2/event.h>

struct room {
    struct event_base *base;
    struct sessions *sessions;
    struct session_settings settings;
    unsigned n_told;
};

static void ignore(void *arg)
{
    (void)arg;
}

/* One that is stopping refuses every start. */
static int setup(void **state)
{
    static struct room room;

    room = (struct room){.base = event_base_new()};
    assert_int_equal(sessions_new(room.base, NULL, NULL, NULL, NULL, NULL, &room.settings, &room.sessions),
                     0);
    sessions_shutdown(room.sessions, mono_ns() + NS_PER_S, ignore, NULL);
    *state = &room;
    return 0;
}

static int teardown(void **state)
{
    struct room *room = *state;

    sessions_free(room->sessions);
    event_base_free(room->base);
    return 0;
}

static void count(const struct session_started *started, void *arg)
{
    struct room *room = arg;

    assert_int_equal(started->session_id, 0);
    room->n_told++;
}

static struct session_order *order(struct room *room)
{
    struct start_request request = {0};
    json_t *options = json_object();
    struct session_order *o = sessions_start(room->sessions, &request, options, "somebody", count, room);

    json_decref(options);
    assert_int_equal(room->n_told, 0);
    return o;
}

static void test_refused_in_the_next_turn(void **state)
{
    struct room *room = *state;

    order(room);
    event_base_loop(room->base, EVLOOP_NONBLOCK);
    assert_int_equal(room->n_told, 1);
}

static void test_who_left_is_not_told(void **state)
{
    struct room *room = *state;

    session_order_cancel(order(room));
    event_base_loop(room->base, EVLOOP_NONBLOCK);
    assert_int_equal(room->n_told, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refused_in_the_next_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_left_is_not_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
