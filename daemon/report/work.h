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

/* {problem, detail, remedy} of proto/report.h, {} for an empty one. The caller releases it. */
json_t *work_problem_to_json(const struct problem *p);

/* Writes the answer. 0, or a negative errno value with a problem; then the answer is incomplete. */
int work_run(const struct work *work, FILE *answer, struct problem *p);

struct analysis;
struct columns;
/* The sums of a trace (catalog_set_sums()): what its steps took by phase, and its findings. The caller releases them. */
json_t *work_make_sums(struct analysis *a);

/* A table ("slice", "kernel", "name") of all traces as one Parquet file. columns and facts of each. 0 or a negative errno
 * value: -EINVAL for an unknown table. */
int work_write_slices(const char *table, const struct columns *const *columns, const json_t *const *facts,
                      size_t n, FILE *answer);

/* Answers requests until their sender is gone. A negative errno value with a problem. */
int work_view(const struct work *work, FILE *answer, struct problem *p);
