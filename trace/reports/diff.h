/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two analyses beside each other: what became slower, faster, more, fewer, new or gone. Times are of one step
 * where both sides have steps, else of the whole.
 *
 * The structs describe the rows; their make() is NULL, since they are made of two.
 */
#pragma once

#include "trace/reports/report.h"

extern const struct report diff_measures, diff_kernels, diff_ops;

struct diff {
    struct analysis *before, *after;
    int64_t steps_before, steps_after; /* what is divided by; 1 where there are no steps */
    bool by_step;
};

/* What rows of diff_measures are called, whether both sides have them or not; NULL behind the last. */
const char *diff_measure_name(size_t i);

/* Finds the steps of both. -ENOMEM. */
int diff_init(struct diff *d, struct analysis *before, struct analysis *after);
/* All into rows that the caller does with, whatever is returned. The largest change first. */
int diff_make_measures(struct diff *d, struct report_rows *ret);
int diff_make_kernels(struct diff *d, struct report_rows *ret);
int diff_make_ops(struct diff *d, struct report_rows *ret);
