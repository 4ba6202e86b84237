/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/correlation.h"

#include "trace/reports/search.h"
#include <errno.h>

int correlations_read(const struct columns *c, int64_t before, struct correlations *ret)
{
    int64_t slices[BLOCK_ROWS], numbers[BLOCK_ROWS];
    uint64_t rows = columns_rows(c, TABLE_runtime);

    *ret = (struct correlations){.items = malloc((rows + 1) * sizeof(*ret->items))};
    if (!ret->items)
        return -ENOMEM;
    for (uint64_t first = 0; first < rows; first += BLOCK_ROWS) {
        size_t n = columns_block(c, COL_runtime_slice, first, BLOCK_ROWS, slices);
        columns_block(c, COL_runtime_correlation, first, BLOCK_ROWS, numbers);
        for (size_t i = 0; i < n; i++)
            if (slices[i] != COLUMN_NULL && numbers[i] >= 0 &&
                (before == INT64_MAX || columns_get(c, COL_slice_ts, (uint64_t)slices[i]) < before))
                ret->items[ret->n++] = (struct order_key){numbers[i], (size_t)slices[i]};
    }
    order_keys(ret->items, ret->n);
    return 0;
}

void correlations_done(struct correlations *correlations)
{
    free(correlations->items);
    *correlations = (struct correlations){0};
}

size_t correlations_find(const struct correlations *correlations, int64_t correlation)
{
    const struct order_key *items = correlations->items;
    size_t n = correlations->n, at = FIRST_THAT(i, 0, n, items[i].number >= correlation);

    return at < n && items[at].number == correlation ? at : n;
}
