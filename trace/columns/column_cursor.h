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

/* The same for values that are near each other but few of a block: a part of one is unpacked at a time. */
struct column_part_cursor {
    const struct columns *c;
    enum column column;
    uint64_t first; /* private */
    size_t n;
    int64_t values[COLUMNS_PART_ROWS];
};

static inline bool column_part_cursor_has(struct column_part_cursor *cursor, uint64_t row)
{
    if (__builtin_expect(row - cursor->first < cursor->n, true))
        return true;
    cursor->first = row - row % COLUMNS_PART_ROWS;
    cursor->n = columns_part(cursor->c, cursor->column, cursor->first, COLUMNS_PART_ROWS, cursor->values);
    return row - cursor->first < cursor->n;
}

static inline int64_t column_part_cursor_get(struct column_part_cursor *cursor, uint64_t row)
{
    return column_part_cursor_has(cursor, row) ? cursor->values[row - cursor->first] : COLUMN_NULL;
}

/* Values from a row on, until `end` at most, and how many they are: at least one. */
static inline const int64_t *column_part_cursor_span(struct column_part_cursor *cursor, uint64_t row,
                                                     uint64_t end, size_t *ret_n)
{
    static const int64_t missing = COLUMN_NULL;

    *ret_n = 1;
    if (!column_part_cursor_has(cursor, row))
        return &missing;
    *ret_n = (size_t)MIN(end - row, cursor->first + cursor->n - row);
    return cursor->values + (row - cursor->first);
}

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
