/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part is what of a session is done by one other host. Its life at the coordinator, as two tables: what follows from
 * an event for the part, and what follows for one target from what its host reported. Pure; parts.c acts on it.
 *
 *   asking -> leased -> preparing -> armed -> starting -> recording -> stopping -> delivering -> delivered
 *                                                                             or: refused, lost
 */
#pragma once

#include "proto/names.h"

enum part_state {
    PART_ASKING,     /* for its lease */
    PART_LEASED,     /* waits for the other hosts, or for a workload that warms up */
    PART_PREPARING,  /* the host prepares its own session */
    PART_ARMED,      /* the host's session waits for the start time */
    PART_STARTING,   /* the start time was sent */
    PART_RECORDING,  /* the host reported that a target records */
    PART_STOPPING,   /* no target records any more, or a stop was sent to all of them */
    PART_DELIVERING, /* stops were answered: what its traces become */
    PART_DELIVERED,  /* final: the host's session is over, and all rows were taken */
    PART_REFUSED,    /* final: the host gave no lease */
    PART_LOST,       /* final: the host has no such lease any more */
    _PART_STATE_MAX,
};

enum part_event {
    PART_OK,      /* the call of this step was accepted */
    PART_BUSY,    /* 409: somebody else holds a worker */
    PART_DENIED,  /* any other error status */
    PART_OVERDUE, /* what the part waits for has not come in time: an answer, or progress at its host */
    PART_RECORDS, /* the host reported that a target records */
    PART_STOPPED, /* all targets of the part are stopped */
    PART_OVER,    /* the host's session is over, and its rows were taken */
    PART_GONE,    /* 410, or an answer of another catalog */
    PART_STOP,    /* the coordinator ends it: a user, require_all, a limit */
    PART_RESTART, /* profd was restarted in this state */
    _PART_EVENT_MAX,
};

/* What is to be done; several at once. */
enum part_effect {
    PART_ARRIVE = 1 << 0,       /* count the part as arrived at its step */
    PART_FAIL_TARGETS = 1 << 1, /* its unstarted targets fail with the text of the answer */
    PART_SETTLE = 1 << 2,    /* its started targets fail: whether they record is not known, or not any more */
    PART_SEND_STOP = 1 << 3, /* send a stop of all its targets */
    PART_RELEASE = 1 << 4,   /* give the lease back */
    PART_POLL = 1 << 5,      /* ask the host for changes, until it is over */
    PART_COLLECT = 1 << 6,   /* its targets end as the host reported */
    PART_LEAVE_PARTIAL = 1 << 7, /* its targets end as partial: the host delivers later */
    PART_CLOSE = 1 << 8,         /* nothing is expected of this host any more */
};

const char *part_state_name(enum part_state s);
/* -1: none. */
int part_state_from_name(const char *word);
static inline bool part_is_final(enum part_state s)
{
    return s >= PART_DELIVERED;
}
/* *ret_effects is a set of enum part_effect. An event that means nothing in a state changes nothing. */
enum part_state part_next(enum part_state state, enum part_event event, unsigned *ret_effects);

/* What follows for a target; in the words of daemon/session/remote.h. */
enum target_effect {
    TARGET_NOTHING,
    TARGET_RECORDS,      /* its start was accepted: target_peer_recording() */
    TARGET_UNCERTAIN,    /* its start failed, and it may record: target_peer_failed() */
    TARGET_FAILS,        /* it does not record: target_peer_failed() */
    TARGET_ENDS,         /* its stop was answered, or never will be: target_peer_stopped() */
    TARGET_IS_DELIVERED, /* its traces are known: target_collected() */
};
/* mine: its state at the coordinator; reported: that at its host; has_failed: a failure was reported with it. One step:
 * asked again with the state that the step led to, the next one. */
enum target_effect part_target_next(enum state mine, enum state reported, bool has_failed);
