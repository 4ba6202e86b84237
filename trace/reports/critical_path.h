/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chain of events that determined the duration of a trace: these events must become shorter to shorten
 * the total. As defined by Holistic Trace Analysis (hta/analyzers/critical_path_analysis.py): events are
 * two points in time, their beginning and their end; points depend on each other through nesting and order
 * of calls on a thread, the lock of the CUDA runtime, launches, order on a stream, and synchronisation; the
 * longest path through these dependencies is the critical one.
 */
#pragma once

#include "trace/reports/analysis.h"

enum path_bound {
    BOUND_CPU,
    BOUND_GPU_COMPUTE,
    BOUND_GPU_COMMUNICATION,
    BOUND_KERNEL_KERNEL, /* waiting for the kernel before it on the stream */
    BOUND_LAUNCH,        /* from the launching call to the kernel's beginning */
    BOUND_NONE,          /* a dependency that takes no time */
    _PATH_BOUND_MAX,
};

struct path_part {
    enum path_bound bound;
    uint64_t slice; /* that the time is counted for */
    int64_t from, dur;
};

struct critical_path {
    struct path_part *parts; /* in order */
    size_t n;
    int64_t length;
    size_t n_nodes, n_edges; /* of the graph */
};

/* Computes the path of one rank, within the analysis' view: host events that begin in it, and the GPU
 * events that they launched. -ELOOP if the events form a dependency cycle, -ENODATA without events,
 * -E2BIG, -ENOMEM. */
int critical_path_find(struct analysis *a, size_t rank, struct critical_path *ret);
void critical_path_done(struct critical_path *path);
/* HTA's names: "cpu_bound", "gpu_compute_bound", ... */
const char *path_bound_name(enum path_bound bound);
