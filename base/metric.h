/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a room counts for its operator: plain numbers in a struct of its own, and durations in a histogram.
 * Who shows them (daemon/api/metrics.c) names them; a room only counts.
 */
#pragma once

#include <stdint.h>

/* Upper bounds of a histogram's buckets, from answers within milliseconds to a trace that is written for half
 * an hour; one more bucket has no bound. */
#define HISTOGRAM_BOUNDS 14
extern const int64_t histogram_bounds_ns[HISTOGRAM_BOUNDS];

struct histogram {
    uint64_t counts[HISTOGRAM_BOUNDS + 1]; /* each for itself, not added up */
    int64_t sum_ns;
};

/* A negative duration (a clock was set) counts as none. */
void histogram_add(struct histogram *h, int64_t duration_ns);
