/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the host: what lies in what on a thread, and what follows what. */
#include "trace/columns/schema.h"
#include "trace/reports/path_graph.h"
#include "trace/reports/search.h"
#include <errno.h>

/* -- Path threads ---------------------------------------------------------------------------------------- */

/* Calls nested deeper than this are left out: no real stack is. */
#define DEPTH_MAX 4096

static bool path_thread_is_host_category(struct text category)
{
    static const char *const words[] = {CATEGORY_OP, CATEGORY_RUNTIME, "cuda_driver"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (text_is(category, words[i]))
            return true;
    return false;
}

int path_gather_host(struct path_graph *g)
{
    const struct columns *c = g->c;
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
                is_host = path_thread_is_host_category(columns_text(c, asked));
            }
            if (!is_host || ts[i] == COLUMN_NULL || dur[i] <= 0 || !intervals_find(g->times, ts[i]))
                continue;
            struct path_event *e = path_add_event(g);
            if (!e)
                return path_event_error(g);
            *e = (struct path_event){.ts = ts[i],
                                     .end = ts[i] + dur[i],
                                     .slice = first + i,
                                     .track = track[i],
                                     .parent = PATH_NONE,
                                     .flags = path_call_flags(g, name[i])};
            g->of_slice[first + i] = (uint32_t)g->n;
        }
    }
    g->n_host = g->n;
    return 0;
}

/* Whether two points that follow each other on a thread are ordered by the runtime's lock already. */
static bool share_lock(const struct path_graph *g, uint32_t first, uint32_t second)
{
    bool both = g->events[first / 2].flags & g->events[second / 2].flags & CALL_LOCKS;

    return both && (first % 2 == 0 || second % 2 == 1);
}

struct path_thread_thread {
    uint32_t stack[DEPTH_MAX];
    size_t depth;
    uint32_t last; /* node */
};

/* The chain goes on to `node`: within a call its time is that call's, between calls there is only an order.
 */
static int path_thread_go_to(struct path_graph *g, struct path_thread_thread *t, uint32_t node,
                             uint32_t owner, bool takes_time)
{
    int r = 0;

    if (t->last != PATH_NONE && !share_lock(g, t->last, node))
        r = takes_time ? path_spend(g, t->last, node, owner, BOUND_CPU) : path_depend(g, t->last, node);
    t->last = node;
    return r;
}

static int path_thread_leave(struct path_graph *g, struct path_thread_thread *t)
{
    uint32_t event = t->stack[--t->depth];

    return path_thread_go_to(g, t, path_end(event), event, !(g->events[event].flags & CALL_BLOCKS));
}

static int path_thread_enter(struct path_graph *g, struct path_thread_thread *t, uint32_t event)
{
    uint32_t around = t->depth > 0 ? t->stack[t->depth - 1] : PATH_NONE;
    int r = path_thread_go_to(g, t, path_start(event), around, around != PATH_NONE);

    g->events[event].parent = around;
    t->stack[t->depth++] = event;
    return r;
}

/* Events of a thread, outer before inner, in order of time. */
static int walk_thread(struct path_graph *g, struct path_thread_thread *t, const uint32_t *events, size_t n)
{
    int r = 0;

    t->depth = 0;
    t->last = PATH_NONE;
    for (size_t i = 0; i < n && r >= 0; i++) {
        while (t->depth > 0 && g->events[t->stack[t->depth - 1]].end <= g->events[events[i]].ts && r >= 0)
            r = path_thread_leave(g, t);
        if (r >= 0 && t->depth < DEPTH_MAX)
            r = path_thread_enter(g, t, events[i]);
    }
    while (t->depth > 0 && r >= 0)
        r = path_thread_leave(g, t);
    return r;
}

static int compare_on_threads(const void *x, const void *y, void *arg)
{
    const struct path_event *events = arg, *a = &events[*(const uint32_t *)x],
                            *e = &events[*(const uint32_t *)y];

    if (a->track != e->track)
        return a->track < e->track ? -1 : 1;
    if (a->ts != e->ts)
        return a->ts < e->ts ? -1 : 1;
    return a->end != e->end ? (a->end < e->end) - (a->end > e->end)
                            : (a->slice > e->slice) - (a->slice < e->slice);
}

/* The only track whose operators have a word in their names, or COLUMN_NULL. */
static int64_t track_of_word(const struct path_graph *g, const char *word)
{
    int64_t track = COLUMN_NULL;

    for (size_t i = 0; i < g->n_host; i++) {
        struct text name = columns_text(g->c, columns_get(g->c, COL_slice_name, g->events[i].slice));
        if (g->events[i].flags || g->events[i].track == track ||
            !memmem(name.p, name.size, word, strlen(word)))
            continue;
        if (track != COLUMN_NULL)
            return COLUMN_NULL;
        track = g->events[i].track;
    }
    return track;
}

/* A backward pass is the forward pass' successor, though on a thread of its own: both are one thread. */
static void join_passes(struct path_graph *g)
{
    int64_t forward = track_of_word(g, "forward"), backward = track_of_word(g, "autograd");

    if (forward == COLUMN_NULL || backward == COLUMN_NULL || forward == backward)
        return;
    for (size_t i = 0; i < g->n_host; i++)
        if (g->events[i].track == backward)
            g->events[i].track = forward;
}

int path_add_threads(struct path_graph *g)
{
    _cleanup_(freep) uint32_t *order = malloc((g->n_host + 1) * sizeof(*order));
    _cleanup_(freep) struct path_thread_thread *t = malloc(sizeof(*t));
    int r = order && t ? 0 : -ENOMEM;

    join_passes(g);
    for (uint32_t i = 0; r >= 0 && i < g->n_host; i++)
        order[i] = i;
    if (r >= 0)
        qsort_r(order, g->n_host, sizeof(*order), compare_on_threads, g->events);
    for (size_t first = 0, next; first < g->n_host && r >= 0; first = next) {
        for (next = first; next < g->n_host && g->events[order[next]].track == g->events[order[first]].track;)
            next++;
        r = walk_thread(g, t, order + first, next - first);
    }
    return r;
}

/* -- Path lock ------------------------------------------------------------------------------------------- */

/* The lock of the CUDA runtime: only one call that takes it goes on at a time. */

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

/* -- Path launches --------------------------------------------------------------------------------------- */

/* Launches: in which order streams got them, and how much waited there already. */

static int path_launch_compare_launches(const void *x, const void *y)
{
    const struct path_launch *a = x, *b = y;

    return a->ts != b->ts ? (a->ts > b->ts) - (a->ts < b->ts)
                          : (a->gpu->slice > b->gpu->slice) - (a->gpu->slice < b->gpu->slice);
}

/* Launches are in order of time. */
static int compare_on_streams(const void *x, const void *y, void *arg)
{
    uint32_t i = *(const uint32_t *)x, k = *(const uint32_t *)y;
    const struct path_launch *launches = arg, *a = &launches[i], *b = &launches[k];

    return a->stream != b->stream ? (a->stream > b->stream) - (a->stream < b->stream) : (i > k) - (i < k);
}

static int compare_on_tracks(const void *x, const void *y, void *arg)
{
    uint32_t i = *(const uint32_t *)x, k = *(const uint32_t *)y;
    const struct path_launch *launches = arg, *a = &launches[i], *b = &launches[k];

    if (a->stream == b->stream && a->track != b->track)
        return a->track < b->track ? -1 : 1;
    return compare_on_streams(x, y, arg);
}

static int order_launches(struct path_graph *g)
{
    size_t n = g->n_launches;

    g->on_streams = malloc((n + 1) * sizeof(*g->on_streams));
    g->on_tracks = malloc((n + 1) * sizeof(*g->on_tracks));
    g->of_work = calloc(g->work->n + 1, sizeof(*g->of_work));
    if (!g->on_streams || !g->on_tracks || !g->of_work)
        return -ENOMEM;
    qsort(g->launches, n, sizeof(*g->launches), path_launch_compare_launches);
    for (uint32_t i = 0; i < n; i++) {
        g->on_streams[i] = g->on_tracks[i] = i;
        g->of_work[g->launches[i].gpu - g->work->events] = i + 1;
    }
    qsort_r(g->on_streams, n, sizeof(*g->on_streams), compare_on_streams, g->launches);
    qsort_r(g->on_tracks, n, sizeof(*g->on_tracks), compare_on_tracks, g->launches);
    return 0;
}

/* A launch adds to its stream's queue, the beginning of the work takes it away. */
struct queue_step {
    int64_t stream, ts;
    uint32_t launch;
    int8_t by;
};

static int path_launch_compare_steps(const void *x, const void *y)
{
    const struct queue_step *a = x, *b = y;

    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    if (a->ts != b->ts)
        return a->ts < b->ts ? -1 : 1;
    return a->launch != b->launch ? (a->launch > b->launch) - (a->launch < b->launch) : b->by - a->by;
}

static int measure_queues(struct path_graph *g)
{
    _cleanup_(freep) struct queue_step *steps = calloc(2 * g->n_launches + 1, sizeof(*steps));
    int64_t queued = 0;

    if (!steps)
        return -ENOMEM;
    for (uint32_t i = 0; i < g->n_launches; i++) {
        const struct path_launch *l = &g->launches[i];
        steps[2 * i] = (struct queue_step){l->stream, l->ts, i, 1};
        steps[2 * i + 1] = (struct queue_step){l->stream, l->gpu->ts, i, -1};
    }
    qsort(steps, 2 * g->n_launches, sizeof(*steps), path_launch_compare_steps);
    for (size_t i = 0; i < 2 * g->n_launches; i++) {
        struct path_launch *l = &g->launches[steps[i].launch];
        if (i == 0 || steps[i].stream != steps[i - 1].stream)
            queued = 0;
        queued += steps[i].by;
        *(steps[i].by > 0 ? &l->queued : &l->queued_start) = queued;
    }
    return 0;
}

int path_gather_launches(struct path_graph *g)
{
    g->launches = calloc(g->work->n + 1, sizeof(*g->launches));
    if (!g->launches)
        return -ENOMEM;
    for (size_t i = 0; i < g->work->n; i++) {
        const struct gpu_event *e = &g->work->events[i];
        if (gpu_event_launch(e) == SLICE_NONE ||
            !(path_call_flags(g, columns_get(g->c, COL_slice_name, gpu_event_launch(e))) & CALL_LAUNCHES))
            continue;
        uint32_t call = g->of_slice[gpu_event_launch(e)];
        g->launches[g->n_launches++] =
            (struct path_launch){.ts = columns_get(g->c, COL_slice_ts, gpu_event_launch(e)),
                                 .stream = e->stream,
                                 .device = e->device,
                                 .track = columns_get(g->c, COL_slice_track, gpu_event_launch(e)),
                                 .call = call ? call - 1 : PATH_NONE,
                                 .gpu = e};
    }
    int r = order_launches(g);
    return r < 0 ? r : measure_queues(g);
}

/* -- Looking for one ---------------------------------------------------------------------------------- */

static bool is_later(const struct path_launch *l, int64_t stream, int64_t ts)
{
    return l->stream != stream ? l->stream > stream : l->ts > ts;
}

const struct path_launch *path_launch_before(const struct path_graph *g, int64_t stream, int64_t ts)
{
    size_t behind = FIRST_THAT(i, 0, g->n_launches, is_later(&g->launches[g->on_streams[i]], stream, ts));
    const struct path_launch *last = behind > 0 ? &g->launches[g->on_streams[behind - 1]] : NULL;
    return last && last->stream == stream ? last : NULL;
}

static bool path_launch_is_before(const struct path_launch *l, int64_t stream, int64_t track, int64_t ts)
{
    if (l->stream != stream)
        return l->stream < stream;
    return l->track != track ? l->track < track : l->ts < ts;
}

const struct path_launch *path_launch_after(const struct path_graph *g, int64_t stream, int64_t track,
                                            int64_t ts)
{
    size_t at = FIRST_THAT(i, 0, g->n_launches,
                           !path_launch_is_before(&g->launches[g->on_tracks[i]], stream, track, ts));
    const struct path_launch *next = at < g->n_launches ? &g->launches[g->on_tracks[at]] : NULL;
    return next && next->stream == stream && next->track == track ? next : NULL;
}

const struct path_launch *path_launch_of(const struct path_graph *g, const struct gpu_event *work)
{
    uint32_t number = g->of_work[work - g->work->events];

    return number ? &g->launches[number - 1] : NULL;
}
