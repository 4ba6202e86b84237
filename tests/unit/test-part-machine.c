/* SPDX-License-Identifier: Apache-2.0 */
/* A part's life at the coordinator: each cell of the tables, and when a refused coordinator asks again. */
#include "base/clock.h"
#include "daemon/hosts/lease_round.h"
#include "daemon/hosts/part_machine.h"
#include "tests/unit/cmocka-all.h"

/* What is expected of each event in each state, written by state. */
static const struct {
    enum part_state state;
    enum part_event event;
    enum part_state next;
    unsigned effects;
} cells[] = {
    {PART_ASKING, PART_OK, PART_LEASED, PART_ARRIVE},
    {PART_ASKING, PART_BUSY, PART_REFUSED, PART_ARRIVE | PART_CLOSE},
    {PART_ASKING, PART_DENIED, PART_REFUSED, PART_ARRIVE | PART_CLOSE},
    /* The host may have granted what it could not answer. */
    {PART_ASKING, PART_OVERDUE, PART_REFUSED, PART_ARRIVE | PART_RELEASE | PART_CLOSE},
    {PART_ASKING, PART_GONE, PART_REFUSED, PART_ARRIVE | PART_CLOSE},
    {PART_ASKING, PART_STOP, PART_REFUSED, PART_RELEASE | PART_CLOSE},
    {PART_ASKING, PART_RESTART, PART_REFUSED, PART_RELEASE | PART_CLOSE},

    {PART_LEASED, PART_OK, PART_PREPARING, PART_POLL},
    {PART_LEASED, PART_BUSY, PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_RELEASE | PART_CLOSE},
    {PART_LEASED, PART_DENIED, PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_RELEASE | PART_CLOSE},
    {PART_LEASED, PART_OVERDUE, PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_RELEASE | PART_CLOSE},
    {PART_LEASED, PART_OVER, PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_CLOSE},
    {PART_LEASED, PART_GONE, PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_CLOSE},
    {PART_LEASED, PART_STOP, PART_REFUSED, PART_RELEASE | PART_CLOSE},
    {PART_LEASED, PART_RESTART, PART_REFUSED, PART_RELEASE | PART_CLOSE},

    {PART_PREPARING, PART_OK, PART_ARMED, PART_ARRIVE},
    {PART_PREPARING, PART_BUSY, PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_RELEASE | PART_CLOSE},
    {PART_PREPARING, PART_DENIED, PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_RELEASE | PART_CLOSE},
    {PART_PREPARING, PART_OVERDUE, PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_RELEASE | PART_CLOSE},
    {PART_PREPARING, PART_OVER, PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_CLOSE},
    {PART_PREPARING, PART_GONE, PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_CLOSE},
    {PART_PREPARING, PART_STOP, PART_REFUSED, PART_RELEASE | PART_CLOSE},
    {PART_PREPARING, PART_RESTART, PART_REFUSED, PART_RELEASE | PART_CLOSE},

    {PART_ARMED, PART_OK, PART_STARTING, PART_ARRIVE | PART_POLL},
    {PART_ARMED, PART_BUSY, PART_STOPPING, PART_SETTLE | PART_ARRIVE | PART_SEND_STOP | PART_POLL},
    {PART_ARMED, PART_DENIED, PART_STOPPING, PART_SETTLE | PART_ARRIVE | PART_SEND_STOP | PART_POLL},
    {PART_ARMED, PART_OVERDUE, PART_STOPPING, PART_SETTLE | PART_ARRIVE | PART_SEND_STOP | PART_POLL},
    /* The answer to the start was lost; the poll shows that it arrived. */
    {PART_ARMED, PART_RECORDS, PART_RECORDING, PART_ARRIVE},
    {PART_ARMED, PART_OVER, PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_CLOSE},
    {PART_ARMED, PART_GONE, PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_CLOSE},
    {PART_ARMED, PART_STOP, PART_REFUSED, PART_RELEASE | PART_CLOSE},
    {PART_ARMED, PART_RESTART, PART_STOPPING, PART_SEND_STOP | PART_POLL},

    {PART_STARTING, PART_DENIED, PART_STOPPING, PART_SETTLE | PART_SEND_STOP | PART_POLL},
    {PART_STARTING, PART_OVERDUE, PART_STOPPING, PART_SETTLE | PART_SEND_STOP | PART_POLL},
    {PART_STARTING, PART_RECORDS, PART_RECORDING, PART_POLL},
    {PART_STARTING, PART_STOPPED, PART_DELIVERING, PART_POLL},
    {PART_STARTING, PART_OVER, PART_DELIVERED, PART_SETTLE | PART_COLLECT | PART_CLOSE},
    {PART_STARTING, PART_GONE, PART_LOST, PART_SETTLE | PART_COLLECT | PART_CLOSE},
    {PART_STARTING, PART_STOP, PART_STOPPING, PART_SEND_STOP | PART_POLL},
    {PART_STARTING, PART_RESTART, PART_STOPPING, PART_SEND_STOP | PART_POLL},

    {PART_RECORDING, PART_OVERDUE, PART_DELIVERING, PART_LEAVE_PARTIAL},
    {PART_RECORDING, PART_STOPPED, PART_DELIVERING, PART_POLL},
    {PART_RECORDING, PART_OVER, PART_DELIVERED, PART_COLLECT | PART_CLOSE},
    {PART_RECORDING, PART_GONE, PART_LOST, PART_COLLECT | PART_CLOSE},
    {PART_RECORDING, PART_STOP, PART_STOPPING, PART_SEND_STOP | PART_POLL},
    {PART_RECORDING, PART_RESTART, PART_RECORDING, PART_POLL},

    {PART_STOPPING, PART_OVERDUE, PART_DELIVERING, PART_LEAVE_PARTIAL},
    {PART_STOPPING, PART_STOPPED, PART_DELIVERING, PART_POLL},
    {PART_STOPPING, PART_OVER, PART_DELIVERED, PART_COLLECT | PART_CLOSE},
    {PART_STOPPING, PART_GONE, PART_LOST, PART_COLLECT | PART_CLOSE},
    {PART_STOPPING, PART_RESTART, PART_STOPPING, PART_SEND_STOP | PART_POLL},

    {PART_DELIVERING, PART_DENIED, PART_LOST, PART_COLLECT | PART_CLOSE},
    {PART_DELIVERING, PART_OVERDUE, PART_DELIVERING, PART_LEAVE_PARTIAL},
    {PART_DELIVERING, PART_OVER, PART_DELIVERED, PART_COLLECT | PART_CLOSE},
    {PART_DELIVERING, PART_GONE, PART_LOST, PART_COLLECT | PART_CLOSE},
    {PART_DELIVERING, PART_RESTART, PART_DELIVERING, PART_POLL},
};

static void test_each_cell(void **state)
{
    for (int s = 0; s < _PART_STATE_MAX; s++)
        for (int e = 0; e < _PART_EVENT_MAX; e++) {
            enum part_state expected = (enum part_state)s;
            unsigned wanted = 0, effects = ~0u;
            for (size_t i = 0; i < sizeof(cells) / sizeof(*cells); i++)
                if ((int)cells[i].state == s && (int)cells[i].event == e) {
                    expected = cells[i].next;
                    wanted = cells[i].effects;
                }
            assert_int_equal(part_next((enum part_state)s, (enum part_event)e, &effects), expected);
            assert_int_equal(effects, wanted);
        }
}

static void test_ends(void **state)
{
    unsigned effects;

    for (int s = 0; s < _PART_STATE_MAX; s++)
        for (int e = 0; e < _PART_EVENT_MAX; e++) {
            enum part_state next = part_next((enum part_state)s, (enum part_event)e, &effects);
            /* A final state stays, and only entering one ends the row. */
            if (part_is_final((enum part_state)s))
                assert_int_equal(next, s);
            assert_int_equal(!part_is_final((enum part_state)s) && part_is_final(next),
                             (effects & PART_CLOSE) != 0);
            /* Nothing that may record is closed without a word about its traces. */
            if ((effects & PART_CLOSE) && s >= PART_STARTING)
                assert_true(effects & PART_COLLECT);
        }
}

static void test_names(void **state)
{
    for (int s = 0; s < _PART_STATE_MAX; s++)
        assert_int_equal(part_state_from_name(part_state_name((enum part_state)s)), s);
    assert_int_equal(part_state_from_name("gone"), -1);
    assert_int_equal(part_state_from_name(NULL), -1);
}

static void test_targets(void **state)
{
    static const struct {
        enum state mine, reported;
        bool has_failed;
        enum target_effect effect;
    } cases[] = {
        {STATE_REQUESTED, STATE_STARTING, false, TARGET_NOTHING},
        {STATE_REQUESTED, STATE_FAILED, true, TARGET_FAILS},
        {STATE_STARTING, STATE_REQUESTED, false, TARGET_NOTHING},
        {STATE_STARTING, STATE_STARTING, false, TARGET_NOTHING},
        {STATE_STARTING, STATE_RECORDING, false, TARGET_RECORDS},
        {STATE_STARTING, STATE_FAILED, true, TARGET_FAILS},
        {STATE_STARTING, STATE_CANCELLED, false, TARGET_FAILS},
        /* The host was cut off from the start to the end; or its start was not answered. */
        {STATE_STARTING, STATE_STOPPING, false, TARGET_RECORDS},
        {STATE_STARTING, STATE_STOPPING, true, TARGET_UNCERTAIN},
        {STATE_STARTING, STATE_COMPLETE, false, TARGET_RECORDS},
        {STATE_STARTING, STATE_PARTIAL, true, TARGET_UNCERTAIN},
        {STATE_RECORDING, STATE_RECORDING, false, TARGET_NOTHING},
        /* A trace may take half an hour to write: it is over when the host says so. */
        {STATE_RECORDING, STATE_STOPPING, false, TARGET_NOTHING},
        {STATE_RECORDING, STATE_COLLECTING, false, TARGET_ENDS},
        {STATE_RECORDING, STATE_FAILED, true, TARGET_ENDS},
        {STATE_STOPPING, STATE_RECORDING, false, TARGET_NOTHING},
        {STATE_STOPPING, STATE_STOPPING, true, TARGET_NOTHING},
        {STATE_STOPPING, STATE_COLLECTING, false, TARGET_ENDS},
        {STATE_STOPPING, STATE_PARTIAL, true, TARGET_ENDS},
        {STATE_COLLECTING, STATE_COLLECTING, false, TARGET_NOTHING},
        {STATE_COLLECTING, STATE_COMPLETE, false, TARGET_IS_DELIVERED},
        {STATE_COLLECTING, STATE_FAILED, true, TARGET_IS_DELIVERED},
        {STATE_COMPLETE, STATE_FAILED, true, TARGET_NOTHING},
        {STATE_FAILED, STATE_COMPLETE, false, TARGET_NOTHING},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(part_target_next(cases[i].mine, cases[i].reported, cases[i].has_failed),
                         cases[i].effect);
}

static void test_rounds(void **state)
{
    struct lease_round smaller = {0}, larger = {0};
    const char *a = "00000000-0000-4000-8000-000000000001", *b = "00000000-0000-4000-8000-000000000002";

    /* The one with the smaller UUID is through before the other one asks again. */
    assert_int_equal(lease_round_next(&smaller, a, b, false, UINT32_MAX), 200 * NS_PER_MS);
    assert_int_equal(lease_round_next(&larger, b, a, false, 0), NS_PER_S);
    assert_int_equal(lease_round_next(&smaller, a, b, false, 0), 200 * NS_PER_MS);
    assert_int_equal(lease_round_next(&larger, b, a, false, 0), 2 * NS_PER_S);
    assert_true(lease_round_next(&smaller, a, b, false, 0) < 0);
    assert_true(lease_round_next(&larger, b, NULL, false, 0) < 0);
    /* In a queue without end, at most a minute apart. */
    struct lease_round queued = {0};
    int64_t pause = 0;
    for (int i = 0; i < 100; i++) {
        int64_t next = lease_round_next(&queued, b, a, true, 0);
        assert_true(next >= pause);
        pause = next;
    }
    assert_int_equal(pause, 5 * NS_PER_S);
    assert_int_equal(lease_round_next(&queued, b, a, true, UINT32_MAX), 10 * NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_cell), cmocka_unit_test(test_ends),   cmocka_unit_test(test_names),
        cmocka_unit_test(test_targets),   cmocka_unit_test(test_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
