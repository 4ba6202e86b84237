/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/graph_launch.h"

#include "base/order.h"
#include <errno.h>

static int compare_launches(const void *x, const void *y)
{
    const struct graph_launch *a = x, *b = y;

    return (a->first > b->first) - (a->first < b->first);
}

int graph_launches_read(const struct gpu_work *work, struct graph_launches *ret)
{
    _cleanup_(freep) struct order_key *links = calloc(work->n + 1, sizeof(*links));
    size_t n = 0;

    *ret = (struct graph_launches){.items = calloc(work->n / 2 + 1, sizeof(*ret->items)),
                                   .of = calloc(work->n + 1, sizeof(*ret->of))};
    if (!links || !ret->items || !ret->of)
        return -ENOMEM;
    for (size_t i = 0; i < work->n; i++)
        if (work->events[i].launch != SLICE_NONE)
            links[n++] = (struct order_key){(int64_t)work->events[i].launch, i};
    order_keys(links, n);
    for (size_t i = 0, to; i < n; i = to) {
        int64_t end = work->events[links[i].item].end;
        for (to = i + 1; to < n && links[to].number == links[i].number; to++)
            end = MAX(end, work->events[links[to].item].end);
        if (to - i > 1)
            ret->items[ret->n++] =
                (struct graph_launch){(uint64_t)links[i].number, links[i].item, to - i, end};
    }
    qsort(ret->items, ret->n, sizeof(*ret->items), compare_launches);
    /* Places by launch, to tell each event's: both are small numbers of the same order. */
    for (size_t i = 0; i < work->n; i++)
        ret->of[i] = ret->n;
    for (size_t i = 0; i < ret->n; i++)
        ret->of[ret->items[i].first] = i;
    for (size_t i = 0; i < n; i++) {
        size_t first = i;
        while (i + 1 < n && links[i + 1].number == links[first].number)
            ret->of[links[++i].item] = ret->of[links[first].item];
    }
    return 0;
}

void graph_launches_done(struct graph_launches *g)
{
    free(g->items);
    free(g->of);
    *g = (struct graph_launches){0};
}
