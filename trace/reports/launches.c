/* SPDX-License-Identifier: Apache-2.0 */
/* What launching costs: the calls, how long until their work begins, work that is shorter than its call. */
#include "trace/reports/launch.h"
#include "trace/reports/name_table.h"
#include "trace/reports/reports.h"
#include "trace/reports/statistics.h"

#include <errno.h>

/* HTA counts no launch as short whose call took longer: something else was wrong with it. */
#define HTA_CALL_MAX_NS 50000

static const struct report_column columns[] = {
    {"name", UNIT_TEXT, "of the call that launched"},
    {"count", UNIT_COUNT, "calls that launched something"},
    {"work", UNIT_COUNT, "kernels, copies and memsets that they launched"},
    {"call_ns", UNIT_NS, "time of the host in these calls"},
    {"mean_call_ns", UNIT_NS, "of one call"},
    {"work_ns", UNIT_NS, "time of what they launched", true},
    {"mean_delay_ns", UNIT_NS, "from the end of the call until its first work begins, at least 0"},
    {"p50_delay_ns", UNIT_NS, "half of the delays were as short", true},
    {"p99_delay_ns", UNIT_NS, "99 of 100 delays were as short"},
    {"max_delay_ns", UNIT_NS, "the longest delay", true},
    {"mean_latency_ns", UNIT_NS, "from the beginning of the call until its first work begins", true},
    {"short_kernels", UNIT_COUNT, "calls that took longer than all that they launched"},
    {"short_share", UNIT_SHARE, "short_kernels of count", true},
};

/* A launch with its name's number over all ranks. */
struct one {
    uint32_t group;
    int64_t delay, latency, call, work;
    uint64_t count;
};

struct all {
    struct one *items;
    size_t n;
    struct name_table names;
};

static void all_done(struct all *all)
{
    free(all->items);
    name_table_done(&all->names);
}

static int gather(struct analysis *a, size_t rank, struct all *all)
{
    _cleanup_(launches_done) struct launches launches = {0};
    int r = launches_read(a, rank, &launches);

    if (r < 0)
        return r;
    struct one *items = reallocarray(all->items, all->n + launches.n + 1, sizeof(*items));
    if (!items)
        return -ENOMEM;
    all->items = items;
    for (size_t i = 0; i < launches.n; i++) {
        const struct launch *l = &launches.items[i];
        int64_t number = name_table_number(&all->names, columns_text(a->ranks[rank].columns, l->name));
        if (number < 0)
            return (int)number;
        items[all->n++] = (struct one){.group = (uint32_t)number,
                                       .delay = MAX(l->begin - l->end, 0),
                                       .latency = l->begin - l->ts,
                                       .call = l->end - l->ts,
                                       .work = l->work,
                                       .count = l->count};
    }
    return 0;
}

static int compare(const void *x, const void *y)
{
    const struct one *a = x, *b = y;

    if (a->group != b->group)
        return (a->group > b->group) - (a->group < b->group);
    return (a->delay > b->delay) - (a->delay < b->delay);
}

static int64_t mean(int64_t sum, size_t n)
{
    int64_t half = (int64_t)(n / 2);

    return add_time(sum, sum < 0 ? -half : half) / (int64_t)n;
}

/* Those of one name; the delays in order. */
static void add_name(const struct analysis *a, struct text name, const struct one *items,
                     const int64_t *delays, size_t n, struct report_rows *ret)
{
    int64_t call = 0, work = 0, delay = 0, latency = 0, n_work = 0, n_short = 0;

    for (size_t i = 0; i < n; i++) {
        call = add_time(call, items[i].call);
        work = add_time(work, items[i].work);
        delay = add_time(delay, items[i].delay);
        latency = add_time(latency, items[i].latency);
        n_work += (int64_t)items[i].count;
        n_short += items[i].work < items[i].call && (!a->hta || items[i].call <= HTA_CALL_MAX_NS);
    }
    put_text(ret, name);
    put_int(ret, (int64_t)n);
    put_int(ret, n_work);
    put_int(ret, call);
    put_int(ret, mean(call, n));
    put_int(ret, work);
    put_int(ret, mean(delay, n));
    put_int(ret, percentile(delays, n, 50));
    put_int(ret, percentile(delays, n, 99));
    put_int(ret, delays[n - 1]);
    put_int(ret, mean(latency, n));
    put_int(ret, n_short);
    put_share(ret, n_short, (int64_t)n);
}

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(all_done) struct all all = {0};
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = gather(a, i, &all);
    if (r < 0)
        return r;
    _cleanup_(freep) int64_t *delays = calloc(all.n + 1, sizeof(*delays));
    if (!delays)
        return -ENOMEM;
    if (all.n > 0)
        qsort(all.items, all.n, sizeof(*all.items), compare);
    for (size_t i = 0; i < all.n; i++)
        delays[i] = all.items[i].delay;
    for (size_t from = 0, to; from < all.n; from = to) {
        for (to = from; to < all.n && all.items[to].group == all.items[from].group;)
            to++;
        add_name(a, all.names.items[all.items[from].group], &all.items[from], &delays[from], to - from, ret);
    }
    return report_rows_sort(ret, 3, true);
}

const struct report report_launches = {
    .name = "launches",
    .title = "calls that launch GPU work: their time, delays, work shorter than its launch",
    .how = "Calls and work are brought together by correlation. A call that launches much (a graph) counts "
           "once: "
           "its delay is that of its first work, and it is short where all of its work is. With --hta after "
           "Holistic Trace Analysis: each work on its own, of cudaLaunchKernel, cudaLaunchKernelExC, "
           "cudaMemcpyAsync and cudaMemsetAsync alone, short only where the call took 50 us at most.",
    .needs = NEEDS_GPU,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
