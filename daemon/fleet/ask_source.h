/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks one source who its workers are: page after page over HTTP on the loop, or on a thread of the offload.
 *
 * The fleet that comes has URLs as listed (normalised), nobody in it was called. Pages, their bytes and the time for
 * all of them are bounded.
 */
#pragma once

#include "base/offload.h"
#include "base/problem.h"
#include "daemon/fleet/call.h"
#include "daemon/fleet/source.h"

struct source_question {
    const struct source_config *config;
    int64_t connect_timeout_ns, timeout_ns; /* of each call */
    size_t workers_max;
};

struct source_ask;
/* Copies q and its configuration. done() comes once and later: with a fleet that it owns, or with NULL and the problem
 * (borrowed). */
struct source_ask *source_ask_start(struct event_base *base, struct caller *caller, struct offload *offload,
                                    const struct source_question *q,
                                    void (*done)(struct fleet *f, const struct problem *p, void *arg),
                                    void *arg);
/* Without done(). NULL is nothing. */
void source_ask_cancel(struct source_ask *a);
