/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/critical_path.h"

#include "trace/reports/path_graph.h"
#include <errno.h>

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

static int collect(struct path_graph *g, struct critical_path *ret)
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

static int begin(struct path_graph *g, struct analysis *a, size_t rank)
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
    int r = begin(&g, a, rank);

    *ret = (struct critical_path){0};
    for (size_t i = 0; i < ARRAY_SIZE(parts) && r >= 0; i++)
        r = parts[i](&g);
    return r < 0 ? r : collect(&g, ret);
}

void critical_path_done(struct critical_path *path)
{
    free(path->parts);
    *path = (struct critical_path){0};
}
