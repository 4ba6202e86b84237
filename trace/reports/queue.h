/* SPDX-License-Identifier: Apache-2.0 */
/* How much work was launched and had not begun: over time, for each stream. */
#pragma once

#include "trace/reports/analysis.h"
#include "trace/reports/gpu_parts.h"

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
