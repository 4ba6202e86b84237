/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of figures of traces as Parquet files, beside that of their slices (docs/parquet.md): few rows for each trace, for
 * questions over years.
 *
 *   kernel   GPU events by name, as the report `kernels` of each trace
 *   name     slices by category and name, as the table `name` of its columns
 */
#pragma once

#include "trace/export/export.h"

struct sum_table;

/* NULL for an unknown name. */
const struct sum_table *sum_table_find(const char *name);
/* Writes a file with the rows of all traces, one trace after the other. ret_rows may be NULL. -ENOMEM, -EBADMSG for damaged
 * columns, or the error of the FILE; the output is then incomplete. */
int sum_table_write(const struct sum_table *table, const struct export_trace *traces, size_t n, FILE *out,
                    int64_t *ret_rows);
