/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lag of the event loop: the delay of a probe timer that runs while the loop is busy.
 *
 * An iteration of the loop starts the timer if it is not running, and the timer is renewed until an iteration
 * has no event but the timer. An idle loop is thus never woken, and only the iteration after a long wait is not
 * measured.
 */
#pragma once

#include "base/util.h"
#include <stdint.h>

struct event_base;
struct loop_lag;

int loop_lag_new(struct event_base *base, struct loop_lag **ret);
struct loop_lag *loop_lag_free(struct loop_lag *l);
DEFINE_CLEANUP(struct loop_lag *, loop_lag_free)

/* Runs the loop until event_base_loopbreak(), instead of event_base_dispatch(). */
int loop_lag_dispatch(struct loop_lag *l);
/* Calls fn for deferred work: from time to time while the loop is busy, and once when it becomes idle. */
void loop_lag_on_probe(struct loop_lag *l, void (*fn)(bool at_rest, void *arg), void *arg);
/* The longest lag since the previous call, in ns. */
int64_t loop_lag_take(struct loop_lag *l);

/*
 * Returns memory to the system that was freed but is kept by malloc(). Free memory between blocks in use would
 * otherwise stay resident after each short peak of memory use.
 *
 * Nothing runs by itself: the caller decides when there is time for heap_trim().
 */

/* Freed bytes that malloc() may keep. */
#define HEAP_SLACK_MAX (INT64_C(8) << 20)
/* Shortest time between two checks while the loop is busy. */
#define HEAP_INTERVAL_NS (INT64_C(5) * 1000000000)

struct heap_keeper {
    int64_t kept;      /* bytes that could not be returned the last time */
    int64_t looked_ns; /* monotonic */
};

/* Cheap if little was freed. Does nothing within HEAP_INTERVAL_NS of the previous check, unless the loop is at
 * rest. */
void heap_trim(struct heap_keeper *k, bool at_rest);
