/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a column that are asked for one by one and nearly in order: a block of them is unpacked at a time. */
#pragma once

#include "trace/columns/columns.h"

/* Zero-initialise, with the first two. */
struct column_cursor {
    const struct columns *c;
    enum column column;
    uint64_t first; /* private */
    size_t n;
    int64_t values[BLOCK_ROWS];
};

static inline int64_t column_cursor_get(struct column_cursor *cursor, uint64_t row)
{
    if (row - cursor->first >= cursor->n) {
        cursor->first = row - row % BLOCK_ROWS;
        cursor->n = columns_block(cursor->c, cursor->column, cursor->first, BLOCK_ROWS, cursor->values);
        if (row - cursor->first >= cursor->n)
            return COLUMN_NULL;
    }
    return cursor->values[row - cursor->first];
}
