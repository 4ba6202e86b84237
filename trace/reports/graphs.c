/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/hash_table.h"
#include "trace/reports/aggregation.h"
#include <errno.h>

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
struct graph_name {
    int64_t name;
    bool is_graph;
};

static bool is_graph_launch(const struct columns *c, const struct slice_table *t, uint64_t call,
                            struct graph_name *known)
{
    int64_t name = slice_name(t, call);

    if (name != known->name) {
        struct text text = columns_text(c, name);
        known->name = name;
        known->is_graph = memmem(text.p, text.size, "GraphLaunch", 11) != NULL;
    }
    return known->is_graph;
}

static int graph_run_add(struct graph_runs *launches, size_t *cap, struct groups *calls,
                         const struct columns *c, const struct gpu_event *e)
{
    int64_t number = groups_number(calls, (struct group_key){{(int64_t)gpu_event_launch(e)}});

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
                                .call = gpu_event_launch(e),
                                .first_name = e->name};
    }
    if (l->graph_id == COLUMN_NULL)
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
    struct graph_name known = {.name = COLUMN_NULL};
    size_t cap = 0;
    const struct slice_table *slices;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = analysis_slices(a, rank, &slices);
    *ret = (struct graph_runs){0};
    for (size_t i = 0; r >= 0 && i < work->n; i++)
        if (gpu_event_launch(&work->events[i]) != SLICE_NONE &&
            is_graph_launch(c, slices, gpu_event_launch(&work->events[i]), &known))
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

enum { DUR, GAP, BUSY, WORK, CALL, ID, FIRST_NAME, _VALUE_MAX };

/* Without rounding: the sum divided by the number. */
static void emit_call(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    emit_int(ret, g->values[CALL].sum / (int64_t)g->values[CALL].n);
}

static void emit_first_kernel(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    emit_text(ret, all->names.items[g->values[FIRST_NAME].first]);
}

static const struct report_column graphs_columns[] = {
    RANK_FIGURE,
    {"graph", UNIT_ID, "graph id, if the trace contains it", .figure = {FIGURE_FIRST, ID}},
    {"launches", UNIT_COUNT, "number of launches", .figure = {FIGURE_COUNT}},
    {"kernels", UNIT_COUNT, "number of GPU events per launch", .figure = {FIGURE_MAX, WORK}},
    {"sum_ns", UNIT_NS,
     "total time from the start of the first event to the end of the last, over all launches",
     .figure = {FIGURE_SUM, DUR}},
    {"mean_ns", UNIT_NS, "mean duration of a launch", .figure = {FIGURE_MEAN, DUR}},
    {"min_ns", UNIT_NS, "shortest duration", IMPORTANCE_EXTRA, .figure = {FIGURE_MIN, DUR}},
    {"p50_ns", UNIT_NS, "median duration", .figure = {FIGURE_P50, DUR}},
    {"p99_ns", UNIT_NS, "99th percentile of the duration", .figure = {FIGURE_P99, DUR}},
    {"max_ns", UNIT_NS, "longest duration", .figure = {FIGURE_MAX, DUR}},
    {"std_ns", UNIT_NS, "standard deviation of the duration (n - 1); 0 for a single launch", IMPORTANCE_EXTRA,
     .figure = {FIGURE_DEVIATION, DUR}},
    {"busy_ns", UNIT_NS, "part of sum_ns with activity of the graph", IMPORTANCE_EXTRA,
     .figure = {FIGURE_SUM, BUSY}},
    {"gap_ns", UNIT_NS, "total time between the end of the previous graph and the start of this one",
     .figure = {FIGURE_SUM, GAP}},
    {"gap_p50_ns", UNIT_NS, "median of these gaps", IMPORTANCE_EXTRA, .figure = {FIGURE_P50, GAP}},
    {"gap_max_ns", UNIT_NS, "longest of these gaps", IMPORTANCE_EXTRA, .figure = {FIGURE_MAX, GAP}},
    {"call_ns", UNIT_NS, "mean duration of the launch call", IMPORTANCE_EXTRA,
     .figure = {FIGURE_OTHER, .emit = emit_call}},
    {"first_kernel", UNIT_TEXT, "first GPU event of the graph", IMPORTANCE_EXTRA,
     .figure = {FIGURE_OTHER, .emit = emit_first_kernel}},
};

/* Launches are of one graph where their id is the same, else where they ran the same. */
static struct group_key graphs_key_of(const struct graph_run *l)
{
    return l->graph_id != COLUMN_NULL ? (struct group_key){{1, l->graph_id}}
                                      : (struct group_key){{0, (int64_t)l->sequence, (int64_t)l->n}};
}

static int graphs_gather(struct gathering *g)
{
    _cleanup_(graph_runs_done) struct graph_runs launches = {0};
    int r = graph_runs_read(g->analysis, g->rank, &launches);

    for (size_t i = 0; i < launches.n && r >= 0; i++) {
        const struct graph_run *l = &launches.items[i];
        int64_t values[] = {[DUR] = l->to - l->from,
                            [GAP] = l->gap,
                            [BUSY] = l->busy,
                            [WORK] = (int64_t)l->n,
                            [CALL] = MAX(columns_get(g->c, COL_slice_dur, l->call), 0),
                            [ID] = l->graph_id,
                            [FIRST_NAME] = gathering_text(g, l->first_name)};
        r = gathering_add(g, graphs_key_of(l), values, l->call);
    }
    return r;
}

static const struct aggregation graphs = {.n_values = _VALUE_MAX, .by_rank = true, .gather = graphs_gather};

const struct report report_graphs = {
    .name = "graphs",
    .title = "CUDA and HIP graphs: launches, kernels, durations, gaps between them",
    .method = "GPU events launched by cudaGraphLaunch, hipGraphLaunch or similar calls belong to the graph."
              " Launches are grouped by graph id, or by the sequence of names that they ran if the trace "
              "has no id. A gap is the time since the latest end of any previous graph, 0 if they overlap.",
    .needs = NEEDS_GPU,
    .sort_by = "sum_ns",
    .needs_rows = true,
    REPORT_COLUMNS(graphs),
    .aggregation = &graphs,
};

/* -- Graph list ------------------------------------------------------------------------------------------ */

#define GRAPH_LIST_COLUMNS(C)                                                                                \
    RANK_COLUMN(C)                                                                                           \
    C(graph, ID, "graph id, if the trace contains it")                                                       \
    C(start_ns, NS, "start of the first event, relative to the first slice of the rank")                     \
    C(dur_ns, NS, "time to the end of the last event")                                                       \
    C(kernels, COUNT, "number of GPU events")                                                                \
    C(busy_ns, NS, "time with activity of the graph")                                                        \
    C(gap_ns, NS, "time since the end of the previous graphs")                                               \
    C(call_ns, NS, "duration of the launch call")                                                            \
    C(delay_ns, NS, "time from the end of the call to the first event; 0 if the event started earlier")      \
    C(slice, ID, "slice number of the call", IMPORTANCE_EXTRA)
REPORT_ROW(graph_list, GRAPH_LIST_COLUMNS);

static void emit_launch(const struct analysis *a, size_t rank, const struct graph_run *l,
                        struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    int64_t ts = columns_get(c, COL_slice_ts, l->call), dur = MAX(columns_get(c, COL_slice_dur, l->call), 0);

    EMIT_ROW(graph_list, ret, .rank = a->ranks[rank].number, .graph = l->graph_id,
             .start_ns = analysis_since_first(a, rank, l->from), .dur_ns = l->to - l->from,
             .kernels = (int64_t)l->n, .busy_ns = l->busy, .gap_ns = l->gap, .call_ns = dur,
             .delay_ns = MAX(l->from - ts - dur, 0), .slice = (int64_t)l->call);
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
    REPORT_COLUMNS(graph_list),
    .make_rank = graph_list_make_rank,
};
