/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session/internal.h"
#include "tests/unit/cmocka-all.h"

static void test_life_runs_forward(void **state)
{
    assert_true(transition_exists(STATE_REQUESTED, STATE_STARTING));
    assert_true(transition_exists(STATE_STARTING, STATE_RECORDING));
    assert_true(transition_exists(STATE_RECORDING, STATE_STOPPING));
    assert_true(transition_exists(STATE_STOPPING, STATE_COLLECTING));
    assert_true(transition_exists(STATE_COLLECTING, STATE_PARTIAL));
    /* A start that timed out owes a stop. */
    assert_true(transition_exists(STATE_STARTING, STATE_STOPPING));
    /* What records is never given up without a stop. */
    assert_false(transition_exists(STATE_RECORDING, STATE_CANCELLED));
    assert_false(transition_exists(STATE_RECORDING, STATE_COMPLETE));
    for (int from = 0; from < _STATE_MAX; from++)
        for (int to = 0; to < _STATE_MAX; to++)
            if (state_is_final((enum state)from) || to <= from)
                assert_false(transition_exists((enum state)from, (enum state)to));
}

static void test_outcomes(void **state)
{
    static const struct {
        enum state targets[3];
        enum state outcome;
    } cases[] = {
        {{STATE_COMPLETE, STATE_COMPLETE, STATE_COMPLETE}, STATE_COMPLETE},
        {{STATE_COMPLETE, STATE_FAILED, STATE_COMPLETE}, STATE_PARTIAL},
        {{STATE_FAILED, STATE_PARTIAL, STATE_FAILED}, STATE_PARTIAL},
        {{STATE_FAILED, STATE_FAILED, STATE_FAILED}, STATE_FAILED},
        {{STATE_CANCELLED, STATE_CANCELLED, STATE_CANCELLED}, STATE_CANCELLED},
        {{STATE_CANCELLED, STATE_FAILED, STATE_CANCELLED}, STATE_FAILED},
        {{STATE_COMPLETE, STATE_CANCELLED, STATE_CANCELLED}, STATE_PARTIAL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(session_outcome(cases[i].targets, 3), cases[i].outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life_runs_forward),
        cmocka_unit_test(test_outcomes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
