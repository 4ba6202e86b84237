/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether values rise or fall over time: the test of Mann (1945) and Kendall (1975), two-sided, by the normal
 * approximation with ties, and Sen's slope (1968), which outliers do not bend. Pure.
 *
 * The test takes values to be independent, and latencies of neighbours are not (they share batches, queues).
 * So at most TREND_WINDOWS_MAX windows of as many neighbours each are compared by their medians.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREND_WINDOWS_MAX 50
/* Fewer values show no trend: three that rise do so by chance in every sixth case. */
#define TREND_VALUES_MIN 10

struct trend {
    size_t windows;
    double tau;         /* -1 falls always, 1 rises always */
    double p;           /* how probable as much is where there is no trend */
    double slope_per_s; /* by the median of all slopes between two windows */
    double first, last; /* medians of the outermost windows */
};

struct moment_value {
    int64_t at_ns;
    double value;
};

/* In order of time. False where there are too few. */
bool trend_of(const struct moment_value *values, size_t n, struct trend *ret);
