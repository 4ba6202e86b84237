/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a rank parted by what it ran on, in order of time each. */
#pragma once

#include "trace/reports/gpu.h"

struct gpu_part {
    int64_t device, stream; /* COLUMN_NULL where unknown */
    struct gpu_work work;   /* part of all events; not to be done with */
};

struct gpu_parts {
    struct gpu_part *items; /* by device and stream */
    size_t n;
    struct gpu_event *events; /* private */
    uint32_t *of;             /* for each event of the work that was parted: its place in items */
};

enum gpu_parting {
    BY_STREAM, /* of a device */
    BY_DEVICE, /* with all its streams, which are COLUMN_NULL then */
};

/* Linear in the work, however many streams there are. -ENOMEM. */
int gpu_parts_read(const struct gpu_work *work, enum gpu_parting by, struct gpu_parts *ret);
void gpu_parts_done(struct gpu_parts *parts);
