/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA and HIP graphs: how often each was launched, how long it takes, what lies between. */
#include "base/statistics.h"
#include "trace/reports/graph_run.h"
#include "trace/reports/group.h"
#include "trace/reports/reports.h"
#include <errno.h>
#include <math.h>

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"graph", UNIT_ID, "its id, where the trace tells"},
    {"launches", UNIT_COUNT, "how often it was launched"},
    {"kernels", UNIT_COUNT, "GPU work of one launch"},
    {"sum_ns", UNIT_NS, "from the beginning of its first to the end of its last work, of all launches"},
    {"mean_ns", UNIT_NS, "of one"},
    {"min_ns", UNIT_NS, "of the shortest", IMPORTANCE_EXTRA},
    {"p50_ns", UNIT_NS, "half of them were as short"},
    {"p99_ns", UNIT_NS, "99 of 100 were as short"},
    {"max_ns", UNIT_NS, "of the longest"},
    {"std_ns", UNIT_NS, "standard deviation (n - 1), 0 of a single one", IMPORTANCE_EXTRA},
    {"busy_ns", UNIT_NS, "part of sum_ns in which work of the graph ran", IMPORTANCE_EXTRA},
    {"gap_ns", UNIT_NS, "time between the end of a graph and the beginning of these"},
    {"gap_p50_ns", UNIT_NS, "half of these times were as short", IMPORTANCE_EXTRA},
    {"gap_max_ns", UNIT_NS, "the longest", IMPORTANCE_EXTRA},
    {"call_ns", UNIT_NS, "mean time of the call that launches it", IMPORTANCE_EXTRA},
    {"first_kernel", UNIT_TEXT, "the first of its work", IMPORTANCE_EXTRA},
};
#define COLUMN_SUM 4

struct graph {
    uint64_t n, n_gaps, work;
    int64_t id, busy, call, first_name;
    int64_t *durs, *gaps; /* of each launch */
};

static int64_t sum_of(const int64_t *values, uint64_t n)
{
    int64_t sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

static int64_t deviation(const int64_t *values, uint64_t n, double mean)
{
    double squares = 0;

    for (uint64_t i = 0; i < n; i++)
        squares += ((double)values[i] - mean) * ((double)values[i] - mean);
    return n > 1 ? llround(sqrt(squares / (double)(n - 1))) : 0;
}

static void put_graph(const struct rank *rank, struct graph *g, struct report_rows *ret)
{
    int64_t sum = sum_of(g->durs, g->n);
    double mean = (double)sum / (double)g->n;

    sort_ns(g->durs, g->n);
    sort_ns(g->gaps, g->n_gaps);
    put_int(ret, rank->number);
    put_int(ret, g->id);
    put_int(ret, (int64_t)g->n);
    put_int(ret, (int64_t)g->work);
    put_int(ret, sum);
    put_int(ret, llround(mean));
    put_int(ret, g->durs[0]);
    put_int(ret, percentile(g->durs, g->n, 50));
    put_int(ret, percentile(g->durs, g->n, 99));
    put_int(ret, g->durs[g->n - 1]);
    put_int(ret, deviation(g->durs, g->n, mean));
    put_int(ret, g->busy);
    put_int(ret, sum_of(g->gaps, g->n_gaps));
    put_int(ret, g->n_gaps ? percentile(g->gaps, g->n_gaps, 50) : COLUMN_NULL);
    put_int(ret, g->n_gaps ? g->gaps[g->n_gaps - 1] : COLUMN_NULL);
    put_int(ret, g->call / (int64_t)g->n);
    put_text(ret, columns_text(rank->columns, g->first_name));
}

/* Launches are of one graph where their id is the same, else where they ran the same. */
static struct group_key key_of(const struct graph_run *l)
{
    return l->graph_id != COLUMN_NULL ? (struct group_key){{1, l->graph_id}}
                                      : (struct group_key){{0, (int64_t)l->sequence, (int64_t)l->n}};
}

static void add_launch(const struct columns *c, const struct graph_run *l, struct graph *g)
{
    if (g->n == 0) {
        g->id = l->graph_id;
        g->first_name = l->first_name;
    }
    g->durs[g->n++] = l->to - l->from;
    if (l->gap != COLUMN_NULL)
        g->gaps[g->n_gaps++] = l->gap;
    g->work = MAX(g->work, l->n);
    g->busy += l->busy;
    g->call += MAX(columns_get(c, COL_slice_dur, l->call), 0);
}

static int add_rank(const struct rank *rank, const struct graph_runs *launches, struct report_rows *ret)
{
    _cleanup_(groups_done) struct groups groups = {0};
    size_t n = launches->n;
    _cleanup_(freep) uint32_t *group_of = calloc(n + 1, sizeof(*group_of));
    _cleanup_(freep) struct graph *graphs = calloc(n + 1, sizeof(*graphs));
    _cleanup_(freep) int64_t *values = calloc(2 * n + 1, sizeof(*values));

    if (!group_of || !graphs || !values)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int64_t number = groups_number(&groups, key_of(&launches->items[i]));
        if (number < 0)
            return (int)number;
        group_of[i] = (uint32_t)number;
        graphs[number].n++;
    }
    int64_t *at = values;
    for (size_t i = 0; i < groups.n; i++) {
        graphs[i].durs = at;
        graphs[i].gaps = at + graphs[i].n;
        at += 2 * graphs[i].n;
        graphs[i].n = 0;
    }
    for (size_t i = 0; i < n; i++)
        add_launch(rank->columns, &launches->items[i], &graphs[group_of[i]]);
    for (size_t i = 0; i < groups.n; i++)
        put_graph(rank, &graphs[i], ret);
    return 0;
}

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        _cleanup_(graph_runs_done) struct graph_runs launches = {0};
        r = graph_runs_read(a, i, &launches);
        if (r >= 0)
            r = add_rank(&a->ranks[i], &launches, ret);
    }
    return r < 0 ? r : report_rows_count(ret) == 0 ? -ENODATA : report_rows_sort(ret, COLUMN_SUM, true);
}

const struct report report_graphs = {
    .name = "graphs",
    .title = "CUDA and HIP graphs: launches, kernels, how long they take, gaps between them",
    .how = "GPU work whose launch is cudaGraphLaunch, hipGraphLaunch or the like is the graph's. Launches "
           "belong to one graph by its id, where the trace has none by the sequence of names that they ran. "
           "A gap is the time since the latest end of any graph's work before, 0 where they overlap.",
    .needs = NEEDS_GPU,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
