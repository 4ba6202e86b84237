/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the host: what lies in what on a thread, and what follows what. */
#include "trace/columns/schema.h"
#include "trace/reports/path_graph.h"
#include <errno.h>

/* Calls nested deeper than this are left out: no real stack is. */
#define DEPTH_MAX 4096

static bool is_host_category(struct text category)
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
                is_host = is_host_category(columns_text(c, asked));
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

struct thread {
    uint32_t stack[DEPTH_MAX];
    size_t depth;
    uint32_t last; /* node */
};

/* The chain goes on to `node`: within a call its time is that call's, between calls there is only an order.
 */
static int go_to(struct path_graph *g, struct thread *t, uint32_t node, uint32_t owner, bool takes_time)
{
    int r = 0;

    if (t->last != PATH_NONE && !share_lock(g, t->last, node))
        r = takes_time ? path_spend(g, t->last, node, owner, BOUND_CPU) : path_depend(g, t->last, node);
    t->last = node;
    return r;
}

static int leave(struct path_graph *g, struct thread *t)
{
    uint32_t event = t->stack[--t->depth];

    return go_to(g, t, path_end(event), event, !(g->events[event].flags & CALL_BLOCKS));
}

static int enter(struct path_graph *g, struct thread *t, uint32_t event)
{
    uint32_t around = t->depth > 0 ? t->stack[t->depth - 1] : PATH_NONE;
    int r = go_to(g, t, path_start(event), around, around != PATH_NONE);

    g->events[event].parent = around;
    t->stack[t->depth++] = event;
    return r;
}

/* Events of a thread, outer before inner, in order of time. */
static int walk_thread(struct path_graph *g, struct thread *t, const uint32_t *events, size_t n)
{
    int r = 0;

    t->depth = 0;
    t->last = PATH_NONE;
    for (size_t i = 0; i < n && r >= 0; i++) {
        while (t->depth > 0 && g->events[t->stack[t->depth - 1]].end <= g->events[events[i]].ts && r >= 0)
            r = leave(g, t);
        if (r >= 0 && t->depth < DEPTH_MAX)
            r = enter(g, t, events[i]);
    }
    while (t->depth > 0 && r >= 0)
        r = leave(g, t);
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
    _cleanup_(freep) struct thread *t = malloc(sizeof(*t));
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
