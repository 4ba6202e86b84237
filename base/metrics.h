/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a room counts for its operator: plain numbers in a struct of its own, and durations in a histogram.
 * Who shows them (daemon/api/metrics.c) names them; a room only counts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS_MAX 14

/* Upper bounds of a histogram's buckets; one more bucket has no bound. */
enum histogram_scale {
    SCALE_WORK, /* from a worker's answer within milliseconds to a trace that is written for half an hour */
    SCALE_ANSWERS, /* profd's own */
    _HISTOGRAM_SCALE_MAX,
};
struct histogram_bounds {
    size_t n;
    int64_t ns[HISTOGRAM_BOUNDS_MAX];
};
extern const struct histogram_bounds histogram_bounds[_HISTOGRAM_SCALE_MAX];

/* A zeroed one is empty, and of SCALE_WORK. */
struct histogram {
    enum histogram_scale scale;
    uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1]; /* each for itself, not added up */
    int64_t sum_ns;
};

/* A negative duration (a clock was set) counts as none. */
void histogram_add(struct histogram *h, int64_t duration_ns);

/*
 * Prometheus' text format, sample by sample. Pure: what it yields is borrowed from the text, which need not
 * end in a NUL. Comments, lines that are no sample, and values that are no number are passed over.
 */

struct prometheus_text {
    const char *next, *end;
};

struct prometheus_sample {
    const char *name;
    size_t name_len;
    const char *labels; /* between the braces */
    size_t labels_len;
    double value; /* finite */
};

struct prometheus_text prometheus_text(const char *text, size_t size);
/* False at the end. */
bool prometheus_next(struct prometheus_text *text, struct prometheus_sample *ret);
bool prometheus_is(const struct prometheus_sample *sample, const char *name);
/* The value of a label as it stands between its quotes, escapes and all; false where there is none. */
bool prometheus_label(const struct prometheus_sample *sample, const char *label, const char **ret,
                      size_t *ret_len);
