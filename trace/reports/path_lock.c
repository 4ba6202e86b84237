/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of the CUDA runtime: only one call that takes it goes on at a time. */
#include "trace/reports/path_graph.h"
#include <errno.h>

static int compare_nodes(const void *x, const void *y, void *arg)
{
    const struct path_graph *g = arg;
    uint32_t a = *(const uint32_t *)x, c = *(const uint32_t *)y;
    int64_t one = path_node_ts(g, a), other = path_node_ts(g, c);

    return one != other ? (one > other) - (one < other) : (a > c) - (a < c);
}

/* Calls that overlap had the lock in the order in which they ended; all that began waited for the first end.
 */
int path_add_lock(struct path_graph *g)
{
    _cleanup_(freep) uint32_t *nodes = malloc((2 * g->n_host + 1) * sizeof(*nodes)),
                              *begun = malloc((g->n_host + 1) * sizeof(*begun));
    size_t n = 0, n_begun = 0;
    uint32_t last = PATH_NONE;
    int r = nodes && begun ? 0 : -ENOMEM;

    for (uint32_t i = 0; r >= 0 && i < g->n_host; i++)
        if (g->events[i].flags & CALL_LOCKS) {
            nodes[n++] = path_start(i);
            nodes[n++] = path_end(i);
        }
    if (r >= 0)
        qsort_r(nodes, n, sizeof(*nodes), compare_nodes, g);
    for (size_t i = 0; i < n && r >= 0; i++) {
        uint32_t node = nodes[i];
        if (node % 2 == 0) {
            begun[n_begun++] = node;
        } else {
            while (n_begun > 0 && r >= 0) {
                uint32_t start = begun[--n_begun];
                r = start / 2 == node / 2 ? path_spend(g, start, node, node / 2, BOUND_CPU)
                                          : path_depend(g, start, node);
            }
            if (r >= 0 && last != PATH_NONE && last % 2 == 1)
                r = path_depend(g, last, node);
        }
        last = node;
    }
    return r;
}
