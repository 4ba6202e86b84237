/* SPDX-License-Identifier: Apache-2.0 */
#include "base/statistics.h"
#include "trace/reports/gpu.h"
#include "trace/reports/period.h"
#include "trace/reports/step.h"
#include <errno.h>

struct graph_launch {
    uint64_t launch; /* the slice of the call */
    size_t first;    /* position of its first event in the work */
    size_t n;        /* events */
    int64_t end;     /* of the last */
};

struct graph_launches {
    struct graph_launch *items; /* by when they begin on the GPU */
    size_t n;
    size_t *of; /* of each event of the work its launch's position in items, or n */
};

/* -- Graph launch ---------------------------------------------------------------------------------------- */

static int graph_launch_compare_launches(const void *x, const void *y)
{
    const struct graph_launch *a = x, *b = y;

    return (a->first > b->first) - (a->first < b->first);
}

static int graph_launches_read(const struct gpu_work *work, struct graph_launches *ret)
{
    _cleanup_(freep) struct sort_item *links = calloc(work->n + 1, sizeof(*links));
    size_t n = 0;

    *ret = (struct graph_launches){.items = calloc(work->n / 2 + 1, sizeof(*ret->items)),
                                   .of = calloc(work->n + 1, sizeof(*ret->of))};
    if (!links || !ret->items || !ret->of)
        return -ENOMEM;
    for (size_t i = 0; i < work->n; i++)
        if (gpu_event_launch(&work->events[i]) != SLICE_NONE)
            links[n++] = (struct sort_item){(int64_t)gpu_event_launch(&work->events[i]), i};
    sort_items(links, n);
    for (size_t i = 0, to; i < n; i = to) {
        int64_t end = work->events[links[i].item].end;
        for (to = i + 1; to < n && links[to].number == links[i].number; to++)
            end = MAX(end, work->events[links[to].item].end);
        if (to - i > 1)
            ret->items[ret->n++] =
                (struct graph_launch){(uint64_t)links[i].number, links[i].item, to - i, end};
    }
    qsort(ret->items, ret->n, sizeof(*ret->items), graph_launch_compare_launches);
    /* Positions by launch, to find each event's: both are small numbers of the same order. */
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

static void graph_launches_done(struct graph_launches *g)
{
    free(g->items);
    free(g->of);
    *g = (struct graph_launches){0};
}

/* -- Step recurring -------------------------------------------------------------------------------------- */

/*
 * Steps of a trace in which nobody named any: kernels that recur.
 *
 * Layers recur too. What recurs is taken for steps only where the host gets something of it each time (a copy
 * to it), or an optimizer runs in it, or it is set off by a graph launch of its own; a graph launch belongs
 * to one step. Where that finds nothing, the large launches of graphs are steps, if they are most of the
 * work.
 */

/* Of the stretches, those that must have a mark of a step. */
#define MARKED_MIN 0.5

struct recurrence {
    const struct columns *c;
    const struct gpu_work *work;
    struct graph_launches graphs;
    struct period period;
};

static void recurrence_done(struct recurrence *r)
{
    graph_launches_done(&r->graphs);
    period_done(&r->period);
}

static bool is_copy_to_host(const struct columns *c, const struct gpu_event *e)
{
    static const char mark[] = "DtoH";
    struct text name = columns_text(c, e->name);

    return e->kind == GPU_MEMORY && name.p && memmem(name.p, name.size, mark, sizeof(mark) - 1);
}

/* A stretch must not begin within a graph's launch: it is moved to where the launch begins. */
static void keep_graphs_whole(struct recurrence *r)
{
    struct period *p = &r->period;
    size_t kept = 0;

    for (size_t i = 0; i < p->n; i++) {
        size_t graph = r->graphs.of[p->starts[i]];
        size_t start = graph < r->graphs.n ? MIN(p->starts[i], r->graphs.items[graph].first) : p->starts[i];
        if (kept == 0 || start > p->starts[kept - 1])
            p->starts[kept++] = start;
    }
    p->n = kept;
    if (kept > 0 && r->graphs.n > 0)
        for (size_t graph; p->until < r->work->n && (graph = r->graphs.of[p->until]) < r->graphs.n &&
                           r->graphs.items[graph].first < p->until;)
            p->until++;
}

static bool has_mark(const struct recurrence *r, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const struct gpu_event *e = &r->work->events[i];
        if (e->class == CLASS_OPTIMIZER || is_copy_to_host(r->c, e) || r->graphs.of[i] < r->graphs.n)
            return true;
    }
    return false;
}

static bool are_steps(const struct recurrence *r)
{
    const struct period *p = &r->period;
    size_t marked = 0;

    for (size_t i = 0; i < p->n; i++)
        marked += has_mark(r, p->starts[i], i + 1 < p->n ? p->starts[i + 1] : p->until);
    return p->n >= 2 && (double)marked >= MARKED_MIN * (double)p->n;
}

static int find_period(struct recurrence *r)
{
    const struct gpu_work *work = r->work;
    uint32_t n_texts = columns_texts(r->c);
    _cleanup_(freep) uint32_t *names = calloc(work->n + 1, sizeof(*names));
    _cleanup_(freep) int64_t *pauses = calloc(work->n + 1, sizeof(*pauses));
    int64_t end = INT64_MAX;

    if (!names || !pauses)
        return -ENOMEM;
    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        names[i] = MIN(e->name, n_texts);
        pauses[i] = end < e->ts ? e->ts - end : 0;
        end = i == 0 ? e->end : MAX(end, e->end);
    }
    int err = period_find(names, pauses, work->n, n_texts + 1, PERIOD_LONGEST, &r->period);
    if (err >= 0)
        keep_graphs_whole(r);
    return err;
}

static int add_period(const struct recurrence *r, struct steps *ret)
{
    const struct period *p = &r->period;

    for (size_t i = 0; i < p->n; i++) {
        struct step *step = steps_add(ret);
        if (!step)
            return -ENOMEM;
        for (size_t k = p->starts[i]; k < (i + 1 < p->n ? p->starts[i + 1] : p->until); k++)
            ret->owners[k] = (uint32_t)i;
    }
    ret->source = STEP_BY_PERIOD;
    return 0;
}

/* Launches as large as half the largest, where they are most of the work. */
static int add_graphs(const struct recurrence *r, struct steps *ret)
{
    _cleanup_(freep) uint32_t *numbers = calloc(r->graphs.n + 1, sizeof(*numbers));
    size_t largest = 0, n = 0;

    if (!numbers)
        return -ENOMEM;
    for (size_t i = 0; i < r->graphs.n; i++)
        largest = MAX(largest, r->graphs.items[i].n);
    for (size_t i = 0; i < r->graphs.n; i++)
        n += r->graphs.items[i].n >= largest / 2 ? r->graphs.items[i].n : 0;
    if (n == 0 || n < r->work->n / 2)
        return 0;
    numbers[r->graphs.n] = STEP_NONE; /* what is of no launch */
    for (size_t i = 0; i < r->graphs.n; i++) {
        struct step *step = r->graphs.items[i].n >= largest / 2 ? steps_add(ret) : NULL;
        if (!step && r->graphs.items[i].n >= largest / 2)
            return -ENOMEM;
        numbers[i] = step ? (uint32_t)ret->n - 1 : STEP_NONE;
        if (step)
            step->name = columns_get(r->c, COL_slice_name, r->graphs.items[i].launch);
    }
    for (size_t i = 0; i < r->work->n; i++)
        ret->owners[i] = numbers[r->graphs.of[i]];
    ret->source = STEP_BY_GRAPH;
    return 0;
}

int steps_find_recurring(const struct columns *c, const struct gpu_work *work, struct steps *ret)
{
    _cleanup_(recurrence_done) struct recurrence r = {.c = c, .work = work};
    int err = graph_launches_read(work, &r.graphs);

    if (err >= 0)
        err = find_period(&r);
    if (err < 0)
        return err;
    return are_steps(&r) ? add_period(&r, ret) : add_graphs(&r, ret);
}
