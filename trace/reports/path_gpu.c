/* SPDX-License-Identifier: Apache-2.0 */
/* What streams did: work in its order, what it waited for, and what waited for it. */
#include "base/array.h"
#include "trace/reports/host.h"
#include "trace/reports/path_graph.h"
#include <errno.h>

/* A kernel that begins this long after the previous one did not wait for it (HTA's threshold). */
#define KERNEL_KERNEL_MAX_NS 1500000
/* Streams of one process: each synchronisation with all of them looks at each. */
#define STREAMS_MAX 512
/* Edges of a graph for each of its events; only one of synchronisations with hundreds of streams has more. */
#define EDGES_PER_EVENT 64

enum sync_kind { SYNC_STREAM, SYNC_CONTEXT, SYNC_EVENT, SYNC_STREAM_WAIT, _SYNC_KIND_MAX };

static const char *const sync_names[_SYNC_KIND_MAX] = {
    [SYNC_STREAM] = "Stream Sync",
    [SYNC_CONTEXT] = "Context Sync",
    [SYNC_EVENT] = "Event Sync",
    [SYNC_STREAM_WAIT] = "Stream Wait Event",
};

/* Work or a synchronisation, in the order in which a stream comes to it: of the latter, when it ends. */
struct stream_entry {
    int64_t at;
    const struct gpu_event *work; /* NULL: a synchronisation */
    enum sync_kind kind;
    uint64_t row;   /* of TABLE_gpu */
    uint32_t event; /* the work's */
};

struct stream_entries {
    struct stream_entry *items;
    size_t n, cap;
};

static int add_entry(struct stream_entries *entries, struct stream_entry entry)
{
    if (!ARRAY_RESERVE(entries->items, entries->cap, entries->n + 1))
        return -ENOMEM;
    entries->items[entries->n++] = entry;
    return 0;
}

static int path_gpu_gather_work(struct path_graph *g, struct stream_entries *ret)
{
    for (size_t i = 0; i < g->work->n; i++) {
        const struct gpu_event *w = &g->work->events[i];
        if (gpu_event_launch(w) == SLICE_NONE || !g->of_slice[gpu_event_launch(w)])
            continue;
        struct path_event *e = path_add_event(g);
        if (!e)
            return path_event_error(g);
        *e = (struct path_event){
            .ts = w->ts, .end = w->end, .slice = w->slice, .track = COLUMN_NULL, .parent = PATH_NONE};
        g->of_slice[w->slice] = (uint32_t)g->n;
        int r = add_entry(ret, (struct stream_entry){.at = w->ts, .work = w, .event = (uint32_t)g->n - 1});
        if (r < 0)
            return r;
    }
    return 0;
}

static int gather_syncs(struct path_graph *g, struct stream_entries *ret)
{
    const struct columns *c = g->c;

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
                int r = add_entry(ret, (struct stream_entry){.at = ts + dur, .kind = kind, .row = row});
                if (r < 0)
                    return r;
            }
    }
    return 0;
}

static int compare_entries(const void *x, const void *y)
{
    const struct stream_entry *a = x, *b = y;

    return a->at != b->at ? (a->at > b->at) - (a->at < b->at) : (a->row > b->row) - (a->row < b->row);
}

struct streams {
    struct {
        int64_t stream;
        uint32_t last; /* event */
    } items[STREAMS_MAX];
    size_t n;
};

struct gpu_side {
    struct path_graph *g;
    struct correlations calls;
    struct streams streams;
    uint32_t *waits_for; /* of each event: the work it waits for by a stream's wait; PATH_NONE */
};

static void gpu_side_done(struct gpu_side *side)
{
    correlations_done(&side->calls);
    free(side->waits_for);
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
    s->items[s->n].last = PATH_NONE;
    return &s->items[s->n++].last;
}

static uint64_t find_call(const struct gpu_side *side, int64_t correlation)
{
    size_t at = correlation > 0 ? correlations_find(&side->calls, correlation) : side->calls.n;

    return at < side->calls.n ? (uint64_t)side->calls.items[at].item : SLICE_NONE;
}

/* What was launched last before the event was recorded that a synchronisation waits for. */
static uint32_t awaited_work(const struct gpu_side *side, uint64_t row)
{
    const struct columns *c = side->g->c;
    int64_t stream = columns_get(c, COL_gpu_wait_on_stream, row),
            record = columns_get(c, COL_gpu_wait_on_record, row);
    uint64_t call = record > 0 && stream != COLUMN_NULL ? find_call(side, record) : SLICE_NONE;

    if (call == SLICE_NONE ||
        !(path_call_flags(side->g, columns_get(c, COL_slice_name, call)) & CALL_RECORDS))
        return PATH_NONE;
    const struct path_launch *l = path_launch_before(side->g, stream, columns_get(c, COL_slice_ts, call));
    uint32_t event = l ? side->g->of_slice[l->gpu->slice] : 0;
    return event ? event - 1 : PATH_NONE;
}

static int end_at_call(struct gpu_side *side, uint32_t work, uint64_t call)
{
    uint32_t event = call == SLICE_NONE || work == PATH_NONE ? 0 : side->g->of_slice[call];

    return event && side->g->events[event - 1].end >= side->g->events[work].end
               ? path_depend(side->g, path_end(work), path_end(event - 1))
               : 0;
}

static int path_gpu_synchronise(struct gpu_side *side, const struct stream_entry *entry)
{
    const struct columns *c = side->g->c;
    uint64_t call = find_call(side, columns_get(c, COL_gpu_correlation, entry->row));
    int64_t stream = columns_get(c, COL_gpu_stream, entry->row);
    int r = 0;

    switch (entry->kind) {
    case SYNC_CONTEXT:
        for (size_t i = 0; i < side->streams.n && r >= 0; i++)
            r = end_at_call(side, side->streams.items[i].last, call);
        return r;
    case SYNC_STREAM:
        for (size_t i = 0; i < side->streams.n && r >= 0; i++)
            if (side->streams.items[i].stream == stream)
                r = end_at_call(side, side->streams.items[i].last, call);
        return r;
    case SYNC_EVENT:
        return end_at_call(side, awaited_work(side, entry->row), call);
    default:
        break;
    }
    /* The next work on this stream begins when the awaited one has ended. */
    const struct path_launch *next =
        call == SLICE_NONE ? NULL
                           : path_launch_after(side->g, stream, columns_get(c, COL_slice_track, call),
                                               columns_get(c, COL_slice_ts, call));
    uint32_t event = next ? side->g->of_slice[next->gpu->slice] : 0,
             awaited = event ? awaited_work(side, entry->row) : PATH_NONE;
    if (awaited != PATH_NONE)
        side->waits_for[event - 1] = awaited;
    return 0;
}

/* Why work began when it did: it was waited for elsewhere, launched just then, or the work before it ended.
 */
static int build_work(struct gpu_side *side, const struct stream_entry *entry)
{
    struct path_graph *g = side->g;
    uint32_t event = entry->event, awaited = side->waits_for[event],
             *last = last_on(&side->streams, entry->work->stream);
    const struct path_launch *l = path_launch_of(g, entry->work);
    int64_t called = columns_get(g->c, COL_slice_ts, gpu_event_launch(entry->work));
    enum path_bound bound =
        entry->work->kind == GPU_COMMUNICATION ? BOUND_GPU_COMMUNICATION : BOUND_GPU_COMPUTE;
    int r = last ? path_spend(g, path_start(event), path_end(event), event, bound) : -E2BIG;

    if (r >= 0 && awaited != PATH_NONE && g->events[awaited].end > g->events[event].ts)
        awaited = PATH_NONE; /* it did not wait */
    if (r >= 0 && awaited != PATH_NONE)
        r = path_depend(g, path_end(awaited), path_start(event));
    if (r < 0)
        return r;
    bool stream_was_free = *last == PATH_NONE || g->events[*last].end < called;
    if (l && l->queued == 1 && l->queued_start == 0 && stream_was_free &&
        (awaited == PATH_NONE || g->events[awaited].end < called))
        r = path_spend(g, path_start(g->of_slice[gpu_event_launch(entry->work)] - 1), path_start(event),
                       event, BOUND_LAUNCH);
    else if (*last != PATH_NONE && g->events[event].ts >= g->events[*last].end &&
             g->events[event].ts - g->events[*last].end < KERNEL_KERNEL_MAX_NS &&
             (awaited == PATH_NONE || g->events[awaited].end < g->events[*last].end))
        r = path_spend(g, path_end(*last), path_start(event), *last, BOUND_KERNEL_KERNEL);
    *last = event;
    return r;
}

int path_add_gpu(struct path_graph *g)
{
    _cleanup_(gpu_side_done) struct gpu_side side = {.g = g};
    struct stream_entries entries = {0};
    int r = path_gpu_gather_work(g, &entries);

    if (r >= 0)
        r = gather_syncs(g, &entries);
    if (r >= 0)
        r = correlations_read(g->c, INT64_MAX, &side.calls);
    side.waits_for = r >= 0 ? malloc((g->n + 1) * sizeof(*side.waits_for)) : NULL;
    if (r >= 0 && !side.waits_for)
        r = -ENOMEM;
    if (r >= 0) {
        memset(side.waits_for, 0xff, (g->n + 1) * sizeof(*side.waits_for));
        if (entries.n > 0)
            qsort(entries.items, entries.n, sizeof(*entries.items), compare_entries);
    }
    for (size_t i = 0; i < entries.n && r >= 0; i++) {
        r = entries.items[i].work ? build_work(&side, &entries.items[i])
                                  : path_gpu_synchronise(&side, &entries.items[i]);
        if (r >= 0 && g->dag.n_edges > EDGES_PER_EVENT * (g->n + entries.n))
            r = -E2BIG;
    }
    free(entries.items);
    return r;
}
