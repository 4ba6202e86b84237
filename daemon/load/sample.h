/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one figure of a run is computed from: the values of all requests of one population, in order of
 * intended sending. Latencies are one value a request; gaps are as many as it has tokens, stay where they are
 * and are never copied, since a run has hundreds of millions of them.
 *
 * A sample borrows the records; sample_done() frees what it holds of its own. All values are nanoseconds.
 */
#pragma once

#include "base/util.h"
#include "daemon/load/record.h"

enum figure {
    FIGURE_TTFT,     /* intended to first token */
    FIGURE_ITL,      /* every gap between two events that carried tokens */
    FIGURE_TPOT,     /* (e2e - ttft) / (output tokens - 1), of requests with at least two (vLLM) */
    FIGURE_E2E,      /* intended to the answer's end */
    FIGURE_LATENESS, /* intended to sent */
    _FIGURE_MAX,
};

/* "ttft_ms" */
const char *figure_name(enum figure f);
/* False where the request has no such value (always for FIGURE_ITL, which has many). */
bool figure_of(enum figure f, const struct request_record *r, int64_t *ret);

struct sample {
    enum figure figure;
    size_t n_requests; /* those that have a value */
    const struct request_record **requests;
    uint64_t n;       /* values */
    int64_t *values;  /* by request; NULL of gaps */
    int64_t *sorted;  /* NULL of gaps */
    uint64_t *coarse; /* of gaps: how many have each upper half */
};

/* Of the n records that belong() says yes to. */
void sample_of(enum figure f, const struct request_record *records, size_t n,
               bool (*belongs)(const struct request_record *r), struct sample *ret);
void sample_done(struct sample *s);

#define SAMPLE_RANKS_MAX 32
/* The values at n ranks (0 is the smallest, each below s->n), exact. Of gaps this is one pass over them. */
void sample_at(const struct sample *s, const uint64_t *ranks, size_t n, int64_t *ret);
/* Sum of a request's values and of their squared distances from `centre`, how many they are, and how many do
 * not exceed `bound`. */
struct sample_part {
    double sum, squares, n, below;
};
struct sample_part sample_part(const struct sample *s, size_t request, double centre, double bound);
