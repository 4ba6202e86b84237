/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a trace's columns, decoded a block at a time where rows are walked through one after the other,
 * and one by one where they are not. Belongs to one cursor.
 */
#pragma once

#include "trace/columns/columns.h"

#define ROW_NONE UINT64_MAX

struct window {
    uint64_t first;
    size_t n;
    int64_t values[BLOCK_ROWS];
};

struct cells {
    const struct columns *columns;
    bool dense; /* most rows of a block will be looked at */
    struct window *windows[_COLUMN_MAX];
    uint64_t found[_TABLE_MAX]; /* where cells_of_slice() was last */
};

/* Begins with another trace, or none. */
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
