/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a Parquet file with flat columns (apache/parquet-format): zstd, dictionaries, statistics with column orders,
 * CRCs, field ids, pages of version 1, which every reader knows. Knows nothing about traces.
 *
 * A file consists of row groups, and a row group of the values of each column, which the caller passes column after
 * column, in the order of the table of columns. Each is encoded and sent to the sink at once; until
 * parquet_finish(), the writer keeps only the description of the columns of each row group. Bytes are sent in order,
 * and the sink may be a pipe: the writer never seeks.
 */
#pragma once

#include "base/util.h"

enum parquet_type {
    PARQUET_INT64,
    PARQUET_MICROS, /* INT64, annotated as a timestamp: microseconds since 1970, UTC */
    PARQUET_DOUBLE,
    PARQUET_TEXT, /* UTF-8 */
};

/* How numbers that are not texts are encoded. */
enum parquet_encoding {
    PARQUET_PLAIN,      /* a dictionary as long as values repeat, else one after another */
    PARQUET_DIFFERENCE, /* differences of neighbors: sorted numbers, without a dictionary */
};

struct parquet_column {
    const char *name;
    int32_t field_id; /* never changes, and is never used again for something else */
    enum parquet_type type;
    enum parquet_encoding encoding; /* of INT64 and MICROS */
    bool is_required;               /* has no missing values */
};

/* A fact about the file, for its readers. */
struct parquet_fact {
    const char *key, *value;
};

/* Sends bytes on; a negative errno ends the file. */
typedef int (*parquet_sink)(void *arg, const void *data, size_t size);
/* The sink of a FILE. */
int parquet_file_sink(void *file, const void *data, size_t size);

struct parquet_schema {
    const struct parquet_column *columns;
    size_t n_columns;
    const struct parquet_fact *facts;
    size_t n_facts;
    const char *created_by; /* "NAME version VERSION", as readers parse it */
};

/* Strings by number. p need not be terminated. */
struct parquet_texts {
    uint32_t n;
    const char *(*get)(const void *arg, uint32_t number, size_t *ret_size);
    const void *arg;
};
#define PARQUET_NO_TEXT UINT32_MAX

struct parquet_writer;

/* The schema must outlive the writer. All functions: 0 or a negative errno, -ENOMEM or that of the sink; after a
 * failure, every further call fails with the same. */
int parquet_open(const struct parquet_schema *schema, parquet_sink sink, void *arg,
                 struct parquet_writer **ret);
struct parquet_writer *parquet_close(struct parquet_writer *w);

/* Begins a row group with so many rows, at least 1; the values of every column follow. */
int parquet_begin_group(struct parquet_writer *w, uint32_t rows);
/* The values of the next column. is_present: whether each row has a value; NULL: all have one. The others are not
 * read. Values that are given are those of all rows. */
int parquet_put_numbers(struct parquet_writer *w, const int64_t *values, const uint8_t *is_present);
int parquet_put_reals(struct parquet_writer *w, const double *values, const uint8_t *is_present);
/* numbers: of texts; PARQUET_NO_TEXT: no value. Equal texts have equal numbers, or are stored once for each. */
int parquet_put_texts(struct parquet_writer *w, const uint32_t *numbers, const struct parquet_texts *texts);
/* Writes the end of the file. */
int parquet_finish(struct parquet_writer *w);

DEFINE_CLEANUP(struct parquet_writer *, parquet_close)
