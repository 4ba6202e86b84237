/* SPDX-License-Identifier: Apache-2.0 */
/* What launching costs: the calls, how long until their work begins, work that is shorter than its call. */
#include "base/array.h"
#include "base/statistics.h"
#include "trace/reports/launch.h"
#include "trace/reports/name_table.h"
#include "trace/reports/reports.h"

#include <errno.h>

/* HTA counts no launch as short whose call took longer: something else was wrong with it. */
#define HTA_CALL_MAX_NS 50000

static const struct report_column columns[] = {
    {"name", UNIT_TEXT, "of the call that launched"},
    {"count", UNIT_COUNT, "calls that launched something"},
    {"work", UNIT_COUNT, "kernels, copies and memsets that they launched"},
    {"call_ns", UNIT_NS, "time of the host in these calls", IMPORTANCE_HIGH},
    {"mean_call_ns", UNIT_NS, "of one call"},
    {"work_ns", UNIT_NS, "time of what they launched", IMPORTANCE_EXTRA},
    {"mean_delay_ns", UNIT_NS, "from the end of the call until its first work begins, at least 0",
     IMPORTANCE_HIGH},
    {"p50_delay_ns", UNIT_NS, "half of the delays were as short", IMPORTANCE_EXTRA},
    {"p99_delay_ns", UNIT_NS, "99 of 100 delays were as short"},
    {"max_delay_ns", UNIT_NS, "the longest delay", IMPORTANCE_EXTRA},
    {"mean_latency_ns", UNIT_NS, "from the beginning of the call until its first work begins",
     IMPORTANCE_EXTRA},
    {"short_kernels", UNIT_COUNT, "calls that took longer than all that they launched"},
    {"short_share", UNIT_SHARE, "short_kernels of count", IMPORTANCE_EXTRA},
};

/* Of the calls of one name. */
struct sums {
    int64_t count, work_count, call, work, delay, latency, short_count;
    int64_t *delays; /* a part of all: `count` of them, to be sorted */
};

struct delay {
    uint32_t group;
    int64_t ns;
};

struct gathering {
    struct name_table names;
    struct sums *groups; /* by number of the name */
    size_t groups_cap;
    struct delay *delays;
    size_t n;
};

static void gathering_done(struct gathering *g)
{
    name_table_done(&g->names);
    free(g->groups);
    free(g->delays);
}

/* The group of a call's name, or NULL without memory. */
static struct sums *find_group(struct gathering *g, struct text name, uint32_t *ret_number)
{
    int64_t number = name_table_number(&g->names, name);

    if (number < 0)
        return NULL;
    if (!ARRAY_RESERVE_ZEROED(g->groups, g->groups_cap, g->names.n))
        return NULL;
    *ret_number = (uint32_t)number;
    return &g->groups[number];
}

static void add_launch(struct sums *s, const struct launch *l, int64_t delay, bool by_hta)
{
    int64_t call = l->end - l->ts;

    s->count++;
    s->work_count += (int64_t)l->count;
    s->call = add_time(s->call, call);
    s->work = add_time(s->work, l->work);
    s->delay = add_time(s->delay, delay);
    s->latency = add_time(s->latency, l->begin - l->ts);
    s->short_count += l->work < call && (!by_hta || call <= HTA_CALL_MAX_NS);
}

static int gather_rank(struct analysis *a, size_t rank, struct gathering *g)
{
    _cleanup_(launches_done) struct launches launches = {0};
    int r = launches_read(a, rank, &launches);

    if (r < 0)
        return r;
    struct delay *delays = reallocarray(g->delays, g->n + launches.n + 1, sizeof(*delays));
    if (!delays)
        return -ENOMEM;
    g->delays = delays;
    for (size_t i = 0; i < launches.n; i++) {
        const struct launch *l = &launches.items[i];
        struct delay delay = {.ns = MAX(l->begin - l->end, 0)};
        struct sums *s = find_group(g, columns_text(a->ranks[rank].columns, l->name), &delay.group);
        if (!s)
            return -ENOMEM;
        add_launch(s, l, delay.ns, a->hta);
        delays[g->n++] = delay;
    }
    return 0;
}

/* Brings the delays of each name together, in order. */
static int sort_delays(struct gathering *g, int64_t **ret)
{
    int64_t *all = calloc(g->n + 1, sizeof(*all));
    size_t place = 0;

    if (!all)
        return -ENOMEM;
    for (size_t i = 0; i < g->names.n; i++) {
        g->groups[i].delays = all + place;
        place += (size_t)g->groups[i].count;
    }
    for (size_t i = 0; i < g->n; i++)
        *g->groups[g->delays[i].group].delays++ = g->delays[i].ns;
    for (size_t i = 0; i < g->names.n; i++) {
        g->groups[i].delays -= g->groups[i].count;
        sort_ns(g->groups[i].delays, (size_t)g->groups[i].count);
    }
    *ret = all;
    return 0;
}

static int64_t mean(int64_t sum, int64_t n)
{
    return add_time(sum, sum < 0 ? -(n / 2) : n / 2) / n;
}

static void put_group(struct text name, const struct sums *s, struct report_rows *ret)
{
    uint64_t n = (uint64_t)s->count;

    put_text(ret, name);
    put_int(ret, s->count);
    put_int(ret, s->work_count);
    put_int(ret, s->call);
    put_int(ret, mean(s->call, s->count));
    put_int(ret, s->work);
    put_int(ret, mean(s->delay, s->count));
    put_int(ret, percentile(s->delays, n, 50));
    put_int(ret, percentile(s->delays, n, 99));
    put_int(ret, s->delays[n - 1]);
    put_int(ret, mean(s->latency, s->count));
    put_int(ret, s->short_count);
    put_share(ret, s->short_count, s->count);
}

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(gathering_done) struct gathering g = {0};
    _cleanup_(freep) int64_t *delays = NULL;
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = gather_rank(a, i, &g);
    if (r >= 0)
        r = sort_delays(&g, &delays);
    for (size_t i = 0; i < g.names.n && r >= 0; i++)
        put_group(g.names.items[i], &g.groups[i], ret);
    return r < 0 ? r : report_rows_sort(ret, 3, true);
}

const struct report report_launches = {
    .name = "launches",
    .title = "calls that launch GPU work: their time, delays, work shorter than its launch",
    .how = "Calls and work are brought together by correlation. A call that launches much (a graph) counts "
           "once: its delay is that of its first work, and it is short where all of its work is. With --hta "
           "after Holistic Trace Analysis: each work on its own, of cudaLaunchKernel, cudaLaunchKernelExC, "
           "cudaMemcpyAsync and cudaMemsetAsync alone, short only where the call took 50 us at most.",
    .needs = NEEDS_GPU,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
