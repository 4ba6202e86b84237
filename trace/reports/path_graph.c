/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/path_graph.h"

#include "base/array.h"
#include <errno.h>

/* -- Dag ------------------------------------------------------------------------------------------------- */

#define NONE UINT32_MAX

int dag_add(struct dag *g, uint32_t from, uint32_t to, int64_t weight, uint32_t note)
{
    if (!ARRAY_RESERVE(g->edges, g->cap, g->n_edges + 1))
        return -ENOMEM;
    g->edges[g->n_edges++] =
        (struct dag_edge){.from = from, .to = to, .note = note, .weight = MAX(weight, INT64_C(0))};
    return 0;
}

void dag_done(struct dag *g)
{
    free(g->edges);
    *g = (struct dag){0};
}

/* What a walk in topological order (Kahn) needs. */
struct dag_walk {
    uint32_t *first, *next; /* edges that leave a node, and the one after each */
    uint32_t *waits;        /* of a node: edges that come from nodes that were not walked */
    uint32_t *queue;
    uint32_t *by; /* the edge by which the longest path reaches a node */
    int64_t *length;
};

static void walk_done(struct dag_walk *w)
{
    free(w->first);
    free(w->next);
    free(w->waits);
    free(w->queue);
    free(w->by);
    free(w->length);
}

static int walk_init(struct dag_walk *w, const struct dag *g)
{
    size_t n = (size_t)g->n_nodes + 1;

    *w = (struct dag_walk){.first = malloc(n * sizeof(uint32_t)),
                           .next = malloc((g->n_edges + 1) * sizeof(uint32_t)),
                           .waits = calloc(n, sizeof(uint32_t)),
                           .queue = malloc(n * sizeof(uint32_t)),
                           .by = malloc(n * sizeof(uint32_t)),
                           .length = calloc(n, sizeof(int64_t))};
    if (!w->first || !w->next || !w->waits || !w->queue || !w->by || !w->length)
        return -ENOMEM;
    memset(w->first, 0xff, n * sizeof(uint32_t));
    memset(w->by, 0xff, n * sizeof(uint32_t));
    for (uint32_t i = 0; i < g->n_edges; i++) {
        w->next[i] = w->first[g->edges[i].from];
        w->first[g->edges[i].from] = i;
        w->waits[g->edges[i].to]++;
    }
    return 0;
}

static int walk_nodes(struct dag_walk *w, const struct dag *g)
{
    uint32_t n_queued = 0;

    for (uint32_t node = 0; node < g->n_nodes; node++)
        if (w->waits[node] == 0)
            w->queue[n_queued++] = node;
    for (uint32_t i = 0; i < n_queued; i++) {
        uint32_t node = w->queue[i];
        for (uint32_t e = w->first[node]; e != NONE; e = w->next[e]) {
            const struct dag_edge *edge = &g->edges[e];
            if (w->by[edge->to] == NONE || w->length[node] + edge->weight > w->length[edge->to]) {
                w->length[edge->to] = w->length[node] + edge->weight;
                w->by[edge->to] = e;
            }
            if (--w->waits[edge->to] == 0)
                w->queue[n_queued++] = edge->to;
        }
    }
    return n_queued == g->n_nodes ? 0 : -ELOOP;
}

int dag_longest_path(const struct dag *g, uint32_t **ret_edges, size_t *ret_n)
{
    _cleanup_(walk_done) struct dag_walk w;
    int r = walk_init(&w, g);
    uint32_t last = 0;
    size_t n = 0;

    if (r >= 0)
        r = walk_nodes(&w, g);
    if (r < 0)
        return r;
    for (uint32_t node = 1; node < g->n_nodes; node++)
        if (w.length[node] > w.length[last])
            last = node;
    for (uint32_t at = last; g->n_nodes > 0 && w.by[at] != NONE; at = g->edges[w.by[at]].from)
        n++;
    uint32_t *path = malloc((n + 1) * sizeof(*path));
    if (!path)
        return -ENOMEM;
    *ret_n = n;
    for (uint32_t at = last; n > 0; at = g->edges[w.by[at]].from)
        path[--n] = w.by[at];
    *ret_edges = path;
    return 0;
}

/* -- Path graph ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    unsigned flags;
} calls[] = {
    {"cudaDeviceSynchronize", CALL_BLOCKS},
    {"cudaStreamSynchronize", CALL_BLOCKS},
    {"cudaEventQuery", CALL_BLOCKS},
    {"cudaEventSynchronize", CALL_BLOCKS},
    {"cudaMemcpy", CALL_BLOCKS},
    {"cudaMemcpyAsync", CALL_BLOCKS | CALL_LOCKS | CALL_LAUNCHES},
    {"cudaHostAlloc", CALL_LOCKS},
    {"cudaLaunchKernel", CALL_LOCKS | CALL_LAUNCHES},
    {"cudaLaunchKernelExC", CALL_LAUNCHES},
    {"cuLaunchKernel", CALL_LAUNCHES},
    {"cuLaunchKernelEx", CALL_LAUNCHES},
    {"cudaMemsetAsync", CALL_LAUNCHES},
    {"hipLaunchKernel", CALL_LAUNCHES},
    {"hipExtModuleLaunchKernel", CALL_LAUNCHES},
    {"hipMemcpyAsync", CALL_LAUNCHES},
    {"hipMemsetAsync", CALL_LAUNCHES},
    {"hipMemcpyWithStream", CALL_LAUNCHES},
    {"cudaEventRecord", CALL_RECORDS},
};

void path_graph_done(struct path_graph *g)
{
    free(g->events);
    free(g->of_slice);
    free(g->call_flags);
    free(g->launches);
    free(g->on_streams);
    free(g->on_tracks);
    free(g->of_work);
    dag_done(&g->dag);
}

unsigned path_call_flags(struct path_graph *g, int64_t name)
{
    unsigned flags = 0;

    if (name < 0 || name >= g->n_texts)
        return 0;
    if (g->call_flags[name])
        return g->call_flags[name] - 1;
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
        if (text_is(columns_text(g->c, name), calls[i].name))
            flags = calls[i].flags;
    g->call_flags[name] = (uint8_t)(flags + 1);
    return flags;
}

struct path_event *path_add_event(struct path_graph *g)
{
    if (g->n == PATH_EVENTS_MAX)
        return NULL;
    if (!ARRAY_RESERVE(g->events, g->cap, g->n + 1))
        return NULL;
    return &g->events[g->n++];
}

int path_event_error(const struct path_graph *g)
{
    return g->n == PATH_EVENTS_MAX ? -E2BIG : -ENOMEM;
}

int path_depend(struct path_graph *g, uint32_t from, uint32_t to)
{
    return dag_add(&g->dag, from, to, 0, NOTE(to / 2, BOUND_NONE));
}

int path_spend(struct path_graph *g, uint32_t from, uint32_t to, uint32_t event, enum path_bound bound)
{
    return dag_add(&g->dag, from, to, path_node_ts(g, to) - path_node_ts(g, from), NOTE(event, bound));
}
