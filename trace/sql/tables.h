/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of SQL: each is one entry of a table that defines its rows and the source of each column's
 * values. docs/sql.md describes tables and columns.
 */
#pragma once

#include "trace/sql/traces.h"

struct row;

/* A value that is no column of the file as it stands. */
typedef void sql_value_fn(struct row *row, sqlite3_context *ctx);

/* The use of a constraint on a column, instead of examining every row. */
enum seek {
    SEEK_NONE,
    SEEK_ROW,   /* the row's number */
    SEEK_SLICE, /* the number of the row's slice, by which the rows are sorted */
    SEEK_TS,    /* a time by which the rows are sorted */
    SEEK_TRACK,
    SEEK_DESCENDANTS, /* of the slice with this number */
    SEEK_ANCESTORS,
    SEEK_ARG_SET, /* a slice's arguments */
    SEEK_TRACE,
    _SEEK_NUMBER_MAX,
    SEEK_NAME = _SEEK_NUMBER_MAX,
    SEEK_CATEGORY,
    _SEEK_MAX,
};

/* Columns of no table, as values of sql_column.column. */
enum {
    VALUE_FUNCTION = _COLUMN_MAX,
    VALUE_ROW,   /* the row's number */
    VALUE_SLICE, /* the number of the row's slice */
    VALUE_NULL,  /* Perfetto has this column, traces of this kind have nothing to put into it */
    VALUE_ZERO,
};

struct sql_column {
    const char *name;
    unsigned column; /* of the row, its slice or that slice's arguments */
    enum seek seek;
    unsigned through;       /* where not 0: the column with the slice to use instead of that of the row */
    const char *type;       /* NULL: that of the column */
    sql_value_fn *function; /* for VALUE_FUNCTION */
    bool hidden;
};

struct sql_table {
    const char *name;
    enum column_table rows;
    unsigned slice;                /* the column of the row's slice; 0: the row has none, or is one */
    unsigned time;                 /* the column for SEEK_TS; 0: that of the row's slice */
    const char *const *categories; /* only slices of these; NULL: of all */
    unsigned kinds;                /* of tracks: one bit for each enum track_kind; 0: all */
    /* Only constraints on the trace and on start_id shorten the walk. */
    bool walks_all;
    const struct sql_column *columns;
    size_t n_columns;
};

/* Columns that a table may have, so that one is a character in a plan. */
#define SQL_COLUMNS_MAX 64

/* The tables with rows in the columns; table args is in args.c. */
extern const struct sql_table sql_tables[];
extern const size_t sql_tables_count;
