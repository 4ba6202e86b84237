/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/hash_table.h"
#include "base/statistics.h"
#include "trace/reports/analysis.h"
#include "trace/reports/grouping.h"
#include "trace/reports/report.h"
#include <errno.h>
#include <math.h>

struct graph_run {
    int64_t from, to;  /* of its work */
    int64_t busy;      /* with any of its work under way */
    int64_t gap;       /* since the latest end of those before; COLUMN_NULL for the first */
    int64_t graph_id;  /* COLUMN_NULL if the trace does not contain it */
    uint64_t call;     /* slice of the call */
    uint64_t n;        /* how much work */
    uint64_t sequence; /* hash of the names in order: launches of one graph have the same */
    int64_t first_name;
};

struct graph_runs {
    struct graph_run *items; /* by from */
    size_t n;
};

/* -- Graph run ------------------------------------------------------------------------------------------- */

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

static int graph_run_add(struct graph_runs *launches, size_t *cap, struct groups *calls,
                         const struct columns *c, const struct gpu_event *e)
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

static void graph_runs_done(struct graph_runs *launches)
{
    free(launches->items);
    *launches = (struct graph_runs){0};
}

static int graph_runs_read(struct analysis *a, size_t rank, struct graph_runs *ret)
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
            r = graph_run_add(ret, &cap, &calls, c, &work->events[i]);
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

/* -- Graphs ---------------------------------------------------------------------------------------------- */

/* CUDA and HIP graphs: how often each was launched, how long it takes, what lies between. */

static const struct report_column graphs_columns[] = {
    RANK_COLUMN,
    {"graph", UNIT_ID, "graph id, if the trace contains it"},
    {"launches", UNIT_COUNT, "number of launches"},
    {"kernels", UNIT_COUNT, "number of GPU events per launch"},
    {"sum_ns", UNIT_NS,
     "total time from the start of the first event to the end of the last, over all launches"},
    {"mean_ns", UNIT_NS, "mean duration of a launch"},
    {"min_ns", UNIT_NS, "shortest duration", IMPORTANCE_EXTRA},
    {"p50_ns", UNIT_NS, "median duration"},
    {"p99_ns", UNIT_NS, "99th percentile of the duration"},
    {"max_ns", UNIT_NS, "longest duration"},
    {"std_ns", UNIT_NS, "standard deviation of the duration (n - 1); 0 for a single launch",
     IMPORTANCE_EXTRA},
    {"busy_ns", UNIT_NS, "part of sum_ns with activity of the graph", IMPORTANCE_EXTRA},
    {"gap_ns", UNIT_NS, "total time between the end of the previous graph and the start of this one"},
    {"gap_p50_ns", UNIT_NS, "median of these gaps", IMPORTANCE_EXTRA},
    {"gap_max_ns", UNIT_NS, "longest of these gaps", IMPORTANCE_EXTRA},
    {"call_ns", UNIT_NS, "mean duration of the launch call", IMPORTANCE_EXTRA},
    {"first_kernel", UNIT_TEXT, "first GPU event of the graph", IMPORTANCE_EXTRA},
};

struct graph {
    uint64_t n, n_gaps, work;
    int64_t id, busy, call, first_name;
    int64_t *durs, *gaps; /* of each launch */
};

static int64_t graphs_sum_of(const int64_t *values, uint64_t n)
{
    int64_t sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

static void emit_graph(const struct rank *rank, struct graph *g, struct report_rows *ret)
{
    int64_t sum = graphs_sum_of(g->durs, g->n);
    double mean = (double)sum / (double)g->n;

    sort_ns(g->durs, g->n);
    sort_ns(g->gaps, g->n_gaps);
    emit_int(ret, rank->number);
    emit_int(ret, g->id);
    emit_int(ret, (int64_t)g->n);
    emit_int(ret, (int64_t)g->work);
    emit_int(ret, sum);
    emit_int(ret, llround(mean));
    emit_int(ret, g->durs[0]);
    emit_int(ret, percentile(g->durs, g->n, 50));
    emit_int(ret, percentile(g->durs, g->n, 99));
    emit_int(ret, g->durs[g->n - 1]);
    emit_int(ret, llround(sample_deviation(g->durs, g->n, mean)));
    emit_int(ret, g->busy);
    emit_int(ret, graphs_sum_of(g->gaps, g->n_gaps));
    emit_int(ret, g->n_gaps ? percentile(g->gaps, g->n_gaps, 50) : COLUMN_NULL);
    emit_int(ret, g->n_gaps ? g->gaps[g->n_gaps - 1] : COLUMN_NULL);
    emit_int(ret, g->call / (int64_t)g->n);
    emit_text(ret, columns_text(rank->columns, g->first_name));
}

/* Launches are of one graph where their id is the same, else where they ran the same. */
static struct group_key graphs_key_of(const struct graph_run *l)
{
    return l->graph_id != COLUMN_NULL ? (struct group_key){{1, l->graph_id}}
                                      : (struct group_key){{0, (int64_t)l->sequence, (int64_t)l->n}};
}

static void graphs_add_launch(const struct columns *c, const struct graph_run *l, struct graph *g)
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

static int graphs_emit_runs(const struct rank *rank, const struct graph_runs *launches,
                            struct report_rows *ret)
{
    _cleanup_(groups_done) struct groups groups = {0};
    size_t n = launches->n;
    _cleanup_(freep) uint32_t *group_of = calloc(n + 1, sizeof(*group_of));
    _cleanup_(freep) struct graph *graphs = calloc(n + 1, sizeof(*graphs));
    _cleanup_(freep) int64_t *values = calloc(2 * n + 1, sizeof(*values));

    if (!group_of || !graphs || !values)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int64_t number = groups_number(&groups, graphs_key_of(&launches->items[i]));
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
        graphs_add_launch(rank->columns, &launches->items[i], &graphs[group_of[i]]);
    for (size_t i = 0; i < groups.n; i++)
        emit_graph(rank, &graphs[i], ret);
    return 0;
}

static int graphs_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(graph_runs_done) struct graph_runs launches = {0};
    int r = graph_runs_read(a, rank, &launches);

    return r < 0 ? r : graphs_emit_runs(&a->ranks[rank], &launches, ret);
}

const struct report report_graphs = {
    .name = "graphs",
    .title = "CUDA and HIP graphs: launches, kernels, durations, gaps between them",
    .method = "GPU events launched by cudaGraphLaunch, hipGraphLaunch or similar calls belong to the graph."
              " Launches are grouped by graph id, or by the sequence of names that they ran if the trace "
              "has no id. A gap is the time since the latest end of any previous graph, 0 if they overlap.",
    .needs = NEEDS_GPU,
    .sort_by = "sum_ns",
    .needs_rows = true,
    .columns = graphs_columns,
    .n_columns = ARRAY_SIZE(graphs_columns),
    .make_rank = graphs_make_rank,
};

/* -- Graph list ------------------------------------------------------------------------------------------ */

/* Every launch of a graph. */

static const struct report_column graph_list_columns[] = {
    RANK_COLUMN,
    {"graph", UNIT_ID, "graph id, if the trace contains it"},
    {"start_ns", UNIT_NS, "start of the first event, relative to the first slice of the rank"},
    {"dur_ns", UNIT_NS, "time to the end of the last event"},
    {"kernels", UNIT_COUNT, "number of GPU events"},
    {"busy_ns", UNIT_NS, "time with activity of the graph"},
    {"gap_ns", UNIT_NS, "time since the end of the previous graphs"},
    {"call_ns", UNIT_NS, "duration of the launch call"},
    {"delay_ns", UNIT_NS, "time from the end of the call to the first event; 0 if the event started earlier"},
    {"slice", UNIT_ID, "slice number of the call", IMPORTANCE_EXTRA},
};

static void emit_launch(const struct analysis *a, size_t rank, const struct graph_run *l,
                        struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    int64_t ts = columns_get(c, COL_slice_ts, l->call), dur = MAX(columns_get(c, COL_slice_dur, l->call), 0);

    emit_int(ret, a->ranks[rank].number);
    emit_int(ret, l->graph_id);
    emit_int(ret, analysis_since_first(a, rank, l->from));
    emit_int(ret, l->to - l->from);
    emit_int(ret, (int64_t)l->n);
    emit_int(ret, l->busy);
    emit_int(ret, l->gap);
    emit_int(ret, dur);
    emit_int(ret, MAX(l->from - ts - dur, 0));
    emit_int(ret, (int64_t)l->call);
}

static int graph_list_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(graph_runs_done) struct graph_runs launches = {0};
    int r = graph_runs_read(a, rank, &launches);

    for (size_t i = 0; i < launches.n && r >= 0; i++)
        emit_launch(a, rank, &launches.items[i], ret);
    return r;
}

const struct report report_graph_list = {
    .name = "graph_list",
    .title = "each launch of a CUDA or HIP graph, in order of time",
    .method = "As graphs, one row per launch.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    .needs_rows = true,
    .columns = graph_list_columns,
    .n_columns = ARRAY_SIZE(graph_list_columns),
    .make_rank = graph_list_make_rank,
};
