/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of the host that launched a GPU's work, each with what it launched: one kernel, or thousands
 * where it launched a graph.
 */
#pragma once

#include "trace/reports/analysis.h"

struct launch {
    uint64_t call; /* its slice */
    int64_t name;  /* text */
    int64_t ts, end;
    int64_t begin;  /* when the first of its work begins */
    uint64_t count; /* how much work it launched */
    int64_t work;   /* time of all of it */
};

struct launches {
    struct launch *items; /* in order of the calls */
    size_t n;
};

/* Of the rank's work within the view. With --hta calls and work are paired as HTA does: each work is a launch
 * of its own, and only calls of the kinds that it looks at count. -ENOMEM. */
int launches_read(struct analysis *a, size_t rank, struct launches *ret);
void launches_done(struct launches *launches);
