/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How late the event loop is: by how much a timer fires too late that runs while the loop has anything to do.
 *
 * A turn of the loop sets it where it is not set, and it stays as long as there are turns beside its own. So
 * a loop that waits is not woken, and a turn that follows a long wait is the one whose length is not seen.
 */
#pragma once

#include "base/util.h"
#include <stdint.h>

struct event_base;
struct loop_lag;

int loop_lag_new(struct event_base *base, struct loop_lag **ret);
struct loop_lag *loop_lag_free(struct loop_lag *l);
DEFINE_CLEANUP(struct loop_lag *, loop_lag_free)

/* Runs the loop until event_base_loopbreak(), in the place of event_base_dispatch(). */
int loop_lag_dispatch(struct loop_lag *l);
/* For what can wait until there is time: while the loop has anything to do from time to time, and once when
 * it comes to rest. */
void loop_lag_on_probe(struct loop_lag *l, void (*fn)(bool at_rest, void *arg), void *arg);
/* The longest since it was last taken. */
int64_t loop_lag_take(struct loop_lag *l);

/*
 * Gives memory back to the system that was freed and is kept by malloc(): what lies between blocks that are
 * still in use stays resident for good otherwise, after each event that took much for a moment.
 *
 * Looks at the process alone, and never by itself: whoever knows when there is time for it calls heap_trim().
 */

/* Freed bytes that malloc() may keep. */
#define HEAP_SLACK_MAX (INT64_C(8) << 20)
/* Between two looks while there is much to do. */
#define HEAP_INTERVAL_NS (INT64_C(5) * 1000000000)

struct heap_keeper {
    int64_t kept;      /* bytes that could not be given back the last time */
    int64_t looked_ns; /* monotonic */
};

/* Cheap where little was freed. Ignored within HEAP_INTERVAL_NS of the last look, unless there is nothing
 * else to do. */
void heap_trim(struct heap_keeper *k, bool at_rest);
