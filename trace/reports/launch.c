/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/launch.h"

#include "trace/reports/hta.h"
#include <errno.h>

static int compare(const void *x, const void *y)
{
    const struct launch *a = x, *b = y;

    if (a->call != b->call)
        return (a->call > b->call) - (a->call < b->call);
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* One for each work; its call is looked up when all of a call are together. */
static size_t collect(const struct gpu_work *work, struct launch *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        if (e->launch != SLICE_NONE)
            ret[n++] = (struct launch){
                .call = e->launch, .begin = e->ts, .count = 1, .work = e->end - e->ts, .name = COLUMN_NULL};
    }
    qsort(ret, n, sizeof(*ret), compare);
    return n;
}

static size_t join(struct launch *items, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        struct launch *last = kept > 0 ? &items[kept - 1] : NULL;
        if (last && last->call == items[i].call) {
            last->count++;
            last->work = add_time(last->work, items[i].work);
        } else {
            items[kept++] = items[i];
        }
    }
    return kept;
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
    size_t n = 0;

    *ret = (struct launches){0};
    if (r < 0)
        return r;
    ret->items = calloc(work->n + 1, sizeof(*ret->items));
    if (!ret->items)
        return -ENOMEM;
    n = collect(work, ret->items);
    if (!a->hta)
        n = join(ret->items, n);
    for (size_t i = 0; i < n; i++) {
        struct launch l = ret->items[i];
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
