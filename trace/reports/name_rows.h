/* SPDX-License-Identifier: Apache-2.0 */
/* The slices of one name and category, as a trace groups them: places in by_name. */
#pragma once

#include "trace/columns/columns.h"

struct name_rows {
    uint64_t first, end;
};

/* Within the table, whatever a damaged file says. */
static inline struct name_rows name_rows_of(const struct columns *c, uint64_t group)
{
    int64_t first = columns_get(c, COL_name_first, group), count = columns_get(c, COL_name_count, group);
    uint64_t rows = columns_rows(c, TABLE_by_name);

    if (first < 0 || count < 0 || (uint64_t)first >= rows)
        return (struct name_rows){0, 0};
    return (struct name_rows){(uint64_t)first,
                              (uint64_t)first + MIN((uint64_t)count, rows - (uint64_t)first)};
}
