/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strongly connected components of a directed graph: which nodes reach each other, as functions do that call
 * each other recursively. Tarjan (1972), iterative, in O(nodes + edges). Pure.
 */
#pragma once

#include "base/util.h"
#include <errno.h>

#define COMPONENT_UNSEEN UINT32_MAX

struct component_walk {
    uint32_t *first, *targets; /* edges by source: those of node i are first[i] to first[i + 1] */
    uint32_t *next;            /* the edge that a node looks at next */
    uint32_t *found, *low;     /* order of discovery, and the oldest that is reached from a node */
    uint32_t *path, *open;     /* stacks: nodes under visit, and nodes without a component */
    size_t n_path, n_open;
    uint32_t n_found, n_components;
};

static inline void component_visit(struct component_walk *w, uint32_t node)
{
    w->found[node] = w->low[node] = w->n_found++;
    w->next[node] = w->first[node];
    w->path[w->n_path++] = node;
    w->open[w->n_open++] = node;
}

/* One step from the node on top of the path: to a node that it leads to, or back. */
static inline void component_step(struct component_walk *w, uint32_t *component)
{
    uint32_t node = w->path[w->n_path - 1];

    if (w->next[node] < w->first[node + 1]) {
        uint32_t target = w->targets[w->next[node]++];
        if (w->found[target] == COMPONENT_UNSEEN)
            component_visit(w, target);
        else if (component[target] == COMPONENT_UNSEEN)
            w->low[node] = MIN(w->low[node], w->found[target]);
        return;
    }
    w->n_path--;
    if (w->n_path > 0) {
        uint32_t parent = w->path[w->n_path - 1];
        w->low[parent] = MIN(w->low[parent], w->low[node]);
    }
    if (w->low[node] != w->found[node])
        return;
    uint32_t member;
    do {
        member = w->open[--w->n_open];
        component[member] = w->n_components;
    } while (member != node);
    w->n_components++;
}

/* Sets the number of each node's component. from and to: the ends of n_edges edges. -ENOMEM. */
static inline int components_find(uint32_t n, const uint32_t *from, const uint32_t *to, size_t n_edges,
                                  uint32_t *ret_component)
{
    size_t capacity = (size_t)n + 1;
    _cleanup_(freep) uint32_t *memory = calloc(6 * capacity + n_edges, sizeof(*memory));
    struct component_walk w = {.first = memory};

    if (!memory || n_edges > UINT32_MAX)
        return -ENOMEM;
    w.next = w.first + capacity;
    w.found = w.next + capacity;
    w.low = w.found + capacity;
    w.path = w.low + capacity;
    w.open = w.path + capacity;
    w.targets = w.open + capacity;
    for (size_t i = 0; i < n_edges; i++)
        w.first[from[i] + 1]++;
    for (uint32_t i = 0; i < n; i++)
        w.first[i + 1] += w.first[i];
    memcpy(w.next, w.first, capacity * sizeof(*w.next));
    for (size_t i = 0; i < n_edges; i++)
        w.targets[w.next[from[i]]++] = to[i];
    for (uint32_t i = 0; i < n; i++)
        w.found[i] = ret_component[i] = COMPONENT_UNSEEN;
    for (uint32_t i = 0; i < n; i++) {
        if (w.found[i] != COMPONENT_UNSEEN)
            continue;
        for (component_visit(&w, i); w.n_path > 0;)
            component_step(&w, ret_component);
    }
    return 0;
}
