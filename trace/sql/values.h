/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of rows: read from the columns of a trace, by blocks if rows are walked in order, else one by one; or computed
 * from other values of the row. Belongs to one cursor.
 */
#pragma once

#include "trace/columns/columns.h"
#include "trace/sql/tables.h"

#define ROW_NONE UINT64_MAX

struct window {
    uint64_t first;
    size_t n;
    int64_t values[BLOCK_ROWS];
};

struct cells {
    const struct columns *columns;
    bool dense; /* most rows of a block are read */
    struct window *windows[_COLUMN_MAX];
    uint64_t found[_TABLE_MAX]; /* last result of cells_of_slice() */
};

/* Changes to another trace, or none. */
void cells_use(struct cells *cells, const struct columns *columns);
void cells_done(struct cells *cells);
int64_t cells_read(struct cells *cells, enum column column, uint64_t row);
/* The row of a table of arguments, or of launches, that belongs to a slice; ROW_NONE. */
uint64_t cells_of_slice(struct cells *cells, enum column_table table, uint64_t slice);

static inline int64_t cells_get(struct cells *cells, enum column column, uint64_t row)
{
    const struct window *w = cells->windows[column];

    if (w && row - w->first < w->n)
        return w->values[row - w->first];
    return cells_read(cells, column, row);
}

sql_value_fn value_arg_set_id, value_self_dur;
sql_value_fn value_tid, value_pid, value_thread_name, value_process_name, value_is_main_thread,
    value_track_type;
sql_value_fn value_defect_name, value_defect_severity, value_defect_source, value_defect_text;
sql_value_fn value_meta_name, value_meta_type, value_meta_int, value_meta_text;
sql_value_fn value_delay, value_gap_name, value_gap, value_average;

/* The current row. */
struct row {
    const struct sql_table *table;
    struct trace *trace;
    struct cells *cells;
    uint64_t number;
    uint64_t before; /* the row returned before it, ROW_NONE at first */
    sqlite3_destructor_type text_lifetime;
};

/* The slice of the row; ROW_NONE: none. */
uint64_t row_slice(const struct row *row);
/* The text with this number; false if it is empty or absent, for which damage could be the reason. */
bool result_text(const struct row *row, sqlite3_context *ctx, int64_t number);

/* The row of the column's own table that holds its value. */
uint64_t row_of_column(const struct row *row, const struct sql_column *column);
/* The number of a row of any table, as SQL sees it. */
void result_row(const struct row *row, sqlite3_context *ctx, uint64_t number);
/* False if damage could be the reason for the result. */
bool result_value(const struct row *row, sqlite3_context *ctx, enum column column, int64_t value);
