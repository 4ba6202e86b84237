/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/hosts/part_machine.h"

#include "base/util.h"

static const char *const part_state_names[_PART_STATE_MAX] = {
    [PART_ASKING] = "asking",       [PART_LEASED] = "leased",
    [PART_PREPARING] = "preparing", [PART_ARMED] = "armed",
    [PART_STARTING] = "starting",   [PART_RECORDING] = "recording",
    [PART_STOPPING] = "stopping",   [PART_DELIVERING] = "delivering",
    [PART_DELIVERED] = "delivered", [PART_REFUSED] = "refused",
    [PART_LOST] = "lost",
};

const char *part_state_name(enum part_state s)
{
    return part_state_names[s];
}

int part_state_from_name(const char *word)
{
    for (int s = 0; s < _PART_STATE_MAX; s++)
        if (word && streq(word, part_state_names[s]))
            return s;
    return -1;
}

struct part_cell {
    enum part_state next;
    unsigned effects; /* 0: the cell is empty, and the state stays */
};

#define RELEASE_AND_CLOSE (PART_RELEASE | PART_CLOSE)
#define STOP_AND_POLL     (PART_SEND_STOP | PART_POLL)

/* One row for each event; a cell that is absent changes nothing. */
static const struct part_cell cells[_PART_EVENT_MAX][_PART_STATE_MAX] =
    {
        [PART_OK] =
            {
                [PART_ASKING] = {PART_LEASED, PART_ARRIVE},
                [PART_LEASED] = {PART_PREPARING, PART_POLL},
                [PART_PREPARING] = {PART_ARMED, PART_ARRIVE},
                [PART_ARMED] = {PART_STARTING, PART_ARRIVE | PART_POLL},
            },
        [PART_BUSY] =
            {
                [PART_ASKING] = {PART_REFUSED, PART_ARRIVE | PART_CLOSE},
                /* The host's session started, or ends, without the start of this coordinator. */
                [PART_LEASED] = {PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | RELEASE_AND_CLOSE},
                [PART_PREPARING] = {PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | RELEASE_AND_CLOSE},
                [PART_ARMED] = {PART_STOPPING, PART_SETTLE | PART_ARRIVE | STOP_AND_POLL},
            },
        [PART_DENIED] =
            {
                [PART_ASKING] = {PART_REFUSED, PART_ARRIVE | PART_CLOSE},
                [PART_LEASED] = {PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | RELEASE_AND_CLOSE},
                [PART_PREPARING] = {PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | RELEASE_AND_CLOSE},
                [PART_ARMED] = {PART_STOPPING, PART_SETTLE | PART_ARRIVE | STOP_AND_POLL},
                [PART_STARTING] = {PART_STOPPING, PART_SETTLE | STOP_AND_POLL},
                [PART_DELIVERING] = {PART_LOST, PART_COLLECT | PART_CLOSE},
            },
        [PART_OVERDUE] =
            {
                [PART_ASKING] = {PART_REFUSED, PART_ARRIVE | RELEASE_AND_CLOSE},
                [PART_LEASED] = {PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | RELEASE_AND_CLOSE},
                [PART_PREPARING] = {PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | RELEASE_AND_CLOSE},
                /* The start may have arrived although its answer did not. */
                [PART_ARMED] = {PART_STOPPING, PART_SETTLE | PART_ARRIVE | STOP_AND_POLL},
                [PART_STARTING] = {PART_STOPPING, PART_SETTLE | STOP_AND_POLL},
                /* One of its stops; those of its other targets would wait for it. */
                [PART_RECORDING] = {PART_DELIVERING, PART_LEAVE_PARTIAL},
                [PART_STOPPING] = {PART_DELIVERING, PART_LEAVE_PARTIAL},
                [PART_DELIVERING] = {PART_DELIVERING, PART_LEAVE_PARTIAL},
            },
        [PART_RECORDS] =
            {
                [PART_ARMED] = {PART_RECORDING, PART_ARRIVE},
                [PART_STARTING] = {PART_RECORDING, PART_POLL},
            },
        [PART_STOPPED] =
            {
                [PART_STARTING] = {PART_DELIVERING, PART_POLL},
                [PART_RECORDING] = {PART_DELIVERING, PART_POLL},
                [PART_STOPPING] = {PART_DELIVERING, PART_POLL},
            },
        [PART_OVER] =
            {
                [PART_LEASED] = {PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_CLOSE},
                [PART_PREPARING] = {PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_CLOSE},
                [PART_ARMED] = {PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_CLOSE},
                [PART_STARTING] = {PART_DELIVERED, PART_SETTLE | PART_COLLECT | PART_CLOSE},
                [PART_RECORDING] = {PART_DELIVERED, PART_COLLECT | PART_CLOSE},
                [PART_STOPPING] = {PART_DELIVERED, PART_COLLECT | PART_CLOSE},
                [PART_DELIVERING] = {PART_DELIVERED, PART_COLLECT | PART_CLOSE},
            },
        [PART_GONE] =
            {
                [PART_ASKING] = {PART_REFUSED, PART_ARRIVE | PART_CLOSE},
                [PART_LEASED] = {PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_CLOSE},
                [PART_PREPARING] = {PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_CLOSE},
                [PART_ARMED] = {PART_LOST, PART_FAIL_TARGETS | PART_ARRIVE | PART_CLOSE},
                [PART_STARTING] = {PART_LOST, PART_SETTLE | PART_COLLECT | PART_CLOSE},
                [PART_RECORDING] = {PART_LOST, PART_COLLECT | PART_CLOSE},
                [PART_STOPPING] = {PART_LOST, PART_COLLECT | PART_CLOSE},
                [PART_DELIVERING] = {PART_LOST, PART_COLLECT | PART_CLOSE},
            },
        [PART_STOP] =
            {
                [PART_ASKING] = {PART_REFUSED, RELEASE_AND_CLOSE},
                [PART_LEASED] = {PART_REFUSED, RELEASE_AND_CLOSE},
                [PART_PREPARING] = {PART_REFUSED, RELEASE_AND_CLOSE},
                [PART_ARMED] = {PART_REFUSED, RELEASE_AND_CLOSE},
                [PART_STARTING] = {PART_STOPPING, STOP_AND_POLL},
                [PART_RECORDING] = {PART_STOPPING, STOP_AND_POLL},
            },
        [PART_RESTART] =
            {
                [PART_ASKING] = {PART_REFUSED, RELEASE_AND_CLOSE},
                [PART_LEASED] = {PART_REFUSED, RELEASE_AND_CLOSE},
                [PART_PREPARING] = {PART_REFUSED, RELEASE_AND_CLOSE},
                /* Whether the start time was sent is not known: it is saved before it is sent. */
                [PART_ARMED] = {PART_STOPPING, STOP_AND_POLL},
                [PART_STARTING] = {PART_STOPPING, STOP_AND_POLL},
                [PART_RECORDING] = {PART_RECORDING, PART_POLL},
                [PART_STOPPING] = {PART_STOPPING, STOP_AND_POLL},
                [PART_DELIVERING] = {PART_DELIVERING, PART_POLL},
            },
};

enum part_state part_next(enum part_state state, enum part_event event, unsigned *ret_effects)
{
    const struct part_cell *cell = &cells[event][state];

    *ret_effects = cell->effects;
    return cell->effects ? cell->next : state;
}

/* -- Targets -- */

static enum target_effect target_starting_next(enum state reported, bool has_failed)
{
    switch (reported) {
    case STATE_REQUESTED:
    case STATE_STARTING:
        return TARGET_NOTHING;
    case STATE_FAILED:
    case STATE_CANCELLED:
        return TARGET_FAILS;
    case STATE_RECORDING:
        return TARGET_RECORDS;
    default: /* the host stops it, or has: because it ended by itself, or because nobody knows whether it started */
        return has_failed ? TARGET_UNCERTAIN : TARGET_RECORDS;
    }
}

enum target_effect part_target_next(enum state mine, enum state reported, bool has_failed)
{
    switch (mine) {
    case STATE_REQUESTED:
        return reported == STATE_FAILED ? TARGET_FAILS : TARGET_NOTHING;
    case STATE_STARTING:
        return target_starting_next(reported, has_failed);
    case STATE_RECORDING:
    case STATE_STOPPING:
        return reported > STATE_STOPPING ? TARGET_ENDS : TARGET_NOTHING;
    case STATE_COLLECTING:
        return state_is_final(reported) ? TARGET_IS_DELIVERED : TARGET_NOTHING;
    default:
        return TARGET_NOTHING;
    }
}
