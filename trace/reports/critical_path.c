/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/critical_path.h"

#include "trace/reports/path_graph.h"
#include "trace/reports/report.h"
#include <errno.h>

/* -- Critical path --------------------------------------------------------------------------------------- */

static const char *const bound_names[_PATH_BOUND_MAX] = {
    [BOUND_CPU] = "cpu_bound",
    [BOUND_GPU_COMPUTE] = "gpu_compute_bound",
    [BOUND_GPU_COMMUNICATION] = "gpu_communication_bound",
    [BOUND_KERNEL_KERNEL] = "gpu_kernel_kernel_overhead",
    [BOUND_LAUNCH] = "gpu_kernel_launch_overhead",
    [BOUND_NONE] = "",
};

const char *path_bound_name(enum path_bound bound)
{
    return bound_names[bound];
}

static int critical_path_collect(struct path_graph *g, struct critical_path *ret)
{
    _cleanup_(freep) uint32_t *path = NULL;
    size_t n = 0;

    g->dag.n_nodes = (uint32_t)(2 * g->n);
    int r = dag_longest_path(&g->dag, &path, &n);
    if (r < 0)
        return r;
    ret->parts = calloc(n + 1, sizeof(*ret->parts));
    if (!ret->parts)
        return -ENOMEM;
    ret->n_nodes = n + 1;
    ret->n_edges = g->dag.n_edges;
    for (size_t i = 0; i < n; i++) {
        const struct dag_edge *e = &g->dag.edges[path[i]];
        if (e->weight == 0)
            continue;
        ret->parts[ret->n++] = (struct path_part){.bound = NOTE_BOUND(e->note),
                                                  .slice = g->events[NOTE_EVENT(e->note)].slice,
                                                  .from = path_node_ts(g, e->from),
                                                  .dur = e->weight};
        ret->length += e->weight;
    }
    return 0;
}

static int critical_path_begin(struct path_graph *g, struct analysis *a, size_t rank)
{
    int r = analysis_all_gpu(a, rank, &g->work);

    if (r >= 0)
        r = analysis_times(a, rank, &g->times);
    if (r < 0)
        return r;
    g->n_texts = columns_texts(g->c);
    g->of_slice = calloc(columns_rows(g->c, TABLE_slice) + 1, sizeof(*g->of_slice));
    g->call_flags = calloc((size_t)g->n_texts + 1, 1);
    r = g->of_slice && g->call_flags ? path_gather_host(g) : -ENOMEM;
    return r < 0 ? r : g->n_host == 0 ? -ENODATA : 0;
}

int critical_path_find(struct analysis *a, size_t rank, struct critical_path *ret)
{
    static int (*const parts[])(struct path_graph * g) = {path_add_lock, path_add_threads,
                                                          path_gather_launches, path_add_gpu};
    _cleanup_(path_graph_done) struct path_graph g = {.c = a->ranks[rank].columns};
    int r = critical_path_begin(&g, a, rank);

    *ret = (struct critical_path){0};
    for (size_t i = 0; i < ARRAY_SIZE(parts) && r >= 0; i++)
        r = parts[i](&g);
    return r < 0 ? r : critical_path_collect(&g, ret);
}

void critical_path_done(struct critical_path *path)
{
    free(path->parts);
    *path = (struct critical_path){0};
}

/* -- Critical path report -------------------------------------------------------------------------------- */

#define CRITICAL_PATH_COLUMNS(C)                                                                             \
    RANK_COLUMN(C)                                                                                           \
    C(bound, TEXT,                                                                                           \
      "bound: cpu_bound, gpu_compute_bound, gpu_communication_bound, gpu_kernel_kernel_overhead, "           \
      "gpu_kernel_launch_overhead")                                                                          \
    C(name, TEXT, "name of the event; empty for the sum of the bound")                                       \
    C(count, COUNT, "number of segments of the path")                                                        \
    C(sum_ns, NS, "total duration of the segments")                                                          \
    C(share, SHARE, "share of the path")
REPORT_ROW(critical_path, CRITICAL_PATH_COLUMNS);

#define LIST_COLUMNS(C)                                                                                      \
    RANK_COLUMN(C)                                                                                           \
    C(start_ns, NS, "start of the segment, relative to the first slice of the rank")                         \
    C(dur_ns, NS, "duration of the segment")                                                                 \
    C(bound, TEXT, "bound, as in critical_path")                                                             \
    C(name, TEXT, "name of the event")                                                                       \
    C(slice, ID, "slice number of the event")
REPORT_ROW(list, LIST_COLUMNS);

/* A part with what it is summed up by. */
struct critical_path_sum {
    enum path_bound bound;
    int64_t name;
    int64_t count, ns;
};

static int critical_path_compare_names(const void *x, const void *y)
{
    const struct critical_path_sum *a = x, *b = y;

    return a->bound != b->bound ? (int)a->bound - (int)b->bound : (a->name > b->name) - (a->name < b->name);
}

static int critical_path_compare_sums(const void *x, const void *y)
{
    const struct critical_path_sum *a = x, *b = y;

    return (a->ns < b->ns) - (a->ns > b->ns);
}

static size_t merge_equal(struct critical_path_sum *sums, size_t n)
{
    size_t kept = 0;

    qsort(sums, n, sizeof(*sums), critical_path_compare_names);
    for (size_t i = 0; i < n; i++)
        if (kept > 0 && critical_path_compare_names(&sums[kept - 1], &sums[i]) == 0) {
            sums[kept - 1].count += sums[i].count;
            sums[kept - 1].ns += sums[i].ns;
        } else {
            sums[kept++] = sums[i];
        }
    qsort(sums, kept, sizeof(*sums), critical_path_compare_sums);
    return kept;
}

static void emit_sum(struct analysis *a, size_t rank, const struct critical_path_sum *s, bool is_total,
                     int64_t length, struct report_rows *ret)
{
    struct text none = {0};

    EMIT_ROW(critical_path, ret, .rank = a->ranks[rank].number, .bound = row_str(path_bound_name(s->bound)),
             .name = is_total ? none : columns_text(a->ranks[rank].columns, s->name), .count = s->count,
             .sum_ns = s->ns, .share = row_share(s->ns, length));
}

static int critical_path_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(critical_path_done) struct critical_path path = {0};
    struct critical_path_sum totals[_PATH_BOUND_MAX] = {0};
    int r = critical_path_find(a, rank, &path);

    if (r == -ENODATA)
        return 0;
    _cleanup_(freep) struct critical_path_sum *sums = r < 0 ? NULL : calloc(path.n + 1, sizeof(*sums));
    if (!sums)
        return r < 0 ? r : -ENOMEM;
    for (size_t i = 0; i < path.n; i++) {
        const struct path_part *part = &path.parts[i];
        sums[i] = (struct critical_path_sum){
            part->bound, columns_get(a->ranks[rank].columns, COL_slice_name, part->slice), 1, part->dur};
        totals[part->bound].bound = part->bound;
        totals[part->bound].count++;
        totals[part->bound].ns += part->dur;
    }
    size_t n = merge_equal(sums, path.n);
    qsort(totals, _PATH_BOUND_MAX, sizeof(*totals), critical_path_compare_sums);
    for (size_t i = 0; i < _PATH_BOUND_MAX && totals[i].ns > 0; i++)
        emit_sum(a, rank, &totals[i], true, path.length, ret);
    for (size_t i = 0; i < n; i++)
        emit_sum(a, rank, &sums[i], false, path.length, ret);
    return 0;
}

static int list_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(critical_path_done) struct critical_path path = {0};
    const struct columns *c = a->ranks[rank].columns;
    int r = critical_path_find(a, rank, &path);

    for (size_t i = 0; i < path.n && r >= 0; i++) {
        EMIT_ROW(list, ret, .rank = a->ranks[rank].number,
                 .start_ns = analysis_since_first(a, rank, path.parts[i].from), .dur_ns = path.parts[i].dur,
                 .bound = row_str(path_bound_name(path.parts[i].bound)),
                 .name = columns_text(c, columns_get(c, COL_slice_name, path.parts[i].slice)),
                 .slice = (int64_t)path.parts[i].slice);
    }
    return r == -ENODATA ? 0 : r;
}

const struct report report_critical_path = {
    .name = "critical_path",
    .title = "events that determine the total duration",
    .method = "The longest path through calls, launches, streams and synchronisation, after the critical "
              "path of Holistic Trace Analysis. Rows without a name are the sum of a bound.",
    .needs = NEEDS_GPU | NEEDS_OPS,
    .is_detail = true,
    REPORT_COLUMNS(critical_path),
    .make_rank = critical_path_make_rank,
};

const struct report report_critical_path_list = {
    .name = "critical_path_list",
    .title = "segments of the critical path in order",
    .method = "As critical_path, one row per segment.",
    .needs = NEEDS_GPU | NEEDS_OPS,
    .is_detail = true,
    REPORT_COLUMNS(list),
    .make_rank = list_rank,
};
