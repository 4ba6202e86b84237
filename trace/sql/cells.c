/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/cells.h"

/* Steps from the last row found before a search is the shorter way. */
#define STEPS_MAX 8

void cells_use(struct cells *cells, const struct columns *columns)
{
    if (cells->columns == columns)
        return;
    cells->columns = columns;
    for (size_t i = 0; i < _COLUMN_MAX; i++) {
        if (cells->windows[i])
            cells->windows[i]->n = 0;
    }
    memset(cells->found, 0, sizeof(cells->found));
}

void cells_done(struct cells *cells)
{
    for (size_t i = 0; i < _COLUMN_MAX; i++)
        free(cells->windows[i]);
}

/* by_track and by_name are always walked through; of tables that are looked up a block would be wasted. */
static bool is_walked(const struct cells *cells, enum column column)
{
    switch (column_specs[column].table) {
    case TABLE_by_track:
    case TABLE_by_name:
        return true;
    case TABLE_track:
    case TABLE_thread:
    case TABLE_process:
        return false;
    default:
        return cells->dense;
    }
}

int64_t cells_read(struct cells *cells, enum column column, uint64_t row)
{
    struct window **w = &cells->windows[column];

    if (!is_walked(cells, column))
        return columns_get(cells->columns, column, row);
    if (!*w)
        *w = calloc(1, sizeof(**w));
    if (!*w)
        return columns_get(cells->columns, column, row);
    (*w)->first = row - row % BLOCK_ROWS;
    (*w)->n = columns_block(cells->columns, column, (*w)->first, BLOCK_ROWS, (*w)->values);
    return row - (*w)->first < (*w)->n ? (*w)->values[row - (*w)->first] : COLUMN_NULL;
}

uint64_t cells_of_slice(struct cells *cells, enum column_table table, uint64_t slice)
{
    enum column key = table == TABLE_launch ? COL_launch_gpu : arg_group_slice(table);
    uint64_t rows = columns_rows(cells->columns, table), row = cells->found[table];
    int64_t wanted = (int64_t)slice;

    if (row >= rows || cells_get(cells, key, row) > wanted)
        row = 0;
    for (int i = 0; row < rows && cells_get(cells, key, row) < wanted; row++) {
        if (++i < STEPS_MAX)
            continue;
        row = columns_lower_bound(cells->columns, key, wanted);
        break;
    }
    cells->found[table] = row;
    return row < rows && cells_get(cells, key, row) == wanted ? row : ROW_NONE;
}
