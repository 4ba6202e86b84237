/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes one after the other what the catalog keeps for later (daemon/catalog/background.h), the oldest first. A result that
 * failed for a reason that may pass (no space, a child that was killed) is tried again, after delays that grow; a row stays
 * until its result is saved, whatever happens to profd. Knows neither traces nor files.
 */
#pragma once

#include "daemon/catalog/background.h"
#include <event2/event.h>

struct background;

struct background_ops {
    enum background_kind kind;
    const char *what; /* for the log, before the id: "sums of trace t" */
    /* Begins to compute: background_end() follows, later. -ENOENT: nothing is to be computed. Another negative errno value: it is
     * tried again. */
    int (*begin)(int64_t id, void *arg);
};

/* Borrows all arguments; begins at the next iteration of the loop. */
struct background *background_new(struct event_base *base, struct catalog *catalog,
                                  const struct background_ops *ops, void *arg);
/* The result was written in this batch (0), or there is none and never will be (-ENOENT), or it failed: for limits that the next
 * try is likely to exceed as well with -E2BIG. `why` is for the log. Never within begin(). */
void background_end(struct background *b, int err, const char *why);
/* There may be more to compute. */
void background_wake(struct background *b);
/* Nothing is begun from here on. */
void background_close(struct background *b);
struct background *background_free(struct background *b);
