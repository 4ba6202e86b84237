/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two analyses: what became slower, faster, more, fewer, new or gone. Times are per step if both
 * sides have steps, otherwise of everything.
 *
 * The structs describe the rows; their make() is NULL, since they are made of two analyses.
 */
#pragma once

#include "trace/reports/report.h"
#include "trace/reports/step_sample.h"

extern const struct report diff_measures, diff_kernels, diff_ops;

/* With fewer steps on either side, a change of a time cannot be determined. */
#define DIFF_STEPS_MIN    5
#define DIFF_MEASURES_MAX 16

struct diff_side {
    struct analysis *analysis;
    struct step_sample sample;
    double n_steps;       /* of ranks, all together; of n ranks without steps n: what sums are divided by */
    double n_steady;      /* the same without outliers, which are in n_steps */
    double outside_share; /* of the GPU work, as sums of durations, that belongs to no step; by
                             diff_make_kernels() */
};

struct diff {
    struct diff_side before, after;
    bool by_step;
    struct {
        struct estimate before, after; /* in ns, as the rows of diff_measures */
    } measures[DIFF_MEASURES_MAX];
};

/* The measures by number, regardless of whether both sides have them; NULL after the last. */
const char *diff_measure_name(size_t i);

/* Detects the steps of both; diff_done() frees them after any result. -ENOMEM. */
int diff_init(struct diff *d, struct analysis *before, struct analysis *after);
void diff_done(struct diff *d);
/* What of a change comes from steps that are outliers: the change less that of all other steps. COLUMN_NULL where neither
 * side has one, or a value is unknown (NAN). */
int64_t diff_outliers_part(const struct diff *d, double change, double before_steady, double after_steady);
/* Emits all rows, which the caller frees after any result. The largest change first. */
int diff_make_measures(struct diff *d, struct report_rows *ret);
int diff_make_kernels(struct diff *d, struct report_rows *ret);
int diff_make_ops(struct diff *d, struct report_rows *ret);
