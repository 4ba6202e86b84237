/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The columns of a Parquet file of slices (docs/parquet.md), as one table: a new column is a line there, with a field
 * id that nothing had before. Names and values are those of the tables `slice`, `thread`, `process` and `kernel` in
 * SQL (docs/sql.md); every line fills its column for the rows of a row group from the columns of the trace.
 */
#pragma once

#include "trace/export/export.h"
#include "trace/parquet/writer.h"

/* The slices of one trace on their way into row groups. */
struct slice_writer;

/* All columns, for the schema of a file; the caller frees them. -ENOMEM. */
int slice_columns_list(struct parquet_column **ret, size_t *ret_n);
/* -ENOMEM. t and w must outlive it. */
int slice_writer_new(const struct export_trace *t, struct parquet_writer *w, struct slice_writer **ret);
struct slice_writer *slice_writer_free(struct slice_writer *s);
/* Adds a row, above those before, and writes a row group whenever one is full; the last one with slice_writer_end(). */
int slice_writer_add(struct slice_writer *s, uint64_t row);
int slice_writer_end(struct slice_writer *s);

DEFINE_CLEANUP(struct slice_writer *, slice_writer_free)
