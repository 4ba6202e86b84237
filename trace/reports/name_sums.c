/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/name_sums.h"

#include "base/statistics.h"
#include "trace/reports/grouping.h"

#include <errno.h>
#include <math.h>

/* One instance, to be brought together with those of its name. */
struct instance {
    uint32_t group;
    uint32_t rank;
    uint64_t slice;
    int64_t dur;
};

struct name_sums_gathering {
    struct instance *instances;
    size_t n, cap;
    struct name_table names;
    const struct gpu_event **firsts; /* of each name */
    size_t n_firsts;
};

static void name_sums_gathering_done(struct name_sums_gathering *g)
{
    free(g->instances);
    free(g->firsts);
    name_table_done(&g->names);
}

/* Every text of a trace is looked for once. times: NULL for all. */
static int name_sums_gather_rank(struct analysis *a, size_t rank, const struct intervals *times,
                                 struct name_sums_gathering *g)
{
    const struct columns *c = a->ranks[rank].columns;
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r < 0 || work->n == 0)
        return r;
    uint32_t n_texts = columns_texts(c);
    _cleanup_(freep) uint32_t *numbers = calloc((size_t)n_texts + 1, sizeof(*numbers));
    struct instance *instances = reallocarray(g->instances, g->n + work->n, sizeof(*instances));
    if (instances)
        g->instances = instances;
    if (!instances || !numbers)
        return -ENOMEM;
    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        if (e->kind == _GPU_KIND_MAX) /* HTA sums up no such */
            continue;
        if (times && !intervals_find(times, e->ts))
            continue;
        /* The last place is that of what has no name. */
        uint32_t *number = &numbers[e->name >= 0 && e->name < n_texts ? e->name : n_texts];
        if (*number == 0) {
            int64_t found = name_table_number(&g->names, columns_text(c, e->name));
            if (found < 0)
                return (int)found;
            *number = (uint32_t)found + 1;
        }
        if (*number > g->n_firsts) {
            const struct gpu_event **firsts = reallocarray(g->firsts, *number, sizeof(*firsts));
            if (!firsts)
                return -ENOMEM;
            g->firsts = firsts;
            g->firsts[g->n_firsts++] = e;
        }
        g->instances[g->n++] = (struct instance){*number - 1, (uint32_t)rank, e->slice, e->end - e->ts};
    }
    return 0;
}

static int name_sums_compare_sums(const void *x, const void *y)
{
    const struct name_sum *a = x, *b = y;

    if (a->sum != b->sum)
        return (a->sum < b->sum) - (a->sum > b->sum);
    int order = memcmp(a->name.p, b->name.p, MIN(a->name.size, b->name.size));
    return order ? order : (a->name.size > b->name.size) - (a->name.size < b->name.size);
}

/* Statistics of what was counted; two passes, so that large means lose nothing. */
static void name_sums_finish(struct name_sum *s)
{
    double mean = (double)s->sum / (double)s->count, squares = 0;

    for (uint64_t i = 0; i < s->count; i++)
        squares += ((double)s->durations[i] - mean) * ((double)s->durations[i] - mean);
    s->mean = llround(mean);
    s->std = s->count > 1 ? llround(sqrt(squares / (double)(s->count - 1))) : 0;
    s->p50 = percentile(s->durations, s->count, 50);
    s->p99 = percentile(s->durations, s->count, 99);
}

static int name_sums_sum_up(const struct name_sums_gathering *g, struct name_sums *ret)
{
    _cleanup_(freep) size_t *at = calloc(g->names.n + 1, sizeof(*at));

    ret->items = calloc(g->names.n + 1, sizeof(*ret->items));
    ret->durations = calloc(g->n + 1, sizeof(*ret->durations));
    if (!at || !ret->items || !ret->durations)
        return -ENOMEM;
    ret->n = g->names.n;
    for (size_t i = 0; i < g->n; i++) {
        const struct instance *one = &g->instances[i];
        struct name_sum *s = &ret->items[one->group];
        if (s->count == 0 || one->dur < s->min)
            s->min = one->dur, s->min_rank = one->rank, s->min_slice = one->slice;
        if (s->count == 0 || one->dur > s->max)
            s->max = one->dur, s->max_rank = one->rank, s->max_slice = one->slice;
        s->count++;
        s->sum = add_time(s->sum, one->dur);
        ret->total = add_time(ret->total, one->dur);
    }
    size_t place = 0;
    for (size_t i = 0; i < ret->n; i++) {
        at[i] = place;
        place += ret->items[i].count;
    }
    for (size_t i = 0; i < g->n; i++)
        ret->durations[at[g->instances[i].group]++] = g->instances[i].dur;
    for (size_t i = 0; i < ret->n; i++) {
        struct name_sum *s = &ret->items[i];
        int64_t *durations = &ret->durations[at[i] - s->count];
        sort_ns(durations, s->count);
        s->durations = durations;
        s->name = g->names.items[i];
        s->class = g->firsts[i]->class;
        s->kind = g->firsts[i]->kind;
        name_sums_finish(s);
    }
    qsort(ret->items, ret->n, sizeof(*ret->items), name_sums_compare_sums);
    return 0;
}

int name_sums_of_gpu(struct analysis *a, struct name_sums *ret)
{
    _cleanup_(name_sums_gathering_done) struct name_sums_gathering g = {0};
    int r = 0;

    *ret = (struct name_sums){0};
    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = name_sums_gather_rank(a, i, NULL, &g);
    return r < 0 ? r : name_sums_sum_up(&g, ret);
}

int name_sums_within(struct analysis *a, const struct intervals *const *times, struct name_sums *ret)
{
    _cleanup_(name_sums_gathering_done) struct name_sums_gathering g = {0};
    int r = 0;

    *ret = (struct name_sums){0};
    for (size_t i = 0; i < a->n && r >= 0; i++)
        if (times[i])
            r = name_sums_gather_rank(a, i, times[i], &g);
    return r < 0 ? r : name_sums_sum_up(&g, ret);
}

void name_sums_done(struct name_sums *sums)
{
    free(sums->items);
    free(sums->durations);
    *sums = (struct name_sums){0};
}
