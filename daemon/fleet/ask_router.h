/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks one router who its workers are, in one dialect or in all of them until one answers.
 *
 * The fleet that comes has URLs as listed (normalised), nobody in it was called.
 */
#pragma once

#include "base/problem.h"
#include "daemon/fleet/call.h"
#include "daemon/fleet/router.h"

struct router_question {
    const char *url;                            /* normalised */
    const struct router_dialect *dialect;       /* NULL: all */
    const struct call_credentials *credentials; /* NULL: none */
    int64_t connect_timeout_ns, timeout_ns;     /* of each call */
    struct router_bounds bounds;
};

struct router_ask;
/* Copies q, borrows its credentials until done(), which comes once and later: with a fleet that it owns, or
 * with NULL and the problem (borrowed). */
struct router_ask *router_ask_start(struct caller *caller, const struct router_question *q,
                                    void (*done)(struct fleet *f, const struct problem *p, void *arg),
                                    void *arg);
void router_ask_cancel(struct router_ask *a);
