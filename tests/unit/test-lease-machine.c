/* SPDX-License-Identifier: Apache-2.0 */
/* Each cell of the table: what an event does to a lease in each of its states. */
#include "daemon/hosts/lease_machine.h"
#include "tests/unit/cmocka-all.h"

#include <errno.h>

/* A cell as the documentation writes it: the state after it, the reply where it is not OK, the action where there is one. */
struct cell {
    const char *next, *reply, *action;
};

static const char *const replies[] = {"", "conflict", "late", "gone"};
static const char *const actions[] = {"", "create", "schedule", "extend", "stop"};

static const struct {
    enum lease_event event;
    struct cell cells[LEASE_COLLECTING + 1]; /* of the states that are not final */
    const char *final_reply, *final_action;  /* of all that are */
} table[] = {
    {LEASE_ASKED_AGAIN,
     {{"granted"}, {"prepared"}, {"waiting"}, {"recording"}, {"stopping"}, {"collecting"}},
     "gone",
     ""},
    {LEASE_PREPARE,
     {{"prepared", "", "create"},
      {"prepared"},
      {"waiting"},
      {"recording", "conflict"},
      {"stopping", "conflict"},
      {"collecting", "conflict"}},
     "gone",
     ""},
    {LEASE_START,
     {{"granted", "conflict"},
      {"waiting", "", "schedule"},
      {"waiting"},
      {"recording"},
      {"stopping"},
      {"collecting"}},
     "gone",
     ""},
    {LEASE_START_OTHER,
     {{"granted", "conflict"},
      {"waiting", "", "schedule"},
      {"waiting", "conflict"},
      {"recording", "conflict"},
      {"stopping", "conflict"},
      {"collecting", "conflict"}},
     "gone",
     ""},
    {LEASE_START_LATE,
     {{"granted", "conflict"},
      {"prepared", "late"},
      {"waiting", "conflict"},
      {"recording", "conflict"},
      {"stopping", "conflict"},
      {"collecting", "conflict"}},
     "gone",
     ""},
    {LEASE_RENEW,
     {{"granted", "", "extend"},
      {"prepared", "", "extend"},
      {"waiting", "", "extend"},
      {"recording", "", "extend"},
      {"stopping"},
      {"collecting"}},
     "gone",
     ""},
    {LEASE_STOP,
     {{"released"},
      {"released", "", "stop"},
      {"released", "", "stop"},
      {"recording", "", "stop"},
      {"stopping"},
      {"collecting"}},
     "",
     ""},
    {LEASE_TIME_CAME,
     {{"granted"}, {"prepared"}, {"recording"}, {"recording"}, {"stopping"}, {"collecting"}},
     "",
     ""},
    {LEASE_SESSION_STOPS,
     {{"granted"}, {"stopping"}, {"stopping"}, {"stopping"}, {"stopping"}, {"collecting"}},
     "",
     ""},
    {LEASE_SESSION_COLLECTS,
     {{"granted"}, {"collecting"}, {"collecting"}, {"collecting"}, {"collecting"}, {"collecting"}},
     "",
     ""},
    {LEASE_SESSION_ENDED, {{"granted"}, {"over"}, {"over"}, {"over"}, {"over"}, {"over"}}, "", ""},
    {LEASE_DEADLINE,
     {{"expired"},
      {"expired", "", "stop"},
      {"expired", "", "stop"},
      {"recording", "", "stop"},
      {"stopping"},
      {"collecting"}},
     "",
     ""},
    {LEASE_RESTART,
     {{"expired"}, {"expired"}, {"expired"}, {"recording"}, {"stopping"}, {"collecting"}},
     "",
     ""},
    {LEASE_REBOOT,
     {{"expired"}, {"expired"}, {"expired"}, {"recording"}, {"stopping"}, {"collecting"}},
     "",
     ""},
    {LEASE_UNSAVED,
     {{"released"}, {"prepared"}, {"prepared"}, {"recording"}, {"stopping"}, {"collecting"}},
     "",
     ""},
};

static void check(enum lease_state from, enum lease_event event, const char *next, const char *reply,
                  const char *action)
{
    struct lease_effect effect;
    enum lease_state to = lease_next(from, event, &effect);

    assert_string_equal(lease_state_name(to), next);
    assert_string_equal(replies[effect.reply], reply ? reply : "");
    assert_string_equal(actions[effect.action], action ? action : "");
}

static void test_each_cell(void **state)
{
    assert_int_equal(ARRAY_SIZE(table), _LEASE_EVENT_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        assert_int_equal(table[i].event, i);
        for (int from = 0; from < _LEASE_STATE_MAX; from++) {
            const struct cell *cell = &table[i].cells[MIN(from, (int)LEASE_COLLECTING)];
            if (lease_is_final((enum lease_state)from))
                check((enum lease_state)from, table[i].event, lease_state_name((enum lease_state)from),
                      table[i].final_reply, table[i].final_action);
            else
                check((enum lease_state)from, table[i].event, cell->next, cell->reply, cell->action);
        }
    }
}

/* Whatever happens, in whatever order, a lease does not come back from its end, and what records is never just forgotten. */
static void test_no_way_back(void **state)
{
    for (int from = 0; from < _LEASE_STATE_MAX; from++)
        for (int event = 0; event < _LEASE_EVENT_MAX; event++) {
            struct lease_effect effect;
            enum lease_state to = lease_next((enum lease_state)from, (enum lease_event)event, &effect);
            if (lease_is_final((enum lease_state)from))
                assert_int_equal(to, from);
            if (from >= LEASE_RECORDING && from < LEASE_OVER && lease_is_final(to))
                assert_int_equal(event, LEASE_SESSION_ENDED);
            if (event != LEASE_UNSAVED)
                assert_true((int)to >= from);
            if (effect.reply != LEASE_REPLY_OK)
                assert_int_equal(to, from);
        }
}

static void test_follows_its_session(void **state)
{
    static const struct {
        enum lease_state from;
        enum state session;
        bool starts_left;
        enum lease_state to;
    } cases[] = {
        {LEASE_GRANTED, STATE_RECORDING, true, LEASE_GRANTED},
        {LEASE_PREPARED, STATE_REQUESTED, false, LEASE_PREPARED},
        {LEASE_PREPARED, STATE_FAILED, false, LEASE_OVER},
        {LEASE_WAITING, STATE_STARTING, false, LEASE_WAITING},
        {LEASE_WAITING, STATE_STARTING, true, LEASE_RECORDING},
        {LEASE_WAITING, STATE_RECORDING, true, LEASE_RECORDING},
        {LEASE_WAITING, STATE_STOPPING, true, LEASE_STOPPING},
        {LEASE_WAITING, STATE_COLLECTING, true, LEASE_COLLECTING},
        {LEASE_WAITING, STATE_CANCELLED, false, LEASE_OVER},
        {LEASE_RELEASED, STATE_STOPPING, true, LEASE_RELEASED},
        {LEASE_EXPIRED, STATE_CANCELLED, false, LEASE_EXPIRED},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(lease_follow(cases[i].from, cases[i].session, cases[i].starts_left), cases[i].to);
}

static void test_words(void **state)
{
    for (int s = 0; s < _LEASE_STATE_MAX; s++) {
        int stored = lease_state_from_stored(lease_state_stored((enum lease_state)s));
        assert_int_equal(stored, s > LEASE_WAITING && s < LEASE_OVER ? LEASE_WAITING : s);
    }
    assert_int_equal(lease_state_from_stored("collected"), -1);
    assert_int_equal(lease_state_from_stored(NULL), -1);
}

static void test_problems(void **state)
{
    static const struct {
        enum lease_reply reply;
        enum problem_kind kind;
    } cases[] = {
        {LEASE_REPLY_OK, PROBLEM_NONE},
        {LEASE_REPLY_LATE, PROBLEM_CONFLICT},
        {LEASE_REPLY_CONFLICT, PROBLEM_CONFLICT},
        {LEASE_REPLY_GONE, PROBLEM_GONE},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct problem p = {0};
        lease_problem(cases[i].reply, LEASE_GRANTED, LEASE_START, &p);
        assert_int_equal(p.kind, cases[i].kind);
        problem_done(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_cell),
        cmocka_unit_test(test_no_way_back),
        cmocka_unit_test(test_follows_its_session),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_problems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
