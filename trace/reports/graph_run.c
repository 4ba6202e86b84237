/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/graph_run.h"

#include "base/array.h"
#include "base/hash_table.h"
#include "trace/reports/group.h"
#include <errno.h>

/* Of a text that is a name of a call: what was asked last is asked again. */
struct name_look {
    int64_t name;
    bool is_graph;
};

static bool is_graph_launch(const struct columns *c, uint64_t call, struct name_look *look)
{
    int64_t name = columns_get(c, COL_slice_name, call);

    if (name != look->name) {
        struct text text = columns_text(c, name);
        look->name = name;
        look->is_graph = memmem(text.p, text.size, "GraphLaunch", 11) != NULL;
    }
    return look->is_graph;
}

static int add(struct graph_runs *launches, size_t *cap, struct groups *calls, const struct columns *c,
               const struct gpu_event *e)
{
    int64_t number = groups_number(calls, (struct group_key){{(int64_t)e->launch}});

    if (number < 0)
        return (int)number;
    if (!ARRAY_RESERVE(launches->items, *cap, calls->n))
        return -ENOMEM;
    struct graph_run *l = &launches->items[number];
    if ((size_t)number == launches->n) {
        launches->n++;
        *l = (struct graph_run){.from = e->ts,
                                .to = e->ts,
                                .gap = COLUMN_NULL,
                                .graph_id = COLUMN_NULL,
                                .call = e->launch,
                                .first_name = e->name};
    }
    if (l->graph_id == COLUMN_NULL && e->row != SLICE_NONE)
        l->graph_id = columns_get(c, COL_gpu_graph_id, e->row);
    l->busy += MAX(e->end - MAX(e->ts, l->to), 0);
    l->to = MAX(l->to, e->end);
    l->sequence = hash_words(l->sequence, (uint64_t)e->name);
    l->n++;
    return 0;
}

int graph_runs_read(struct analysis *a, size_t rank, struct graph_runs *ret)
{
    _cleanup_(groups_done) struct groups calls = {0};
    const struct columns *c = a->ranks[rank].columns;
    const struct gpu_work *work;
    struct name_look look = {.name = COLUMN_NULL};
    size_t cap = 0;
    int r = analysis_gpu(a, rank, &work);

    *ret = (struct graph_runs){0};
    for (size_t i = 0; r >= 0 && i < work->n; i++)
        if (work->events[i].launch != SLICE_NONE && is_graph_launch(c, work->events[i].launch, &look))
            r = add(ret, &cap, &calls, c, &work->events[i]);
    if (r < 0) {
        graph_runs_done(ret);
        return r;
    }
    int64_t until = INT64_MIN;
    for (size_t i = 0; i < ret->n; i++) {
        if (i > 0)
            ret->items[i].gap = MAX(ret->items[i].from - until, 0);
        until = MAX(until, ret->items[i].to);
    }
    return 0;
}

void graph_runs_done(struct graph_runs *launches)
{
    free(launches->items);
    *launches = (struct graph_runs){0};
}
