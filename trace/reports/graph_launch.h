/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of CUDA and HIP graphs: one call of the host that sets off many pieces of the GPU's work.
 */
#pragma once

#include "trace/reports/gpu.h"

struct graph_launch {
    uint64_t launch; /* the slice of the call */
    size_t first;    /* place of its first event in the work */
    size_t n;        /* events */
    int64_t end;     /* of the last */
};

struct graph_launches {
    struct graph_launch *items; /* by when they begin on the GPU */
    size_t n;
    size_t *of; /* of each event of the work its launch's place in items, or n */
};

/* -ENOMEM. */
int graph_launches_read(const struct gpu_work *work, struct graph_launches *ret);
void graph_launches_done(struct graph_launches *g);
