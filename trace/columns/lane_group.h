/* SPDX-License-Identifier: Apache-2.0 */
/* A row of lanemip in the making: the longest of up to LANE_FANOUT slices, or of such rows. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lane_group {
    int64_t dur, busy; /* dur: of the longest; busy: the sum, which saturates */
    uint32_t longest;
};

/* first: the item is the first of its group, which then takes its values. Of equal ones the first is the longest. */
static inline void lane_group_add(struct lane_group *g, bool first, struct lane_group add)
{
    int64_t busy = add.busy;

    if (!first && __builtin_add_overflow(g->busy, add.busy, &busy))
        busy = INT64_MAX;
    if (first || add.dur > g->dur)
        *g = add;
    g->busy = busy;
}
