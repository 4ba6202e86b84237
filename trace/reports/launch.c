/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/launch.h"

#include "base/order.h"
#include "trace/reports/hta.h"
#include <errno.h>

/* Work by its call, and of one call by when it begins. */
static size_t order_work(const struct gpu_work *work, struct order_key *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < work->n; i++)
        if (work->events[i].launch != SLICE_NONE)
            ret[n++] = (struct order_key){(int64_t)work->events[i].launch, i};
    order_keys(ret, n);
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
    _cleanup_(freep) struct order_key *order = malloc((work->n + 1) * sizeof(*order));
    ret->items = calloc(work->n + 1, sizeof(*ret->items));
    if (!order || !ret->items)
        return -ENOMEM;
    size_t n = order_work(work, order);
    for (size_t from = 0, to; from < n; from = to) {
        struct launch l = {.call = (uint64_t)order[from].number, .begin = work->events[order[from].item].ts};
        for (to = from; to < n && order[to].number == order[from].number && (to == from || !a->hta); to++) {
            const struct gpu_event *e = &work->events[order[to].item];
            l.work = add_time(l.work, e->end - e->ts);
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
