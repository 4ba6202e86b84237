/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a figure would be off if other requests had been sent: the bootstrap (Efron, 1979), percentile
 * method. Pure; the same seed gives the same intervals.
 *
 * What is drawn anew are requests, never values, since the gaps of one answer are alike. Every statistic is a
 * ratio of two sums over requests: a mean is the sum of values over their number, and how much of the values
 * lies below a bound gives a percentile's interval (Woodruff, 1952). Neighbours in time are alike too: of
 * more than BOOTSTRAP_UNITS_MAX requests, as many runs of neighbours are drawn instead (block bootstrap;
 * Kuensch, 1989), so that the cost has a bound.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BOOTSTRAP_UNITS_MAX 1000
#define BOOTSTRAP_DRAWS     1000
/* Fewer requests say nothing of others. */
#define BOOTSTRAP_REQUESTS_MIN 8

struct ratio {
    double above, below;
};
struct interval95 {
    double low, high;
};

/* Of sum(above) / sum(below) over n requests, n > 0, in order of time. */
struct interval95 bootstrap_ratio(const struct ratio *requests, size_t n, uint64_t seed);
