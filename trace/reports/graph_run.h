/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of CUDA and HIP graphs, and what each of them ran. */
#pragma once

#include "trace/reports/analysis.h"

struct graph_run {
    int64_t from, to;  /* of its work */
    int64_t busy;      /* with any of its work under way */
    int64_t gap;       /* since the latest end of those before; COLUMN_NULL for the first */
    int64_t graph_id;  /* COLUMN_NULL where the trace does not tell */
    uint64_t call;     /* slice of the call */
    uint64_t n;        /* how much work */
    uint64_t sequence; /* hash of the names in order: launches of one graph have the same */
    int64_t first_name;
};

struct graph_runs {
    struct graph_run *items; /* by from */
    size_t n;
};

/* Those with work in the view. -ENOMEM. */
int graph_runs_read(struct analysis *a, size_t rank, struct graph_runs *ret);
void graph_runs_done(struct graph_runs *launches);
