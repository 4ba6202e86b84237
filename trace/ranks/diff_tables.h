/* SPDX-License-Identifier: Apache-2.0 */
/* The three tables of a comparison of two analyses (trace/reports/diff.h), together and as JSON: of profctl diff and of
 * profd. */
#pragma once

#include "base/json.h"
#include "trace/reports/diff.h"

enum { DIFF_MEASURES, DIFF_KERNELS, DIFF_OPS, _DIFF_TABLE_MAX };

extern const struct diff_table {
    const char *name; /* "measures", "kernels", "ops" */
    const struct report *report;
    int (*make)(struct diff *d, struct report_rows *ret);
} diff_table_list[_DIFF_TABLE_MAX];

/* A zeroed one is ready. */
struct diff_tables {
    struct diff diff;
    struct report_rows rows[_DIFF_TABLE_MAX];
};

/* Both analyses must outlive it. -ENOMEM, -EBADMSG, ... */
int diff_tables_make(struct diff_tables *ret, struct analysis *before, struct analysis *after);
void diff_tables_done(struct diff_tables *t);

/* {measures, kernels, ops: {report, trace: names, rows: [{COLUMN: value}]}}; top: rows of each at most, 0 for all. */
json_t *diff_tables_to_json(const struct diff_tables *t, const char *names, size_t top);
/* {"a": {"p50", "p99", "steps", "outliers"}, "b": the same, "change"}, in nanoseconds and as a share; null without steps. */
json_t *diff_tables_step(const struct diff_tables *t);

/* {report, trace, rows: [{COLUMN: value}]}. */
json_t *report_rows_to_json(const struct report *report, const char *trace, const struct report_rows *rows,
                            size_t top);
