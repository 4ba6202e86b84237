/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows for a Parquet file (writer.h) that come one after the other: kept column by column until a row group is full. Texts
 * are copied, equal ones of a column once. Memory is bounded by a row group and by TEXTS_MAX bytes of its texts.
 */
#pragma once

#include "trace/parquet/writer.h"

/* Rows of a row group, as DuckDB's writer makes them. */
#define PARQUET_GROUP_ROWS 122880

struct parquet_rows;

/* As parquet_open(): -ENOMEM, or the error of the sink, which every later call returns again. */
int parquet_rows_new(const struct parquet_schema *schema, parquet_sink sink, void *arg,
                     struct parquet_rows **ret);
struct parquet_rows *parquet_rows_free(struct parquet_rows *r);
DEFINE_CLEANUP(struct parquet_rows *, parquet_rows_free)

/* The values of the next row, each by the position of its column, whose type must fit; one that is not set is missing. */
void parquet_rows_set_number(struct parquet_rows *r, size_t column, int64_t value);
void parquet_rows_set_real(struct parquet_rows *r, size_t column, double value);
void parquet_rows_set_text(struct parquet_rows *r, size_t column, const char *p, size_t size);
/* The same, NULL: missing. */
void parquet_rows_set_string(struct parquet_rows *r, size_t column, const char *text);
int parquet_rows_end_row(struct parquet_rows *r);
/* Writes the last row group and the end of the file. */
int parquet_rows_finish(struct parquet_rows *r);
