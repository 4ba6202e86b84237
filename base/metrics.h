/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics for operators: each module counts plain numbers in its own struct, and durations in histograms.
 * daemon/api/metrics.c gives them names and writes them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS_MAX 14

/* Upper bounds of a histogram's buckets; one more bucket has no bound. */
enum histogram_scale {
    SCALE_WORK, /* from a worker's response within milliseconds to a trace that takes half an hour to write */
    SCALE_ANSWERS, /* responses of profd */
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
    uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1]; /* per bucket, not cumulative */
    int64_t sum_ns;
};

/* A negative duration (a clock was set) counts as 0. */
void histogram_add(struct histogram *h, int64_t duration_ns);

/*
 * Prometheus' text format, sample by sample. Pure: names and labels are borrowed from the text, which need not
 * end in a NUL. Comments, lines that are not a sample, and values that are not a number are skipped.
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
/* The value of a label as it stands between its quotes, with its escapes; false if the sample lacks the label. */
bool prometheus_label(const struct prometheus_sample *sample, const char *label, const char **ret,
                      size_t *ret_len);
