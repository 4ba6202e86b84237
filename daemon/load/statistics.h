/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of a benchmark run: the values of one figure over its requests, their distribution, how many requests were
 * in flight at a time; and, of any values, correlation, trend, confidence intervals, and quantities that are measured
 * repeatedly. docs/figures.md explains each for readers. Pure.
 */
#pragma once

#include "base/json.h"
#include "daemon/load/records.h"

/* -- Figures: nanoseconds of requests --
 *
 * Latencies are one value a request. Gaps between tokens are one fewer than the request has tokens; they stay in
 * the records and are never copied, because a run has hundreds of millions of them.
 */

enum load_figure {
    FIGURE_TTFT,     /* intended to first token */
    FIGURE_ITL,      /* every gap between two events that carried tokens */
    FIGURE_TPOT,     /* (e2e - ttft) / (output tokens - 1), of requests with at least two (as vLLM) */
    FIGURE_E2E,      /* intended to the response's end */
    FIGURE_LATENESS, /* intended to sent */
    _FIGURE_MAX,
};

/* "ttft_ms" */
const char *load_figure_name(enum load_figure f);
/* False where the request has no such value (always for FIGURE_ITL, which has many). */
bool load_figure_of(enum load_figure f, const struct request_record *r, int64_t *ret);

/* Borrows the records; sample_done() frees the rest. Requests are in order of intended sending. */
struct sample {
    enum load_figure figure;
    size_t n_requests; /* those that have a value */
    const struct request_record **requests;
    uint64_t n;       /* values */
    int64_t *values;  /* by request; NULL of gaps */
    int64_t *sorted;  /* NULL of gaps */
    uint64_t *coarse; /* of gaps: number of gaps by their upper 16 bits, in microseconds */
};

/* Of those of n records for which belongs() is true. */
void sample_of(enum load_figure f, const struct request_record *records, size_t n,
               bool (*belongs)(const struct request_record *r), struct sample *ret);
void sample_done(struct sample *s);
/* {"mean", "std", "min", "p1" ... "p99.9", "max", "count", "ci95"}, in milliseconds. Percentiles are linear
 * between neighbours (Hyndman and Fan's definition 7, numpy's default), std is that of the population, both
 * as vLLM's bench computes them; ci95 is null of few requests. Without values all but "count" is null. */
json_t *distribution_json(const struct sample *s, uint64_t seed);

/* -- Concurrency -- */

/* Requests in flight: from the first byte sent to the response's end, exclusive. */
struct concurrency {
    int64_t *starts, *ends; /* sorted, n each */
    size_t n;
};

void concurrency_of(const struct request_record *records, size_t n, struct concurrency *ret);
void concurrency_done(struct concurrency *c);
size_t concurrency_peak(const struct concurrency *c);
size_t concurrency_at(const struct concurrency *c, int64_t moment_ns);
/* Number of those of n sorted moments, `stride` bytes apart, that are before at_ns. */
size_t moments_before(const int64_t *moments, size_t stride, size_t n, int64_t at_ns);

/* -- Correlation: -1 to 1; NAN where either side does not vary or fewer than CORRELATION_MIN pairs exist -- */

#define CORRELATION_MIN 3

/* Pearson's r: how well a line fits. */
double correlation(const double *x, const double *y, size_t n);
/* Spearman's rho: Pearson's r of the ranks, equal values sharing their mean rank. Any rising curve is 1. */
double rank_correlation(const double *x, const double *y, size_t n);

/*
 * -- Trend: whether values rise or fall over time --
 *
 * The test of Mann (1945) and Kendall (1975), two-sided, by the normal approximation with ties, and Sen's slope
 * (1968), which outliers do not bend. The test assumes independent values, and latencies of neighbours are not
 * (they share batches and queues): at most TREND_WINDOWS_MAX windows of equally many neighbours are compared by
 * their medians.
 */

#define TREND_WINDOWS_MAX 50
/* Fewer values show no trend: three values rise by accident in every sixth case. */
#define TREND_VALUES_MIN 10

struct trend {
    size_t windows;
    double tau;         /* -1 always falls, 1 always rises */
    double p;           /* probability of at least this tau without a trend */
    double slope_per_s; /* median of the slopes between every two windows */
    double first, last; /* medians of the outermost windows */
};

struct moment_value {
    int64_t at_ns;
    double value;
};

/* Values are in order of time. False where they are too few. */
bool trend_of(const struct moment_value *values, size_t n, struct trend *ret);

/*
 * -- Confidence intervals: the bootstrap (Efron, 1979), percentile method --
 *
 * The interval that a figure would have if other requests had been sent; the same seed gives the same interval.
 * Requests are resampled, never values, because the gaps of one response are alike. Each statistic is a ratio of
 * two sums over requests: a mean is the sum of values by their number, and the share of values below a bound gives
 * a percentile's interval (Woodruff, 1952). Neighbours in time are alike too: beyond BOOTSTRAP_UNITS_MAX requests,
 * that many blocks of neighbours are resampled instead (block bootstrap; Kuensch, 1989), which bounds the cost.
 */

#define BOOTSTRAP_UNITS_MAX 1000
#define BOOTSTRAP_DRAWS     1000
/* Fewer requests do not represent others. */
#define BOOTSTRAP_REQUESTS_MIN 8

struct ratio {
    double above, below;
};
struct interval95 {
    double low, high;
};

/* Of sum(above) / sum(below) over n requests, n > 0, in order of time. */
struct interval95 bootstrap_ratio(const struct ratio *requests, size_t n, uint64_t seed);

/* -- Series: a quantity that is measured repeatedly; a zeroed one is empty -- */

struct series {
    uint64_t n;
    int64_t baseline, low, peak, end; /* first value, extremes, last value */
    double sum;
    double mean, squares; /* private: running mean, sum of squared distances from it (Welford 1962) */
};

/* Negative values are ignored: they mean "unknown". */
void series_add(struct series *s, int64_t value);
/* {"n", "baseline", "peak", "difference" (peak - baseline), "low", "mean", "std" (population), "end"}; null
 * without values. */
json_t *series_json(const struct series *s);
