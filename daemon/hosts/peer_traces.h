/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces that other hosts keep, for a profd that did not coordinate their session: all peers are asked at once which traces of a
 * session they store, or what a UUID stands for, and what they answer becomes rows of remote traces. Each host speaks for itself:
 * what a peer lists of a third one is not taken, and a row is changed only by the host that it is of (hosts.c of the catalog).
 *
 * Bounded in time, number and size, and asked once in PEER_TRACES_AGE_NS. Sends nothing but requests that a token of role peer may
 * make, and starts or stops nothing. Owns its questions; who waits for one owns the waiter.
 */
#pragma once

#include "base/clock.h"
#include "base/json.h"
#include <stdbool.h>

/* For this time the last answers count. */
#define PEER_TRACES_AGE_NS (5 * NS_PER_S)

struct catalog;
struct event_base;
struct peers;
struct peer_traces;
struct peer_waiter;

/* What the last question found in addition to rows. */
struct peer_traces_asked {
    const json_t
        *missing; /* [{host, host_uuid?, reason, remedy?}]: who did not answer, of those that may have some */
    const json_t
        *elsewhere; /* [{kind, uuid, host}]: sessions and runs of other hosts that the word stands for */
};

/* Borrows all arguments. */
struct peer_traces *peer_traces_new(struct event_base *base, struct peers *peers, struct catalog *catalog);
/* Questions end without done(). */
struct peer_traces *peer_traces_free(struct peer_traces *t);
/* Whether peers were asked in the last PEER_TRACES_AGE_NS. word: the UUID of a session of this catalog, else a UUID that it does
 * not have, or the beginning of one. Borrowed until the next iteration. */
bool peer_traces_were_asked(const struct peer_traces *t, const char *word, bool is_session,
                            struct peer_traces_asked *ret);
/* done() comes later, once, after the rows are on disk. Who asks the same joins the question. NULL: too many are open. */
struct peer_waiter *peer_traces_ask(struct peer_traces *t, const char *word, bool is_session,
                                    void (*done)(void *arg), void *arg);
/* Without done(). */
void peer_waiter_cancel(struct peer_waiter *w);
