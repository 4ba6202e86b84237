/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of samples by label, as `nsys stats` gives them: the median of an even number is the mean of the
 * middle two, the standard deviation that of a sample.
 */
#pragma once

#include "trace/reports/analysis.h"

struct slice_sum {
    struct text label;
    int64_t number; /* of the label, as it was made */
    uint64_t count;
    int64_t sum, min, max;
    double mean, median, std;
};

struct slice_sums {
    struct slice_sum *items; /* largest sum first, once they are finished */
    size_t n, cap;
    int64_t total;
    struct slice_sample *samples; /* private */
    size_t n_samples, cap_samples;
};

/* A label's number, new or the one it has; the text is borrowed. slice_sums_new() does not look whether it is
 * there. Negative errno. */
int64_t slice_sums_new(struct slice_sums *sums, struct text label);
int64_t slice_sums_label(struct slice_sums *sums, struct text label);
/* -ENOMEM */
int slice_sums_add(struct slice_sums *sums, int64_t label, int64_t value);
/* Statistics of all; labels without samples go. */
void slice_sums_finish(struct slice_sums *sums);
void slice_sums_done(struct slice_sums *sums);

/* Durations of the slices of some categories that begin within the view, by name, finished. categories ends
 * with NULL. -ENOMEM. */
int slice_sums_of_categories(struct analysis *a, size_t rank, const char *const *categories,
                             struct slice_sums *ret);
/* Is a category, by the number of its text, among them? */
bool category_is_one_of(const struct columns *c, int64_t category, const char *const *categories);
