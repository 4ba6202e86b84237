/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that an earlier profd left in the catalog, with workers whose engine this build does not have. */
#include "tests/unit/cmocka-all.h"

#include "daemon/session/sessions.h"
#include "tests/unit/catalog-fixture.h"

static void ignore_session(struct session *s, void *collector)
{
}

static void ignore_target(struct target *t, void *collector)
{
}

static void ignore_end(const struct session *s, void *collector)
{
}

static int64_t no_bytes(const struct target *t, void *collector)
{
    return 0;
}

static const struct collector_ops collector = {.prepare = ignore_session,
                                               .recording = ignore_target,
                                               .collect = ignore_target,
                                               .forget = ignore_target,
                                               .ended = ignore_end,
                                               .bytes_seen = no_bytes};

static int take_target(const struct target_record *r, void *arg)
{
    target_record_copy(arg, r);
    return 0;
}

/* One target in each state that an earlier profd may have left: nobody is called, as there is no caller. */
static void test_engine_is_missing(void **state)
{
    static const enum state states[] = {STATE_REQUESTED, STATE_STARTING, STATE_RECORDING, STATE_STOPPING,
                                        STATE_COLLECTING};
    struct catalog_fixture *fixture = *state;
    const struct fleet_settings fleet_settings = {0};
    const struct session_settings settings = {0};
    struct sessions *sessions;
    int64_t ids[ARRAY_SIZE(states)];

    for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
        struct target_record t;
        ids[i] = add_session(fixture, states[i]);
        target_record_init(&t);
        t.session_id = ids[i];
        t.state = states[i];
        t.worker_url = "http://w:1";
        t.worker = "{\"url\": \"http://w:1\", \"engine\": \"abacus\"}";
        t.profile_id = "p";
        t.stop_pending = states[i] >= STATE_STARTING && states[i] < STATE_COLLECTING;
        assert_int_equal(catalog_add_target(fixture->catalog, &t), 0);
    }
    assert_int_equal(sessions_new(fixture->base, fixture->offload, NULL, NULL, fixture->catalog,
                                  &fleet_settings, &settings, &sessions),
                     0);
    sessions_set_collector(sessions, &collector, NULL);
    assert_int_equal(sessions_recover(sessions), 0);
    for (int i = 0; i < 5; i++)
        run_turn(fixture);
    for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
        struct target_record t;
        assert_int_equal(catalog_each_target(fixture->catalog, ids[i], take_target, &t), 0);
        assert_int_equal(t.state, states[i] == STATE_REQUESTED ? STATE_CANCELLED : STATE_FAILED);
        if (states[i] != STATE_REQUESTED)
            assert_string_equal(t.failure, "profd was built without its engine, abacus");
        assert_false(t.stop_pending);
        target_record_done(&t);
    }
    sessions_free(sessions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_engine_is_missing, fixture_begin_open, fixture_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
