/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What profd-report computes of one specification (proto/report.h). It opens no path; the descriptors of the traces
 * are given.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include <stdio.h>

struct work {
    json_t *spec;
    size_t n_traces;
    int columns_fd, source_fd; /* of the first trace; the columns of the others follow. No source: -1 */
    int64_t memory_max;
};

/* Writes the answer. 0, or a negative errno value with a problem; then the answer is incomplete. */
int work_run(const struct work *work, FILE *answer, struct problem *p);

struct analysis;
/* The sums of a trace (catalog_set_sums()): what its steps took by phase, and its findings. The caller releases them. */
json_t *work_make_sums(struct analysis *a);
