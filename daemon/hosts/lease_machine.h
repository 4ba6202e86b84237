/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a lease at the host that grants it, as a table: a coordinator on another host holds workers of this one for
 * a while, and may start and stop them.
 *
 *   granted -> prepared -> waiting -> recording -> stopping -> collecting -> over
 *
 * The first three may also become released (the coordinator gave its workers back) or expired (the deadline passed, or
 * profd or its host was restarted). From recording on the session of this host has the say: it sends its own stops and
 * ends by itself, whatever becomes of the coordinator.
 *
 * Pure: nothing here reads a clock, the catalog or a session.
 */
#pragma once

#include "base/problem.h"
#include "proto/names.h"

/* In the order of life; everything from LEASE_OVER on is final. */
enum lease_state {
    LEASE_GRANTED,   /* it holds its workers, of which nothing was asked yet */
    LEASE_PREPARED,  /* its session is getting ready, or is ready */
    LEASE_WAITING,   /* the start time is known and has not come */
    LEASE_RECORDING, /* the starts have left */
    LEASE_STOPPING,
    LEASE_COLLECTING,
    LEASE_OVER,
    LEASE_RELEASED,
    LEASE_EXPIRED,
    _LEASE_STATE_MAX,
};

enum lease_event {
    /* Of the coordinator: */
    LEASE_ASKED_AGAIN, /* its session asks for a lease again */
    LEASE_PREPARE,
    LEASE_START,       /* with the time that is known already, or the first one */
    LEASE_START_OTHER, /* with another time than the known one */
    LEASE_START_LATE,  /* the first one, which has passed */
    LEASE_RENEW,
    LEASE_STOP, /* release is the same */
    /* Of this host: */
    LEASE_TIME_CAME, /* the starts have left */
    LEASE_SESSION_STOPS,
    LEASE_SESSION_COLLECTS,
    LEASE_SESSION_ENDED,
    LEASE_DEADLINE,
    LEASE_RESTART, /* profd was restarted */
    LEASE_REBOOT,  /* its host was */
    LEASE_UNSAVED, /* the catalog did not take the state */
    _LEASE_EVENT_MAX,
};

enum lease_reply {
    LEASE_REPLY_OK,
    LEASE_REPLY_CONFLICT, /* 409: not in this state */
    LEASE_REPLY_LATE,     /* 409: the start time has passed */
    LEASE_REPLY_GONE,     /* 410 */
};

enum lease_action {
    LEASE_DO_NOTHING,
    LEASE_DO_CREATE,   /* the session of this host */
    LEASE_DO_SCHEDULE, /* its starts, for the start time */
    LEASE_DO_EXTEND,   /* the deadline moves */
    LEASE_DO_STOP,     /* the session: before its starts have left, nothing starts any more */
};

struct lease_effect {
    enum lease_reply reply;
    enum lease_action action;
};

/* The state after an event, and what is to be done and answered. */
enum lease_state lease_next(enum lease_state state, enum lease_event event, struct lease_effect *ret);
/* The state of a lease that has a session, from its own one and that session's. */
enum lease_state lease_follow(enum lease_state state, enum state session, bool starts_left);

static inline bool lease_is_final(enum lease_state s)
{
    return s >= LEASE_OVER;
}

/* As coordinators see it, and as the catalog keeps it: there, waiting to collecting is "started". */
const char *lease_state_name(enum lease_state s);
const char *lease_state_stored(enum lease_state s);
/* LEASE_WAITING for "started"; -1 for an unknown word. */
int lease_state_from_stored(const char *word);
/* A problem for a reply other than LEASE_REPLY_OK. */
void lease_problem(enum lease_reply reply, enum lease_state state, enum lease_event event, struct problem *p);
