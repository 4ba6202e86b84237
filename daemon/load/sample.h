/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of one figure over the requests of a benchmark run, their distribution, and how many requests were in
 * flight at a time. Pure; all values are nanoseconds.
 *
 * Latencies are one value a request. Gaps between tokens are one fewer than the request has tokens; they stay in
 * the records and are never copied, because a run has hundreds of millions of them.
 */
#pragma once

#include "base/json.h"
#include "daemon/load/records.h"

enum figure {
    FIGURE_TTFT,     /* intended to first token */
    FIGURE_ITL,      /* every gap between two events that carried tokens */
    FIGURE_TPOT,     /* (e2e - ttft) / (output tokens - 1), of requests with at least two (as vLLM) */
    FIGURE_E2E,      /* intended to the response's end */
    FIGURE_LATENESS, /* intended to sent */
    _FIGURE_MAX,
};

/* "ttft_ms" */
const char *figure_name(enum figure f);
/* False where the request has no such value (always for FIGURE_ITL, which has many). */
bool figure_of(enum figure f, const struct request_record *r, int64_t *ret);

/* Borrows the records; sample_done() frees the rest. Requests are in order of intended sending. */
struct sample {
    enum figure figure;
    size_t n_requests; /* those that have a value */
    const struct request_record **requests;
    uint64_t n;       /* values */
    int64_t *values;  /* by request; NULL of gaps */
    int64_t *sorted;  /* NULL of gaps */
    uint64_t *coarse; /* of gaps: number of gaps by their upper 16 bits, in microseconds */
};

/* Of those of n records for which belongs() is true. */
void sample_of(enum figure f, const struct request_record *records, size_t n,
               bool (*belongs)(const struct request_record *r), struct sample *ret);
void sample_done(struct sample *s);
/* {"mean", "std", "min", "p1" ... "p99.9", "max", "count", "ci95"}, in milliseconds. Percentiles are linear
 * between neighbours (Hyndman and Fan's definition 7, numpy's default), std is that of the population, both
 * as vLLM's bench computes them; ci95 is null of few requests. Without values all but "count" is null. */
json_t *distribution_json(const struct sample *s, uint64_t seed);

/* Requests in flight: from the first byte sent to the response's end, exclusive. */
struct concurrency {
    int64_t *starts, *ends; /* sorted, n each */
    size_t n;
};

void concurrency_of(const struct request_record *records, size_t n, struct concurrency *ret);
void concurrency_done(struct concurrency *c);
size_t concurrency_peak(const struct concurrency *c);
size_t concurrency_at(const struct concurrency *c, int64_t moment_ns);
