/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/arrows.h"

#include <errno.h>

static int compare(const void *pa, const void *pb)
{
    const struct arrow_end *a = pa, *b = pb;

    if (a->slice != b->slice)
        return a->slice < b->slice ? -1 : 1;
    return a->flow < b->flow ? -1 : a->flow > b->flow;
}

int arrows_init(struct arrows *a, const struct selection *s)
{
    uint64_t rows = columns_rows(s->c, TABLE_flow);

    *a = (struct arrows){0};
    if (rows == 0)
        return 0;
    a->ends = reallocarray(NULL, rows, 2 * sizeof(a->ends[0]));
    if (!a->ends)
        return -ENOMEM;
    for (uint64_t flow = 0; flow < rows; flow++) {
        int64_t out = columns_get(s->c, COL_flow_out, flow), in = columns_get(s->c, COL_flow_in, flow);

        if (out < 0 || in < 0 || !selection_has(s, (uint64_t)out) || !selection_has(s, (uint64_t)in))
            continue;
        a->ends[a->n++] = (struct arrow_end){(uint64_t)out, flow, false};
        a->ends[a->n++] = (struct arrow_end){(uint64_t)in, flow, true};
    }
    qsort(a->ends, a->n, sizeof(a->ends[0]), compare);
    return 0;
}

void arrows_done(struct arrows *a)
{
    free(a->ends);
    a->ends = NULL;
}

const struct arrow_end *arrows_at(const struct arrows *a, uint64_t slice, size_t *ret_n)
{
    size_t low = 0, high = a->n, first;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (a->ends[middle].slice < slice)
            low = middle + 1;
        else
            high = middle;
    }
    first = low;
    while (low < a->n && a->ends[low].slice == slice)
        low++;
    *ret_n = low - first;
    return a->n > 0 ? &a->ends[first] : NULL;
}
