/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/launch.h"

#include "trace/reports/hta.h"
#include <errno.h>

/* A work and its call; small, since they are sorted. */
struct pair {
    uint64_t call;
    int64_t begin, work;
};

static int compare(const void *x, const void *y)
{
    const struct pair *a = x, *b = y;

    if (a->call != b->call)
        return (a->call > b->call) - (a->call < b->call);
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static size_t find_pairs(const struct gpu_work *work, struct pair *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        if (e->launch != SLICE_NONE)
            ret[n++] = (struct pair){e->launch, e->ts, e->end - e->ts};
    }
    qsort(ret, n, sizeof(*ret), compare);
    return n;
}

/* False for what is no finished call. */
static bool look_up(const struct columns *c, struct launch *l)
{
    int64_t dur = columns_get(c, COL_slice_dur, l->call);

    l->name = columns_get(c, COL_slice_name, l->call);
    l->ts = columns_get(c, COL_slice_ts, l->call);
    l->end = add_time(l->ts, dur);
    return l->ts >= -GPU_TIME_MAX && dur >= 0 && l->end <= GPU_TIME_MAX;
}

int launches_read(struct analysis *a, size_t rank, struct launches *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    *ret = (struct launches){0};
    if (r < 0)
        return r;
    _cleanup_(freep) struct pair *pairs = malloc((work->n + 1) * sizeof(*pairs));
    ret->items = calloc(work->n + 1, sizeof(*ret->items));
    if (!pairs || !ret->items)
        return -ENOMEM;
    size_t n = find_pairs(work, pairs);
    for (size_t from = 0, to; from < n; from = to) {
        struct launch l = {.call = pairs[from].call, .begin = pairs[from].begin};
        for (to = from; to < n && pairs[to].call == l.call && (to == from || !a->hta); to++) {
            l.work = add_time(l.work, pairs[to].work);
            l.count++;
        }
        if (look_up(c, &l) && (!a->hta || hta_is_launch(columns_text(c, l.name))))
            ret->items[ret->n++] = l;
    }
    return 0;
}

void launches_done(struct launches *launches)
{
    free(launches->items);
    *launches = (struct launches){0};
}
