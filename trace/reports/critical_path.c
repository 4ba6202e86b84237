/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/critical_path.h"

#include "trace/columns/category.h"
#include "trace/reports/dag.h"
#include <errno.h>

#define NONE UINT32_MAX
/* Events of a graph; nodes and edges are a few times as many, at some 50 bytes each. */
#define EVENTS_MAX (UINT32_C(1) << 25)
/* A kernel that begins so long after the one before it did not wait for that (HTA's threshold). */
#define KERNEL_KERNEL_MAX_NS 1500000
/* Calls nested deeper than this are left out: no real stack is. */
#define DEPTH_MAX 4096
/* Streams of one process: each synchronisation with all of them looks at each. */
#define STREAMS_MAX 512
/* Edges of a graph for each of its events; only one of synchronisations with hundreds of streams has more. */
#define EDGES_PER_EVENT 64

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

enum {
    CALL_BLOCKS = 1, /* waits for a GPU: its own time is not work */
    CALL_LOCKS = 2,  /* holds the CUDA runtime's lock */
    CALL_LAUNCHES = 4,
    CALL_RECORDS = 8, /* cudaEventRecord */
};

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

/* Host events are what threads did, GPU events what streams did. Node 2i is event i's beginning, 2i + 1 its
 * end. */
struct event {
    int64_t ts, end;
    uint64_t slice;
    int64_t track;
    uint32_t parent; /* the event around it on its thread, NONE */
    unsigned flags;
};

/* A launch and what it launched, in the order of the launching calls. */
struct launch {
    int64_t ts, stream, device, track;
    uint32_t call; /* host event, NONE outside the view */
    const struct gpu_event *gpu;
    int64_t queued;       /* work on the stream right after the call, with this one */
    int64_t queued_start; /* left when it began */
};

struct builder {
    struct analysis *a;
    size_t rank;
    const struct columns *c;
    const struct gpu_work *work;
    const struct intervals *times;
    struct event *events;
    size_t n, cap;
    size_t n_host;
    uint32_t *of_slice;  /* event of each slice + 1; 0: none */
    uint8_t *call_flags; /* of each text: flags + 1; 0: not looked at */
    uint32_t n_texts;
    struct launch *launches;
    size_t n_launches;
    uint32_t *on_streams; /* launches by stream, then time */
    uint32_t *on_tracks;  /* by stream and thread, then time */
    uint32_t *of_work;    /* of each item of the work: its launch + 1; 0: none */
    struct dag dag;
};

static void builder_done(struct builder *b)
{
    free(b->events);
    free(b->of_slice);
    free(b->call_flags);
    free(b->launches);
    free(b->on_streams);
    free(b->on_tracks);
    free(b->of_work);
    dag_done(&b->dag);
}

static unsigned flags_of(struct builder *b, int64_t name)
{
    unsigned flags = 0;

    if (name < 0 || name >= b->n_texts)
        return 0;
    if (b->call_flags[name])
        return b->call_flags[name] - 1;
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
        if (text_is(columns_text(b->c, name), calls[i].name))
            flags = calls[i].flags;
    b->call_flags[name] = (uint8_t)(flags + 1);
    return flags;
}

static struct event *add_event(struct builder *b)
{
    if (b->n == EVENTS_MAX)
        return NULL;
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 4096;
        struct event *events = reallocarray(b->events, cap, sizeof(*events));
        if (!events)
            return NULL;
        b->events = events;
        b->cap = cap;
    }
    return &b->events[b->n++];
}

static uint32_t start_node(uint32_t event)
{
    return 2 * event;
}

static uint32_t end_node(uint32_t event)
{
    return 2 * event + 1;
}

static int64_t node_ts(const struct builder *b, uint32_t node)
{
    const struct event *e = &b->events[node / 2];

    return node % 2 ? e->end : e->ts;
}

/* -- Edges -------------------------------------------------------------------------------------------- */

/* The note of an edge: what bounds it, and for which event. */
#define NOTE(event, bound) ((uint32_t)((event)*_PATH_BOUND_MAX + (bound)))
#define NOTE_EVENT(note)   ((note) / _PATH_BOUND_MAX)
#define NOTE_BOUND(note)   ((enum path_bound)((note) % _PATH_BOUND_MAX))
_Static_assert(EVENTS_MAX < UINT32_MAX / _PATH_BOUND_MAX / 2, "notes and nodes fit");

static int depend(struct builder *b, uint32_t from, uint32_t to)
{
    return dag_add(&b->dag, from, to, 0, NOTE(to / 2, BOUND_NONE));
}

static int spend(struct builder *b, uint32_t from, uint32_t to, uint32_t event, enum path_bound bound)
{
    return dag_add(&b->dag, from, to, node_ts(b, to) - node_ts(b, from), NOTE(event, bound));
}

/* -- The host ----------------------------------------------------------------------------------------- */

static bool is_host_category(struct text category)
{
    static const char *const words[] = {CATEGORY_OP, CATEGORY_RUNTIME, "cuda_driver"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (text_is(category, words[i]))
            return true;
    return false;
}

static int gather_host(struct builder *b)
{
    const struct columns *c = b->c;
    int64_t ts[BLOCK_ROWS], dur[BLOCK_ROWS], category[BLOCK_ROWS], name[BLOCK_ROWS], track[BLOCK_ROWS],
        asked = COLUMN_NULL;
    bool is_host = false;

    for (uint64_t first = 0, rows = columns_rows(c, TABLE_slice); first < rows; first += BLOCK_ROWS) {
        size_t n = columns_block(c, COL_slice_ts, first, BLOCK_ROWS, ts);
        columns_block(c, COL_slice_dur, first, BLOCK_ROWS, dur);
        columns_block(c, COL_slice_category, first, BLOCK_ROWS, category);
        columns_block(c, COL_slice_name, first, BLOCK_ROWS, name);
        columns_block(c, COL_slice_track, first, BLOCK_ROWS, track);
        for (size_t i = 0; i < n; i++) {
            if (category[i] != asked) {
                asked = category[i];
                is_host = is_host_category(columns_text(c, asked));
            }
            if (!is_host || ts[i] == COLUMN_NULL || dur[i] <= 0 || !intervals_find(b->times, ts[i]))
                continue;
            struct event *e = add_event(b);
            if (!e)
                return b->n == EVENTS_MAX ? -E2BIG : -ENOMEM;
            *e = (struct event){.ts = ts[i],
                                .end = ts[i] + dur[i],
                                .slice = first + i,
                                .track = track[i],
                                .parent = NONE,
                                .flags = flags_of(b, name[i])};
            b->of_slice[first + i] = (uint32_t)b->n;
        }
    }
    b->n_host = b->n;
    return 0;
}

/* Whether two points that follow each other on a thread are ordered by the runtime's lock already. */
static bool share_lock(const struct builder *b, uint32_t first, uint32_t second)
{
    bool both = b->events[first / 2].flags & b->events[second / 2].flags & CALL_LOCKS;

    return both && (first % 2 == 0 || second % 2 == 1);
}

struct thread {
    uint32_t stack[DEPTH_MAX];
    size_t depth;
    uint32_t last; /* node */
};

/* The chain goes on to `node`: within a call its time is that call's, between calls there is only an order.
 */
static int go_to(struct builder *b, struct thread *t, uint32_t node, uint32_t owner, bool takes_time)
{
    int r = 0;

    if (t->last != NONE && !share_lock(b, t->last, node))
        r = takes_time ? spend(b, t->last, node, owner, BOUND_CPU) : depend(b, t->last, node);
    t->last = node;
    return r;
}

static int leave(struct builder *b, struct thread *t)
{
    uint32_t event = t->stack[--t->depth];

    return go_to(b, t, end_node(event), event, !(b->events[event].flags & CALL_BLOCKS));
}

static int enter(struct builder *b, struct thread *t, uint32_t event)
{
    uint32_t around = t->depth > 0 ? t->stack[t->depth - 1] : NONE;
    int r = go_to(b, t, start_node(event), around, around != NONE);

    b->events[event].parent = around;
    t->stack[t->depth++] = event;
    return r;
}

/* Events of a thread, outer before inner, in order of time. */
static int walk_thread(struct builder *b, struct thread *t, const uint32_t *events, size_t n)
{
    int r = 0;

    t->depth = 0;
    t->last = NONE;
    for (size_t i = 0; i < n && r >= 0; i++) {
        while (t->depth > 0 && b->events[t->stack[t->depth - 1]].end <= b->events[events[i]].ts && r >= 0)
            r = leave(b, t);
        if (r >= 0 && t->depth < DEPTH_MAX)
            r = enter(b, t, events[i]);
    }
    while (t->depth > 0 && r >= 0)
        r = leave(b, t);
    return r;
}

static int compare_on_threads(const void *x, const void *y, void *arg)
{
    const struct event *events = arg, *a = &events[*(const uint32_t *)x], *e = &events[*(const uint32_t *)y];

    if (a->track != e->track)
        return a->track < e->track ? -1 : 1;
    if (a->ts != e->ts)
        return a->ts < e->ts ? -1 : 1;
    return a->end != e->end ? (a->end < e->end) - (a->end > e->end)
                            : (a->slice > e->slice) - (a->slice < e->slice);
}

/* The only track whose operators have a word in their names, or COLUMN_NULL. */
static int64_t track_of_word(const struct builder *b, const char *word)
{
    int64_t track = COLUMN_NULL;

    for (size_t i = 0; i < b->n_host; i++) {
        struct text name = columns_text(b->c, columns_get(b->c, COL_slice_name, b->events[i].slice));
        if (b->events[i].flags || b->events[i].track == track ||
            !memmem(name.p, name.size, word, strlen(word)))
            continue;
        if (track != COLUMN_NULL)
            return COLUMN_NULL;
        track = b->events[i].track;
    }
    return track;
}

/* A backward pass is the forward pass' successor, though on a thread of its own: both are one thread. */
static void join_passes(struct builder *b)
{
    int64_t forward = track_of_word(b, "forward"), backward = track_of_word(b, "autograd");

    if (forward == COLUMN_NULL || backward == COLUMN_NULL || forward == backward)
        return;
    for (size_t i = 0; i < b->n_host; i++)
        if (b->events[i].track == backward)
            b->events[i].track = forward;
}

static int build_threads(struct builder *b)
{
    _cleanup_(freep) uint32_t *order = malloc((b->n_host + 1) * sizeof(*order));
    _cleanup_(freep) struct thread *t = malloc(sizeof(*t));
    int r = order && t ? 0 : -ENOMEM;

    join_passes(b);
    for (uint32_t i = 0; r >= 0 && i < b->n_host; i++)
        order[i] = i;
    if (r >= 0)
        qsort_r(order, b->n_host, sizeof(*order), compare_on_threads, b->events);
    for (size_t first = 0, next; first < b->n_host && r >= 0; first = next) {
        for (next = first; next < b->n_host && b->events[order[next]].track == b->events[order[first]].track;)
            next++;
        r = walk_thread(b, t, order + first, next - first);
    }
    return r;
}

static int compare_nodes(const void *x, const void *y, void *arg)
{
    const struct builder *b = arg;
    uint32_t a = *(const uint32_t *)x, c = *(const uint32_t *)y;
    int64_t one = node_ts(b, a), other = node_ts(b, c);

    return one != other ? (one > other) - (one < other) : (a > c) - (a < c);
}

/* Calls that overlap had the lock in the order in which they ended; all that began waited for the first end.
 */
static int build_lock(struct builder *b)
{
    _cleanup_(freep) uint32_t *nodes = malloc((2 * b->n_host + 1) * sizeof(*nodes)),
                              *begun = malloc((b->n_host + 1) * sizeof(*begun));
    size_t n = 0, n_begun = 0;
    uint32_t last = NONE;
    int r = nodes && begun ? 0 : -ENOMEM;

    for (uint32_t i = 0; r >= 0 && i < b->n_host; i++)
        if (b->events[i].flags & CALL_LOCKS) {
            nodes[n++] = start_node(i);
            nodes[n++] = end_node(i);
        }
    if (r >= 0)
        qsort_r(nodes, n, sizeof(*nodes), compare_nodes, b);
    for (size_t i = 0; i < n && r >= 0; i++) {
        uint32_t node = nodes[i];
        if (node % 2 == 0) {
            begun[n_begun++] = node;
        } else {
            while (n_begun > 0 && r >= 0) {
                uint32_t start = begun[--n_begun];
                r = start / 2 == node / 2 ? spend(b, start, node, node / 2, BOUND_CPU)
                                          : depend(b, start, node);
            }
            if (r >= 0 && last != NONE && last % 2 == 1)
                r = depend(b, last, node);
        }
        last = node;
    }
    return r;
}

/* -- Launches ----------------------------------------------------------------------------------------- */

static int compare_launches(const void *x, const void *y)
{
    const struct launch *a = x, *b = y;

    return a->ts != b->ts ? (a->ts > b->ts) - (a->ts < b->ts)
                          : (a->gpu->slice > b->gpu->slice) - (a->gpu->slice < b->gpu->slice);
}

/* Launches are in order of time. */
static int compare_on_streams(const void *x, const void *y, void *arg)
{
    uint32_t i = *(const uint32_t *)x, k = *(const uint32_t *)y;
    const struct launch *launches = arg, *a = &launches[i], *b = &launches[k];

    return a->stream != b->stream ? (a->stream > b->stream) - (a->stream < b->stream) : (i > k) - (i < k);
}

static int compare_on_tracks(const void *x, const void *y, void *arg)
{
    uint32_t i = *(const uint32_t *)x, k = *(const uint32_t *)y;
    const struct launch *launches = arg, *a = &launches[i], *b = &launches[k];

    if (a->stream == b->stream && a->track != b->track)
        return a->track < b->track ? -1 : 1;
    return compare_on_streams(x, y, arg);
}

static int order_launches(struct builder *b)
{
    size_t n = b->n_launches;

    b->on_streams = malloc((n + 1) * sizeof(*b->on_streams));
    b->on_tracks = malloc((n + 1) * sizeof(*b->on_tracks));
    b->of_work = calloc(b->work->n + 1, sizeof(*b->of_work));
    if (!b->on_streams || !b->on_tracks || !b->of_work)
        return -ENOMEM;
    qsort(b->launches, n, sizeof(*b->launches), compare_launches);
    for (uint32_t i = 0; i < n; i++) {
        b->on_streams[i] = b->on_tracks[i] = i;
        b->of_work[b->launches[i].gpu - b->work->events] = i + 1;
    }
    qsort_r(b->on_streams, n, sizeof(*b->on_streams), compare_on_streams, b->launches);
    qsort_r(b->on_tracks, n, sizeof(*b->on_tracks), compare_on_tracks, b->launches);
    return 0;
}

static int gather_launches(struct builder *b)
{
    b->launches = calloc(b->work->n + 1, sizeof(*b->launches));
    if (!b->launches)
        return -ENOMEM;
    for (size_t i = 0; i < b->work->n; i++) {
        const struct gpu_event *e = &b->work->events[i];
        if (e->launch == SLICE_NONE ||
            !(flags_of(b, columns_get(b->c, COL_slice_name, e->launch)) & CALL_LAUNCHES))
            continue;
        uint32_t call = b->of_slice[e->launch];
        b->launches[b->n_launches++] = (struct launch){.ts = columns_get(b->c, COL_slice_ts, e->launch),
                                                       .stream = e->stream,
                                                       .device = e->device,
                                                       .track = columns_get(b->c, COL_slice_track, e->launch),
                                                       .call = call ? call - 1 : NONE,
                                                       .gpu = e};
    }
    return order_launches(b);
}

/* A launch adds to its stream's queue, the beginning of the work takes it away. */
struct queue_step {
    int64_t stream, ts;
    uint32_t launch;
    int8_t by;
};

static int compare_steps(const void *x, const void *y)
{
    const struct queue_step *a = x, *b = y;

    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    if (a->ts != b->ts)
        return a->ts < b->ts ? -1 : 1;
    return a->launch != b->launch ? (a->launch > b->launch) - (a->launch < b->launch) : b->by - a->by;
}

static int measure_queues(struct builder *b)
{
    _cleanup_(freep) struct queue_step *steps = calloc(2 * b->n_launches + 1, sizeof(*steps));
    int64_t queued = 0;

    if (!steps)
        return -ENOMEM;
    for (uint32_t i = 0; i < b->n_launches; i++) {
        const struct launch *l = &b->launches[i];
        steps[2 * i] = (struct queue_step){l->stream, l->ts, i, 1};
        steps[2 * i + 1] = (struct queue_step){l->stream, l->gpu->ts, i, -1};
    }
    qsort(steps, 2 * b->n_launches, sizeof(*steps), compare_steps);
    for (size_t i = 0; i < 2 * b->n_launches; i++) {
        struct launch *l = &b->launches[steps[i].launch];
        if (i == 0 || steps[i].stream != steps[i - 1].stream)
            queued = 0;
        queued += steps[i].by;
        *(steps[i].by > 0 ? &l->queued : &l->queued_start) = queued;
    }
    return 0;
}

/* -- The GPU ------------------------------------------------------------------------------------------ */

enum sync_kind { SYNC_STREAM, SYNC_CONTEXT, SYNC_EVENT, SYNC_STREAM_WAIT, _SYNC_KIND_MAX };

static const char *const sync_names[_SYNC_KIND_MAX] = {
    [SYNC_STREAM] = "Stream Sync",
    [SYNC_CONTEXT] = "Context Sync",
    [SYNC_EVENT] = "Event Sync",
    [SYNC_STREAM_WAIT] = "Stream Wait Event",
};

/* Work or a synchronisation, in the order in which a stream comes to it: of the latter, when it ends. */
struct turn {
    int64_t at;
    const struct gpu_event *work; /* NULL: a synchronisation */
    enum sync_kind kind;
    uint64_t row;   /* of TABLE_gpu */
    uint32_t event; /* the work's */
};

struct turns {
    struct turn *items;
    size_t n, cap;
};

static int add_turn(struct turns *turns, struct turn turn)
{
    if (turns->n == turns->cap) {
        size_t cap = turns->cap ? turns->cap * 2 : 1024;
        struct turn *items = reallocarray(turns->items, cap, sizeof(*items));
        if (!items)
            return -ENOMEM;
        turns->items = items;
        turns->cap = cap;
    }
    turns->items[turns->n++] = turn;
    return 0;
}

static int gather_work(struct builder *b, struct turns *ret)
{
    for (size_t i = 0; i < b->work->n; i++) {
        const struct gpu_event *w = &b->work->events[i];
        if (w->launch == SLICE_NONE || !b->of_slice[w->launch])
            continue;
        struct event *e = add_event(b);
        if (!e)
            return b->n == EVENTS_MAX ? -E2BIG : -ENOMEM;
        *e = (struct event){
            .ts = w->ts, .end = w->end, .slice = w->slice, .track = COLUMN_NULL, .parent = NONE};
        b->of_slice[w->slice] = (uint32_t)b->n;
        int r = add_turn(ret, (struct turn){.at = w->ts, .work = w, .event = (uint32_t)b->n - 1});
        if (r < 0)
            return r;
    }
    return 0;
}

static int gather_syncs(struct builder *b, struct turns *ret)
{
    const struct columns *c = b->c;

    for (uint64_t row = 0; row < columns_rows(c, TABLE_gpu); row++) {
        int64_t slice = columns_get(c, COL_gpu_slice, row);
        if (slice == COLUMN_NULL ||
            !text_is(columns_text(c, columns_get(c, COL_slice_category, (uint64_t)slice)), "cuda_sync"))
            continue;
        int64_t ts = columns_get(c, COL_slice_ts, (uint64_t)slice),
                dur = columns_get(c, COL_slice_dur, (uint64_t)slice);
        struct text name = columns_text(c, columns_get(c, COL_slice_name, (uint64_t)slice));
        for (enum sync_kind kind = 0; ts != COLUMN_NULL && dur >= 0 && kind < _SYNC_KIND_MAX; kind++)
            if (text_is(name, sync_names[kind])) {
                int r = add_turn(ret, (struct turn){.at = ts + dur, .kind = kind, .row = row});
                if (r < 0)
                    return r;
            }
    }
    return 0;
}

static int compare_turns(const void *x, const void *y)
{
    const struct turn *a = x, *b = y;

    return a->at != b->at ? (a->at > b->at) - (a->at < b->at) : (a->row > b->row) - (a->row < b->row);
}

/* Calls of the runtime by their correlation. */
struct call {
    int64_t correlation;
    uint64_t slice;
};

struct streams {
    struct {
        int64_t stream;
        uint32_t last; /* event */
    } items[STREAMS_MAX];
    size_t n;
};

struct gpu_builder {
    struct builder *b;
    struct call *calls;
    size_t n_calls;
    struct streams streams;
    uint32_t *waits_for; /* of each event: the work it waits for by a stream's wait; NONE */
};

static void gpu_builder_done(struct gpu_builder *g)
{
    free(g->calls);
    free(g->waits_for);
}

static int compare_calls(const void *x, const void *y)
{
    const struct call *a = x, *b = y;

    return a->correlation != b->correlation
               ? (a->correlation > b->correlation) - (a->correlation < b->correlation)
               : (a->slice > b->slice) - (a->slice < b->slice);
}

static int gather_calls(struct gpu_builder *g)
{
    const struct columns *c = g->b->c;
    uint64_t n = columns_rows(c, TABLE_runtime);

    g->calls = calloc(n + 1, sizeof(*g->calls));
    if (!g->calls)
        return -ENOMEM;
    for (uint64_t row = 0; row < n; row++) {
        int64_t correlation = columns_get(c, COL_runtime_correlation, row),
                slice = columns_get(c, COL_runtime_slice, row);
        if (correlation > 0 && slice != COLUMN_NULL)
            g->calls[g->n_calls++] = (struct call){correlation, (uint64_t)slice};
    }
    qsort(g->calls, g->n_calls, sizeof(*g->calls), compare_calls);
    return 0;
}

static uint64_t find_call(const struct gpu_builder *g, int64_t correlation)
{
    size_t low = 0, high = g->n_calls;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->calls[middle].correlation < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    return low < g->n_calls && g->calls[low].correlation == correlation ? g->calls[low].slice : SLICE_NONE;
}

/* Where the stream's last work is kept; NULL of too many. */
static uint32_t *last_on(struct streams *s, int64_t stream)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->items[i].stream == stream)
            return &s->items[i].last;
    if (s->n == STREAMS_MAX)
        return NULL;
    s->items[s->n].stream = stream;
    s->items[s->n].last = NONE;
    return &s->items[s->n++].last;
}

/* The last launch on a stream up to a time, or the first of a thread from then on; NULL. */
static const struct launch *launch_before(const struct builder *b, int64_t stream, int64_t ts)
{
    size_t low = 0, high = b->n_launches;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct launch *l = &b->launches[b->on_streams[middle]];
        if (l->stream < stream || (l->stream == stream && l->ts <= ts))
            low = middle + 1;
        else
            high = middle;
    }
    const struct launch *last = low > 0 ? &b->launches[b->on_streams[low - 1]] : NULL;
    return last && last->stream == stream ? last : NULL;
}

static bool is_before(const struct launch *l, int64_t stream, int64_t track, int64_t ts)
{
    if (l->stream != stream)
        return l->stream < stream;
    return l->track != track ? l->track < track : l->ts < ts;
}

static const struct launch *launch_behind(const struct builder *b, int64_t stream, int64_t track, int64_t ts)
{
    size_t low = 0, high = b->n_launches;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(&b->launches[b->on_tracks[middle]], stream, track, ts))
            low = middle + 1;
        else
            high = middle;
    }
    const struct launch *next = low < b->n_launches ? &b->launches[b->on_tracks[low]] : NULL;
    return next && next->stream == stream && next->track == track ? next : NULL;
}

/* What was launched last before the event was recorded that a synchronisation waits for. */
static uint32_t awaited_work(const struct gpu_builder *g, uint64_t row)
{
    const struct columns *c = g->b->c;
    int64_t stream = columns_get(c, COL_gpu_wait_on_stream, row),
            record = columns_get(c, COL_gpu_wait_on_record, row);
    uint64_t call = record > 0 && stream != COLUMN_NULL ? find_call(g, record) : SLICE_NONE;

    if (call == SLICE_NONE || !(flags_of(g->b, columns_get(c, COL_slice_name, call)) & CALL_RECORDS))
        return NONE;
    const struct launch *l = launch_before(g->b, stream, columns_get(c, COL_slice_ts, call));
    uint32_t event = l ? g->b->of_slice[l->gpu->slice] : 0;
    return event ? event - 1 : NONE;
}

static int end_at_call(struct gpu_builder *g, uint32_t work, uint64_t call)
{
    uint32_t event = call == SLICE_NONE || work == NONE ? 0 : g->b->of_slice[call];

    return event && g->b->events[event - 1].end >= g->b->events[work].end
               ? depend(g->b, end_node(work), end_node(event - 1))
               : 0;
}

static int synchronise(struct gpu_builder *g, const struct turn *turn)
{
    const struct columns *c = g->b->c;
    uint64_t call = find_call(g, columns_get(c, COL_gpu_correlation, turn->row));
    int64_t stream = columns_get(c, COL_gpu_stream, turn->row);
    int r = 0;

    switch (turn->kind) {
    case SYNC_CONTEXT:
        for (size_t i = 0; i < g->streams.n && r >= 0; i++)
            r = end_at_call(g, g->streams.items[i].last, call);
        return r;
    case SYNC_STREAM:
        for (size_t i = 0; i < g->streams.n && r >= 0; i++)
            if (g->streams.items[i].stream == stream)
                r = end_at_call(g, g->streams.items[i].last, call);
        return r;
    case SYNC_EVENT:
        return end_at_call(g, awaited_work(g, turn->row), call);
    default:
        break;
    }
    /* The next work on this stream begins when the awaited one has ended. */
    const struct launch *next = call == SLICE_NONE
                                    ? NULL
                                    : launch_behind(g->b, stream, columns_get(c, COL_slice_track, call),
                                                    columns_get(c, COL_slice_ts, call));
    uint32_t event = next ? g->b->of_slice[next->gpu->slice] : 0,
             awaited = event ? awaited_work(g, turn->row) : NONE;
    if (awaited != NONE)
        g->waits_for[event - 1] = awaited;
    return 0;
}

/* The launch of a piece of work, where its queue is known. */
static const struct launch *find_launch(const struct builder *b, const struct gpu_event *work)
{
    uint32_t number = b->of_work[work - b->work->events];

    return number ? &b->launches[number - 1] : NULL;
}

/* Why work began when it did: it was waited for elsewhere, launched just then, or the work before it ended.
 */
static int build_work(struct gpu_builder *g, const struct turn *turn)
{
    struct builder *b = g->b;
    uint32_t event = turn->event, awaited = g->waits_for[event],
             *last = last_on(&g->streams, turn->work->stream);
    const struct launch *l = find_launch(b, turn->work);
    int64_t called = columns_get(b->c, COL_slice_ts, turn->work->launch);
    enum path_bound bound =
        turn->work->kind == GPU_COMMUNICATION ? BOUND_GPU_COMMUNICATION : BOUND_GPU_COMPUTE;
    int r = last ? spend(b, start_node(event), end_node(event), event, bound) : -E2BIG;

    if (r >= 0 && awaited != NONE && b->events[awaited].end > b->events[event].ts)
        awaited = NONE; /* it did not wait */
    if (r >= 0 && awaited != NONE)
        r = depend(b, end_node(awaited), start_node(event));
    if (r < 0)
        return r;
    bool stream_was_free = *last == NONE || b->events[*last].end < called;
    if (l && l->queued == 1 && l->queued_start == 0 && stream_was_free &&
        (awaited == NONE || b->events[awaited].end < called))
        r = spend(b, start_node(b->of_slice[turn->work->launch] - 1), start_node(event), event, BOUND_LAUNCH);
    else if (*last != NONE && b->events[event].ts >= b->events[*last].end &&
             b->events[event].ts - b->events[*last].end < KERNEL_KERNEL_MAX_NS &&
             (awaited == NONE || b->events[awaited].end < b->events[*last].end))
        r = spend(b, end_node(*last), start_node(event), *last, BOUND_KERNEL_KERNEL);
    *last = event;
    return r;
}

static int build_gpu(struct builder *b)
{
    _cleanup_(gpu_builder_done) struct gpu_builder g = {.b = b};
    struct turns turns = {0};
    int r = gather_work(b, &turns);

    if (r >= 0)
        r = gather_syncs(b, &turns);
    if (r >= 0)
        r = gather_calls(&g);
    g.waits_for = r >= 0 ? malloc((b->n + 1) * sizeof(*g.waits_for)) : NULL;
    if (r >= 0 && !g.waits_for)
        r = -ENOMEM;
    if (r >= 0) {
        memset(g.waits_for, 0xff, (b->n + 1) * sizeof(*g.waits_for));
        if (turns.n > 0)
            qsort(turns.items, turns.n, sizeof(*turns.items), compare_turns);
    }
    for (size_t i = 0; i < turns.n && r >= 0; i++) {
        r = turns.items[i].work ? build_work(&g, &turns.items[i]) : synchronise(&g, &turns.items[i]);
        if (r >= 0 && b->dag.n_edges > EDGES_PER_EVENT * (b->n + turns.n))
            r = -E2BIG;
    }
    free(turns.items);
    return r;
}

/* ----------------------------------------------------------------------------------------------------- */

static int collect(struct builder *b, struct critical_path *ret)
{
    _cleanup_(freep) uint32_t *path = NULL;
    size_t n = 0;

    b->dag.n_nodes = (uint32_t)(2 * b->n);
    int r = dag_longest_path(&b->dag, &path, &n);
    if (r < 0)
        return r;
    ret->parts = calloc(n + 1, sizeof(*ret->parts));
    if (!ret->parts)
        return -ENOMEM;
    ret->n_nodes = n + 1;
    ret->n_edges = b->dag.n_edges;
    for (size_t i = 0; i < n; i++) {
        const struct dag_edge *e = &b->dag.edges[path[i]];
        if (e->weight == 0)
            continue;
        ret->parts[ret->n++] = (struct path_part){.bound = NOTE_BOUND(e->note),
                                                  .slice = b->events[NOTE_EVENT(e->note)].slice,
                                                  .from = node_ts(b, e->from),
                                                  .dur = e->weight};
        ret->length += e->weight;
    }
    return 0;
}

int critical_path_find(struct analysis *a, size_t rank, struct critical_path *ret)
{
    _cleanup_(builder_done) struct builder b = {.a = a, .rank = rank, .c = a->ranks[rank].columns};
    int r = analysis_all_gpu(a, rank, &b.work);

    *ret = (struct critical_path){0};
    if (r >= 0)
        r = analysis_times(a, rank, &b.times);
    if (r < 0)
        return r;
    b.n_texts = columns_texts(b.c);
    b.of_slice = calloc(columns_rows(b.c, TABLE_slice) + 1, sizeof(*b.of_slice));
    b.call_flags = calloc((size_t)b.n_texts + 1, 1);
    r = b.of_slice && b.call_flags ? gather_host(&b) : -ENOMEM;
    if (r >= 0 && b.n_host == 0)
        r = -ENODATA;
    if (r >= 0)
        r = build_lock(&b);
    if (r >= 0)
        r = build_threads(&b);
    if (r >= 0)
        r = gather_launches(&b);
    if (r >= 0)
        r = measure_queues(&b);
    if (r >= 0)
        r = build_gpu(&b);
    return r < 0 ? r : collect(&b, ret);
}

void critical_path_done(struct critical_path *path)
{
    free(path->parts);
    *path = (struct critical_path){0};
}
