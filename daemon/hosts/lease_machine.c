/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/hosts/lease_machine.h"

#include <errno.h>

struct lease_rule {
    enum lease_state next;
    struct lease_effect effect;
};

#define RULE(next, reply, action)                                                                            \
    {                                                                                                        \
        LEASE_##next,                                                                                        \
        {                                                                                                    \
            LEASE_REPLY_##reply, LEASE_DO_##action                                                           \
        }                                                                                                    \
    }

#define SAME(state)     RULE(state, OK, NOTHING)
#define CONFLICT(state) RULE(state, CONFLICT, NOTHING)
#define GONE(state)     RULE(state, GONE, NOTHING)

/* What all final states have in common: a number is never used again, and a repeated stop is answered. */
#define FINAL(state)                                                                                         \
    [LEASE_ASKED_AGAIN] = GONE(state), [LEASE_PREPARE] = GONE(state), [LEASE_START] = GONE(state),           \
    [LEASE_START_OTHER] = GONE(state), [LEASE_START_LATE] = GONE(state), [LEASE_RENEW] = GONE(state),        \
    [LEASE_STOP] = SAME(state), [LEASE_TIME_CAME] = SAME(state), [LEASE_SESSION_STOPS] = SAME(state),        \
    [LEASE_SESSION_COLLECTS] = SAME(state), [LEASE_SESSION_ENDED] = SAME(state),                             \
    [LEASE_DEADLINE] = SAME(state), [LEASE_RESTART] = SAME(state), [LEASE_REBOOT] = SAME(state),             \
    [LEASE_UNSAVED] = SAME(state)

/* What a session does by itself, once its starts have left: a restart of profd changes nothing about it. */
#define STARTED(state)                                                                                       \
    [LEASE_ASKED_AGAIN] = SAME(state), [LEASE_PREPARE] = CONFLICT(state), [LEASE_START] = SAME(state),       \
    [LEASE_START_OTHER] = CONFLICT(state), [LEASE_START_LATE] = CONFLICT(state),                             \
    [LEASE_TIME_CAME] = SAME(state), [LEASE_SESSION_COLLECTS] = RULE(COLLECTING, OK, NOTHING),               \
    [LEASE_SESSION_ENDED] = RULE(OVER, OK, NOTHING), [LEASE_RESTART] = SAME(state),                          \
    [LEASE_REBOOT] = SAME(state), [LEASE_UNSAVED] = SAME(state)

static const struct lease_rule rules[_LEASE_STATE_MAX][_LEASE_EVENT_MAX] =
    {
        [LEASE_GRANTED] =
            {
                [LEASE_ASKED_AGAIN] = SAME(GRANTED),
                [LEASE_PREPARE] = RULE(PREPARED, OK, CREATE),
                [LEASE_START] = CONFLICT(GRANTED),
                [LEASE_START_OTHER] = CONFLICT(GRANTED),
                [LEASE_START_LATE] = CONFLICT(GRANTED),
                [LEASE_RENEW] = RULE(GRANTED, OK, EXTEND),
                [LEASE_STOP] = SAME(RELEASED),
                /* It has no session, and so nothing that starts, stops or ends. */
                [LEASE_TIME_CAME] = SAME(GRANTED),
                [LEASE_SESSION_STOPS] = SAME(GRANTED),
                [LEASE_SESSION_COLLECTS] = SAME(GRANTED),
                [LEASE_SESSION_ENDED] = SAME(GRANTED),
                [LEASE_DEADLINE] = SAME(EXPIRED),
                [LEASE_RESTART] = SAME(EXPIRED),
                [LEASE_REBOOT] = SAME(EXPIRED),
                [LEASE_UNSAVED] = SAME(RELEASED),
            },
        [LEASE_PREPARED] =
            {
                [LEASE_ASKED_AGAIN] = SAME(PREPARED),
                [LEASE_PREPARE] = SAME(PREPARED),
                [LEASE_START] = RULE(WAITING, OK, SCHEDULE),
                [LEASE_START_OTHER] = RULE(WAITING, OK, SCHEDULE),
                [LEASE_START_LATE] = RULE(PREPARED, LATE, NOTHING),
                [LEASE_RENEW] = RULE(PREPARED, OK, EXTEND),
                [LEASE_STOP] = RULE(RELEASED, OK, STOP),
                [LEASE_TIME_CAME] = SAME(PREPARED),
                [LEASE_SESSION_STOPS] = SAME(STOPPING),
                [LEASE_SESSION_COLLECTS] = SAME(COLLECTING),
                [LEASE_SESSION_ENDED] = SAME(OVER),
                [LEASE_DEADLINE] = RULE(EXPIRED, OK, STOP),
                [LEASE_RESTART] = SAME(EXPIRED),
                [LEASE_REBOOT] = SAME(EXPIRED),
                [LEASE_UNSAVED] = SAME(PREPARED),
            },
        [LEASE_WAITING] =
            {
                [LEASE_ASKED_AGAIN] = SAME(WAITING),
                [LEASE_PREPARE] = SAME(WAITING),
                [LEASE_START] = SAME(WAITING),
                [LEASE_START_OTHER] = CONFLICT(WAITING),
                [LEASE_START_LATE] = CONFLICT(WAITING),
                [LEASE_RENEW] = RULE(WAITING, OK, EXTEND),
                [LEASE_STOP] = RULE(RELEASED, OK, STOP),
                [LEASE_TIME_CAME] = SAME(RECORDING),
                [LEASE_SESSION_STOPS] = SAME(STOPPING),
                [LEASE_SESSION_COLLECTS] = SAME(COLLECTING),
                [LEASE_SESSION_ENDED] = SAME(OVER),
                [LEASE_DEADLINE] = RULE(EXPIRED, OK, STOP),
                [LEASE_RESTART] = SAME(EXPIRED),
                [LEASE_REBOOT] = SAME(EXPIRED),
                /* The start time was not promised: the coordinator may send it again. */
                [LEASE_UNSAVED] = SAME(PREPARED),
            },
        [LEASE_RECORDING] =
            {
                STARTED(RECORDING),
                [LEASE_SESSION_STOPS] = SAME(STOPPING),
                [LEASE_RENEW] = RULE(RECORDING, OK, EXTEND),
                [LEASE_STOP] = RULE(RECORDING, OK, STOP),
                [LEASE_DEADLINE] = RULE(RECORDING, OK, STOP),
            },
        [LEASE_STOPPING] =
            {
                STARTED(STOPPING), [LEASE_SESSION_STOPS] = SAME(STOPPING), [LEASE_RENEW] = SAME(STOPPING),
                [LEASE_STOP] = SAME(STOPPING),
                [LEASE_DEADLINE] = SAME(STOPPING), /* stops have deadlines of their own */
            },
        [LEASE_COLLECTING] =
            {
                STARTED(COLLECTING),
                [LEASE_RENEW] = SAME(COLLECTING),
                [LEASE_STOP] = SAME(COLLECTING),
                [LEASE_DEADLINE] = SAME(COLLECTING),
                [LEASE_SESSION_STOPS] = SAME(COLLECTING),
            },
        [LEASE_OVER] = {FINAL(OVER)},
        [LEASE_RELEASED] = {FINAL(RELEASED)},
        [LEASE_EXPIRED] = {FINAL(EXPIRED)},
};

enum lease_state lease_next(enum lease_state state, enum lease_event event, struct lease_effect *ret)
{
    const struct lease_rule *rule = &rules[state][event];

    if (ret)
        *ret = rule->effect;
    return rule->next;
}

enum lease_state lease_follow(enum lease_state state, enum state session, bool starts_left)
{
    if (lease_is_final(state) || state == LEASE_GRANTED)
        return state;
    if (state_is_final(session))
        return lease_next(state, LEASE_SESSION_ENDED, NULL);
    if (session == STATE_COLLECTING)
        return lease_next(state, LEASE_SESSION_COLLECTS, NULL);
    if (session == STATE_STOPPING)
        return lease_next(state, LEASE_SESSION_STOPS, NULL);
    return starts_left || session == STATE_RECORDING ? lease_next(state, LEASE_TIME_CAME, NULL) : state;
}

/* -- Words ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *stored;
} lease_words[_LEASE_STATE_MAX] = {
    [LEASE_GRANTED] = {"granted", "granted"},
    [LEASE_PREPARED] = {"prepared", "prepared"},
    [LEASE_WAITING] = {"waiting", "started"},
    [LEASE_RECORDING] = {"recording", "started"},
    [LEASE_STOPPING] = {"stopping", "started"},
    [LEASE_COLLECTING] = {"collecting", "started"},
    [LEASE_OVER] = {"over", "over"},
    [LEASE_RELEASED] = {"released", "released"},
    [LEASE_EXPIRED] = {"expired", "expired"},
};

const char *lease_state_name(enum lease_state s)
{
    return lease_words[s].name;
}

const char *lease_state_stored(enum lease_state s)
{
    return lease_words[s].stored;
}

int lease_state_from_stored(const char *word)
{
    for (int i = 0; i < _LEASE_STATE_MAX; i++)
        if (streq(lease_words[i].stored, word))
            return i;
    return -1;
}

static const char *const lease_verbs[_LEASE_EVENT_MAX] = {
    [LEASE_ASKED_AGAIN] = "granted again",
    [LEASE_PREPARE] = "prepared",
    [LEASE_START] = "started",
    [LEASE_START_OTHER] = "started at another time",
    [LEASE_START_LATE] = "started",
    [LEASE_RENEW] = "renewed",
};

void lease_problem(enum lease_reply reply, enum lease_state state, enum lease_event event, struct problem *p)
{
    const char *name = lease_state_name(state), *verb = lease_verbs[event];

    switch (reply) {
    case LEASE_REPLY_OK:
        break;
    case LEASE_REPLY_CONFLICT:
        if (state == LEASE_GRANTED)
            problem_set(p, -EINVAL, PROBLEM_CONFLICT, "the lease is not prepared, it cannot be %s", verb);
        else
            problem_set(p, -EINVAL, PROBLEM_CONFLICT, "the lease is %s, it cannot be %s", name, verb);
        break;
    case LEASE_REPLY_LATE:
        problem_set(p, -EINVAL, PROBLEM_CONFLICT, "late: the start time has passed; nothing was started");
        problem_remedy(p, "Choose a later time, and measure the clock of the host again.");
        break;
    case LEASE_REPLY_GONE:
        problem_set(p, -ESTALE, PROBLEM_GONE, "the lease is %s", name);
        problem_remedy(p, "Ask for another one.");
        break;
    }
}
