/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session/machine.h"

#define TO(s) (1u << (s))

static const unsigned edges[_STATE_MAX] = {
    [STATE_REQUESTED] = TO(STATE_STARTING) | TO(STATE_FAILED) | TO(STATE_CANCELLED),
    /* To stopping without recording: a start that timed out owes a stop, and so does a rolled back one. */
    [STATE_STARTING] = TO(STATE_RECORDING) | TO(STATE_STOPPING) | TO(STATE_FAILED) | TO(STATE_CANCELLED),
    [STATE_RECORDING] = TO(STATE_STOPPING) | TO(STATE_FAILED),
    [STATE_STOPPING] = TO(STATE_COLLECTING) | TO(STATE_COMPLETE) | TO(STATE_FAILED) | TO(STATE_CANCELLED),
    [STATE_COLLECTING] = TO(STATE_COMPLETE) | TO(STATE_PARTIAL) | TO(STATE_FAILED) | TO(STATE_CANCELLED),
};

bool edge_exists(enum state from, enum state to)
{
    return edges[from] & TO(to);
}

enum state outcome_of(const enum state *targets, size_t n)
{
    size_t count[_STATE_MAX] = {0};

    for (size_t i = 0; i < n; i++)
        count[targets[i]]++;
    if (n > 0 && count[STATE_COMPLETE] == n)
        return STATE_COMPLETE;
    if (count[STATE_COMPLETE] + count[STATE_PARTIAL] > 0)
        return STATE_PARTIAL;
    return count[STATE_CANCELLED] == n ? STATE_CANCELLED : STATE_FAILED;
}
