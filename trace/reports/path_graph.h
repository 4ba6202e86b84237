/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The longest path of an acyclic graph, by the weights of its edges. Pure.
 */
#pragma once

#include "base/util.h"
#include "trace/reports/critical_path.h"

struct dag_edge {
    uint32_t from, to;
    uint32_t note; /* the caller's */
    int64_t weight;
};

struct dag {
    struct dag_edge *edges;
    size_t n_edges, cap;
    uint32_t n_nodes;
};

/* A weight below 0 counts as 0. -ENOMEM. */
int dag_add(struct dag *g, uint32_t from, uint32_t to, int64_t weight, uint32_t note);
/* The edges of the longest path from its beginning, as numbers into edges[]; the caller frees. Of several as
 * long as each other any one. -ELOOP where the graph has a circle, -ENOMEM. */
int dag_longest_path(const struct dag *g, uint32_t **ret_edges, size_t *ret_n);
void dag_done(struct dag *g);

/*
 * The graph that a critical path is the longest way through: host events, which are what threads did, GPU
 * events, which are what streams did, and what depends on what. Each part of it is a file:
 *
 *     path_threads.c   calls of the host, their nesting and order on a thread
 *     path_lock.c      the lock of the CUDA runtime
 *     path_launches.c  launches, and how long their streams' queues were
 *     path_gpu.c       work on streams, and synchronisation
 *
 * critical_path.c puts them together. For it alone.
 */
#define PATH_NONE UINT32_MAX
/* Events of a graph; nodes and edges are a few times as many, at some 50 bytes each. */
#define PATH_EVENTS_MAX (UINT32_C(1) << 25)

/* What a call of the CUDA or HIP runtime does. */
enum {
    CALL_BLOCKS = 1, /* waits for a GPU: its own time is not work */
    CALL_LOCKS = 2,  /* holds the CUDA runtime's lock */
    CALL_LAUNCHES = 4,
    CALL_RECORDS = 8, /* cudaEventRecord */
};

/* Host events are what threads did, GPU events what streams did. Node 2i is event i's beginning, 2i + 1 its
 * end. */
struct path_event {
    int64_t ts, end;
    uint64_t slice;
    int64_t track;
    uint32_t parent; /* the event around it on its thread, PATH_NONE */
    unsigned flags;
};

/* A launch and what it launched, in the order of the launching calls. */
struct path_launch {
    int64_t ts, stream, device, track;
    uint32_t call; /* host event, PATH_NONE outside the view */
    const struct gpu_event *gpu;
    int64_t queued;       /* work on the stream right after the call, with this one */
    int64_t queued_start; /* left when it began */
};

struct path_graph {
    const struct columns *c;
    const struct gpu_work *work;
    const struct intervals *times;
    struct path_event *events;
    size_t n, cap;
    size_t n_host;
    uint32_t *of_slice;  /* event of each slice + 1; 0: none */
    uint8_t *call_flags; /* of each text: flags + 1; 0: not looked at */
    uint32_t n_texts;
    struct path_launch *launches;
    size_t n_launches;
    uint32_t *on_streams; /* launches by stream, then time */
    uint32_t *on_tracks;  /* by stream and thread, then time */
    uint32_t *of_work;    /* of each item of the work: its launch + 1; 0: none */
    struct dag dag;
};

void path_graph_done(struct path_graph *g);
/* Of a call, by the number of its name: CALL_. */
unsigned path_call_flags(struct path_graph *g, int64_t name);
/* NULL without memory, and where there are PATH_EVENTS_MAX (path_event_error). */
struct path_event *path_add_event(struct path_graph *g);
int path_event_error(const struct path_graph *g);

static inline uint32_t path_start(uint32_t event)
{
    return 2 * event;
}

static inline uint32_t path_end(uint32_t event)
{
    return 2 * event + 1;
}

static inline int64_t path_node_ts(const struct path_graph *g, uint32_t node)
{
    const struct path_event *e = &g->events[node / 2];

    return node % 2 ? e->end : e->ts;
}

/* The note of an edge: what bounds it, and for which event. */
#define NOTE(event, bound) ((uint32_t)((event)*_PATH_BOUND_MAX + (bound)))
#define NOTE_EVENT(note)   ((note) / _PATH_BOUND_MAX)
#define NOTE_BOUND(note)   ((enum path_bound)((note) % _PATH_BOUND_MAX))
_Static_assert(PATH_EVENTS_MAX < UINT32_MAX / _PATH_BOUND_MAX / 2, "notes and nodes fit");

/* An order, and time that passes from one node to another for an event. -ENOMEM. */
int path_depend(struct path_graph *g, uint32_t from, uint32_t to);
int path_spend(struct path_graph *g, uint32_t from, uint32_t to, uint32_t event, enum path_bound bound);

/* The parts, in the order in which they are made. All: -ENOMEM, -E2BIG. */
int path_gather_host(struct path_graph *g);
int path_add_lock(struct path_graph *g);
int path_add_threads(struct path_graph *g);
int path_gather_launches(struct path_graph *g);
int path_add_gpu(struct path_graph *g);

/* The last launch on a stream up to a time, the first of a thread on it from then on; NULL. */
const struct path_launch *path_launch_before(const struct path_graph *g, int64_t stream, int64_t ts);
const struct path_launch *path_launch_after(const struct path_graph *g, int64_t stream, int64_t track,
                                            int64_t ts);
/* The launch of a piece of work, where its queue is known; NULL. */
const struct path_launch *path_launch_of(const struct path_graph *g, const struct gpu_event *work);
