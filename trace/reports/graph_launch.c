/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/graph_launch.h"

#include <errno.h>

struct link {
    uint64_t launch;
    size_t event;
};

static int compare_links(const void *x, const void *y)
{
    const struct link *a = x, *b = y;

    if (a->launch != b->launch)
        return a->launch < b->launch ? -1 : 1;
    return (a->event > b->event) - (a->event < b->event);
}

static int compare_launches(const void *x, const void *y)
{
    const struct graph_launch *a = x, *b = y;

    return (a->first > b->first) - (a->first < b->first);
}

int graph_launches_read(const struct gpu_work *work, struct graph_launches *ret)
{
    _cleanup_(freep) struct link *links = calloc(work->n + 1, sizeof(*links));
    size_t n = 0;

    *ret = (struct graph_launches){.items = calloc(work->n / 2 + 1, sizeof(*ret->items)),
                                   .of = calloc(work->n + 1, sizeof(*ret->of))};
    if (!links || !ret->items || !ret->of)
        return -ENOMEM;
    for (size_t i = 0; i < work->n; i++)
        if (work->events[i].launch != SLICE_NONE)
            links[n++] = (struct link){work->events[i].launch, i};
    qsort(links, n, sizeof(*links), compare_links);
    for (size_t i = 0, to; i < n; i = to) {
        int64_t end = work->events[links[i].event].end;
        for (to = i + 1; to < n && links[to].launch == links[i].launch; to++)
            end = MAX(end, work->events[links[to].event].end);
        if (to - i > 1)
            ret->items[ret->n++] = (struct graph_launch){links[i].launch, links[i].event, to - i, end};
    }
    qsort(ret->items, ret->n, sizeof(*ret->items), compare_launches);
    /* Places by launch, to tell each event's: both are small numbers of the same order. */
    for (size_t i = 0; i < work->n; i++)
        ret->of[i] = ret->n;
    for (size_t i = 0; i < ret->n; i++)
        ret->of[ret->items[i].first] = i;
    for (size_t i = 0; i < n; i++) {
        size_t first = i;
        while (i + 1 < n && links[i + 1].launch == links[first].launch)
            ret->of[links[++i].event] = ret->of[links[first].event];
    }
    return 0;
}

void graph_launches_done(struct graph_launches *g)
{
    free(g->items);
    free(g->of);
    *g = (struct graph_launches){0};
}
