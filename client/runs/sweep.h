/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --sweep concurrency=1,2,4: one member of the workload with several values, each a run of its own; and the
 * knee of what they measured. Pure.
 */
#pragma once

#include "base/problem.h"

#define SWEEP_MAX 64

struct sweep {
    const char *member; /* static: "concurrency", "rate", "isl", "osl" */
    double values[SWEEP_MAX];
    size_t n;
    bool is_whole; /* the member takes whole numbers only */
    bool is_load;  /* more of it is more load, so that there may be a knee */
};

int sweep_parse(const char *text, struct sweep *ret, struct problem *p);

struct sweep_point {
    double load;       /* the value that was swept */
    double throughput; /* 0: nothing was measured */
    double latency;    /* in any one unit */
};

#define SWEEP_NO_KNEE SIZE_MAX

/*
 * The point of the greatest power, throughput by latency: below it, more load buys more throughput than it
 * costs latency, above it less (L. Kleinrock, "Power and Deterministic Rules of Thumb for Probabilistic
 * Problems in Computer Communications", ICC 1979). SWEEP_NO_KNEE where it is the point of the highest load,
 * so that the knee may lie beyond, and of fewer than three points.
 */
size_t sweep_knee(const struct sweep_point *points, size_t n);
