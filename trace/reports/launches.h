/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of the host that launched GPU events, each with its events: one kernel, or thousands if it
 * launched a graph.
 */
#pragma once

#include "trace/reports/analysis.h"
#include "trace/reports/gpu.h"

struct launch {
    uint64_t call; /* its slice */
    int64_t name;  /* text */
    int64_t ts, end;
    int64_t begin;  /* when the first of its work begins */
    uint64_t count; /* number of events that it launched */
    int64_t work;   /* sum of their durations */
};

struct launches {
    struct launch *items; /* in order of the calls */
    size_t n;
};

/* Of the rank's work within the view. With --hta calls and work are paired as HTA does: each work is a launch
 * of its own, and only calls of the kinds that it looks at count. -ENOMEM. */
int launches_read(struct analysis *a, size_t rank, struct launches *ret);
void launches_done(struct launches *launches);
/* What a call launched; NULL for SLICE_NONE and for a call that launched nothing. */
const struct launch *launches_find(const struct launches *launches, uint64_t call);

/* Number of launched events that have not begun: over time, for each stream. */
/* From ts on the length is this; several of one stamp are one point. */
struct queue_point {
    int64_t device, stream; /* COLUMN_NULL where unknown */
    int64_t ts;
    int64_t length;
};

struct queue {
    struct queue_point *points; /* in the order of the streams, by time each */
    size_t n;
};

/* streams: the rank's. With --hta as HTA counts: no graphs, and a point for each change. -ENOMEM. */
int queue_read(struct analysis *a, size_t rank, const struct gpu_parts *streams, struct queue *ret);
void queue_done(struct queue *queue);
