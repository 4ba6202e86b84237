/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/path_graph.h"

#include "base/array.h"
#include <errno.h>

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
