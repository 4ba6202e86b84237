/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives memory back to the system that was freed and is kept by malloc(): what lies between blocks that are
 * still in use stays resident for good otherwise, after each event that took much for a moment.
 *
 * Looks at the process alone, and never by itself: whoever knows when there is time for it calls heap_look().
 */
#pragma once

#include "base/util.h"

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
void heap_look(struct heap_keeper *k, bool at_rest);
