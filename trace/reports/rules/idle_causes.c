/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every idle gap is divided into parts, and each part has one cause, so that findings of idle time partition
 * it. A part is the time that the thread which launched the next work spent in one call itself
 * (gap.h); its class is the host activity, its cause the finding that it belongs to.
 */
#include "trace/reports/rules/idle_causes.h"

#include "base/array.h"
#include "trace/reports/gap.h"
#include "trace/reports/host.h"
#include "trace/reports/launches.h"
#include "trace/reports/search.h"
#include <errno.h>

/* -- Calls that waited -------------------------------------------------------------------------------- */

struct wait {
    int64_t track, ts, end;
    uint64_t slice;
};

struct waits {
    struct wait *items; /* by track and time */
    size_t n, cap;
};

/* How copies were called. */
struct copy_call {
    uint64_t call;
    bool is_pageable, is_blocking; /* the call returned only when the copy was done */
};

struct copy_calls {
    struct copy_call *items; /* by call */
    size_t n, cap;
};

static void copy_calls_done(struct copy_calls *c)
{
    free(c->items);
}

static void waits_done(struct waits *w)
{
    free(w->items);
}

static int idle_add_wait(const struct slice_table *t, uint64_t slice, struct waits *ret)
{
    int64_t ts = slice_ts(t, slice), dur = slice_dur(t, slice);

    if (ts == COLUMN_NULL || dur <= 0)
        return 0;
    if (!ARRAY_RESERVE(ret->items, ret->cap, ret->n + 1))
        return -ENOMEM;
    ret->items[ret->n++] = (struct wait){slice_track(t, slice), ts, add_time(ts, dur), slice};
    return 0;
}

static int compare_waits(const void *x, const void *y)
{
    const struct wait *a = x, *b = y;

    if (a->track != b->track)
        return (a->track > b->track) - (a->track < b->track);
    return (a->ts > b->ts) - (a->ts < b->ts);
}

static int compare_copy_calls(const void *x, const void *y)
{
    const struct copy_call *a = x, *b = y;

    return (a->call > b->call) - (a->call < b->call);
}

static int add_waits_of_name(const struct columns *c, const struct slice_table *t, uint64_t row,
                             struct waits *ret)
{
    struct name_rows rows = name_rows_of(c, row);
    int r = 0;

    for (uint64_t i = rows.first; i < rows.end && r >= 0; i++) {
        int64_t slice = columns_get(c, COL_by_name_slice, i);
        if (slice != COLUMN_NULL)
            r = idle_add_wait(t, (uint64_t)slice, ret);
    }
    return r;
}

/* Calls that wait by their name, and copies that returned only when they were done. */
static int find_waits(const struct rule_rank *rank, struct waits *ret, struct copy_calls *ret_copies)
{
    const struct columns *c = rank->columns;
    const struct slice_table *t = rank->slices;
    int r = 0;

    for (uint64_t row = 0; row < columns_rows(c, TABLE_name) && r >= 0; row++)
        if (host_kind_of(columns_text(c, columns_get(c, COL_name_category, row))) == HOST_RUNTIME &&
            sync_call_of(columns_text(c, columns_get(c, COL_name_name, row))) == SYNC_WAIT)
            r = add_waits_of_name(c, t, row, ret);
    for (size_t i = 0; i < rank->work->n && r >= 0; i++) {
        const struct gpu_event *e = &rank->work->events[i];
        if (e->class != CLASS_MEMORY || gpu_event_launch(e) == SLICE_NONE)
            continue;
        int64_t ts = slice_ts(t, gpu_event_launch(e)), dur = slice_dur(t, gpu_event_launch(e));
        struct copy_call call = {.call = gpu_event_launch(e),
                                 .is_pageable = e->is_pageable,
                                 .is_blocking = ts != COLUMN_NULL && dur > 0 && add_time(ts, dur) >= e->end};
        if (call.is_blocking)
            r = idle_add_wait(t, gpu_event_launch(e), ret);
        if (!ARRAY_RESERVE(ret_copies->items, ret_copies->cap, ret_copies->n + 1))
            return -ENOMEM;
        ret_copies->items[ret_copies->n++] = call;
    }
    if (ret->n > 1)
        qsort(ret->items, ret->n, sizeof(*ret->items), compare_waits);
    if (ret_copies->n > 1)
        qsort(ret_copies->items, ret_copies->n, sizeof(*ret_copies->items), compare_copy_calls);
    return r;
}

static bool idle_is_behind(const struct wait *wait, int64_t track, int64_t at)
{
    return wait->track != track ? wait->track > track : wait->ts > at;
}

/* The call in which the thread waited at a time, or NULL. */
static const struct wait *wait_at(const struct waits *w, int64_t track, int64_t at)
{
    size_t behind = FIRST_THAT(i, 0, w->n, idle_is_behind(&w->items[i], track, at));
    const struct wait *last = behind > 0 ? &w->items[behind - 1] : NULL;
    return last && last->track == track && last->end >= at ? last : NULL;
}

/* -- Gaps --------------------------------------------------------------------------------------------- */

static int add_gap(struct gaps *gaps, const struct gap *gap)
{
    if (!ARRAY_RESERVE(gaps->items, gaps->cap, gaps->n + 1))
        return -ENOMEM;
    gaps->items[gaps->n++] = *gap;
    return 0;
}

/* Unlike those of the report gaps: of the entire GPU, not of a stream. */
static int find_gaps(struct rule_rank *rank)
{
    const struct gpu_work *work = rank->work;
    int64_t end = INT64_MIN;
    uint64_t before = SLICE_NONE;
    int r = 0;

    for (size_t i = 0; i < work->n && r >= 0; i++) {
        const struct gpu_event *e = &work->events[i];
        if (before != SLICE_NONE && e->ts > end) {
            const struct interval *in = intervals_find(&rank->scope, e->ts - 1);
            struct gap gap = {.from = in ? MAX(end, in->from) : e->ts,
                              .to = e->ts,
                              .before = before,
                              .after = e->slice,
                              .launch = gpu_event_launch(e),
                              .blamed = SLICE_NONE};
            gap.idle = gap.to - gap.from;
            if (gap.idle > 0)
                r = add_gap(&rank->gaps, &gap);
        }
        if (e->end > end || before == SLICE_NONE) {
            end = e->end;
            before = e->slice;
        }
    }
    return r;
}

/* -- The beginning of the recording ------------------------------------------------------------------- */

/* A shorter wait may be the call itself, or the scheduling of its thread. */
#define EDGE_MIN_NS 1000000
/* Before the wait, GPU activity takes at most one part in this number of the time. */
#define EDGE_WORK_PART 10

/* Whether all of the GPU's earlier work was done, for a call that waits for a stream or the device returned.
 */
static bool was_drained(const struct rule_rank *rank, const struct waits *waits, int64_t before)
{
    for (size_t i = 0; i < waits->n; i++) {
        struct text name = columns_text(rank->columns, slice_name(rank->slices, waits->items[i].slice));
        if (waits->items[i].end <= before && name.size > 0 && !memmem(name.p, name.size, "Event", 5))
            return true;
    }
    return false;
}

/*
 * The GPU looks idle while the host waits for it, or while launched GPU events do not start, and nothing
 * that the recording knows is left to run: most likely it is busy with work that was launched before the
 * recording, whose events nobody kept. Only the first long gap can be such, with hardly any work before it.
 */
static void find_edge(struct rule_rank *rank, const struct launches *launches, const struct waits *waits)
{
    int64_t work = 0;
    size_t at = 0;

    for (size_t i = 0; i < rank->gaps.n; i++) {
        const struct gap *gap = &rank->gaps.items[i];
        if (gap->idle < EDGE_MIN_NS)
            continue;
        for (; at < rank->work->n && rank->work->events[at].ts < gap->from; at++)
            work = add_time(work, rank->work->events[at].end - rank->work->events[at].ts);
        const struct launch *l = launches_find(launches, gap->launch);
        if (!l || work > gap->idle / EDGE_WORK_PART ||
            was_drained(rank, waits, add_time(gap->from, EDGE_MIN_NS)))
            return;
        const struct wait *wait =
            wait_at(waits, slice_track(rank->slices, gap->launch), add_time(gap->from, EDGE_MIN_NS));
        int64_t queued = gap->to - MAX(l->end, gap->from),
                waited = wait ? MIN(wait->end, gap->to) - MAX(wait->ts, gap->from) : 0;
        if (queued < EDGE_MIN_NS && waited < EDGE_MIN_NS)
            continue;
        rank->edge = (struct interval){gap->from, queued >= EDGE_MIN_NS ? gap->to : MIN(wait->end, gap->to)};
        rank->edge_wait = wait ? wait->slice : SLICE_NONE;
        return;
    }
}

/* Takes it out of what is evaluated. */
static int leave_edge_out(struct rule_rank *rank)
{
    _cleanup_(intervals_done) struct intervals edge = {0}, left = {0};
    int r = intervals_add(&edge, rank->edge.from, rank->edge.to);

    if (r >= 0)
        r = intervals_subtract(&rank->scope, &edge, &left);
    if (r < 0)
        return r;
    intervals_done(&rank->scope);
    rank->scope = left;
    left = (struct intervals){0};
    rank->length = intervals_length(&rank->scope);
    gaps_done(&rank->gaps);
    return find_gaps(rank);
}

/* -- Causes ------------------------------------------------------------------------------------------- */

/* What decides about all parts of a gap. */
struct gap_context {
    const struct launch *launch; /* NULL: unknown */
    bool in_step, is_short;
    bool is_after_wait; /* the thread was in a call that waits for the GPU when the GPU ran dry */
    bool is_rest;       /* for long, and with nothing on the host either */
};

static int add_part(struct rule_rank *rank, struct idle_part part)
{
    if (part.ns <= 0)
        return 0;
    if (!ARRAY_RESERVE(rank->parts, rank->parts_cap, rank->n_parts + 1))
        return -ENOMEM;
    rank->parts[rank->n_parts++] = part;
    return 0;
}

/* Time in which the host did what it had to do, only too late for the GPU. */
static enum idle_cause cause_of_delay(const struct gap_context *x)
{
    return !x->in_step || !x->is_short ? IDLE_HOST : x->is_after_wait ? IDLE_SYNC : IDLE_LAUNCH;
}

static enum idle_cause cause_of_copy_call(const struct copy_calls *copies, uint64_t slice,
                                          const struct gap_context *x)
{
    size_t i = FIRST_THAT(k, 0, copies->n, copies->items[k].call >= slice);

    if (i == copies->n || copies->items[i].call != slice)
        return cause_of_delay(x);
    return copies->items[i].is_pageable   ? IDLE_PAGEABLE
           : copies->items[i].is_blocking ? IDLE_SYNC
                                          : cause_of_delay(x);
}

/* A launch that takes longer, while the GPU has nothing to do, most likely loads or compiles what it
 * launches. */
#define LAUNCH_LOADS_NS 1000000

static bool loads_code(const struct rule_rank *rank, const struct gap_call *call)
{
    if (call->ns < LAUNCH_LOADS_NS)
        return false;
    struct text name = columns_text(rank->columns, slice_name(rank->slices, call->slice));
    return name.size > 0 && !memmem(name.p, name.size, "Graph", 5);
}

static enum idle_cause cause_of_call(const struct rule_rank *rank, enum host_class class,
                                     const struct gap_call *call, const struct copy_calls *copies,
                                     const struct gap_context *x)
{
    switch (class) {
    case HOST_CLASS_LAUNCH:
        return loads_code(rank, call) ? IDLE_COMPILE : cause_of_delay(x);
    case HOST_CLASS_ALLOCATION:
        return IDLE_ALLOCATION;
    case HOST_CLASS_COMPILE:
        return IDLE_COMPILE;
    case HOST_CLASS_TOKENIZER:
        return IDLE_TOKENIZER;
    case HOST_CLASS_SCHEDULER:
        return IDLE_SCHEDULER;
    case HOST_CLASS_DATA:
        return IDLE_DATA;
    case HOST_CLASS_COLLECTOR:
        return IDLE_COLLECTOR;
    case HOST_CLASS_SYNC:
        return IDLE_SYNC;
    case HOST_CLASS_COPY:
        return cause_of_copy_call(copies, call->slice, x);
    default:
        return cause_of_delay(x);
    }
}

/* Until when the host is what the GPU waits for: then the next work is launched. */
static int64_t launched_at(const struct gap *gap, const struct launch *l)
{
    /* What a graph brings after its first work was there already. */
    return !l || l->begin != gap->to ? gap->from : MAX(MIN(l->end, gap->to), gap->from);
}

static int divide_gap(struct rule_rank *rank, size_t i, const struct gap_context *x,
                      const struct gap_call *calls, size_t n, struct host_classes *classes,
                      const struct copy_calls *copies)
{
    const struct gap *gap = &rank->gaps.items[i];
    int64_t left = gap->idle;
    int r = 0;

    if (!x->launch)
        return add_part(rank, (struct idle_part){i, left, SLICE_NONE, IDLE_UNKNOWN, HOST_CLASS_NOTHING});
    for (size_t k = 0; k < n && r >= 0; k++) {
        struct idle_part part = {i, calls[k].ns, calls[k].slice, IDLE_NOTHING, HOST_CLASS_NOTHING};
        if (part.slice != SLICE_NONE)
            part.class = host_classes_of(classes, part.slice);
        if (!x->is_rest)
            part.cause = cause_of_call(rank, part.class, &calls[k], copies, x);
        left -= part.ns;
        r = add_part(rank, part);
    }
    /* Launched, and not begun. After a launch in the gap it takes the GPU some microseconds to begin. */
    bool is_device = launched_at(gap, x->launch) == gap->from || left > IDLE_LAUNCH_MAX_NS;
    struct idle_part queued = {i, left, SLICE_NONE, is_device ? IDLE_DEVICE : cause_of_delay(x),
                               HOST_CLASS_QUEUED};
    if (x->is_rest)
        queued.cause = IDLE_NOTHING;
    return r < 0 ? r : add_part(rank, queued);
}

static bool is_nothing_recorded(const struct gap_call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (calls[i].slice != SLICE_NONE)
            return false;
    return n > 0;
}

static int divide_gaps(struct analysis *a, struct rule_rank *rank, const struct launches *launches,
                       const struct waits *waits, const struct copy_calls *copies,
                       const struct intervals *rests)
{
    _cleanup_(gap_walk_done) struct gap_walk walk = {0};
    _cleanup_(host_classes_done) struct host_classes classes = {0};
    int r = host_classes_new(rank->columns, rank->slices, &classes);

    if (r >= 0)
        r = gap_walk_begin(a, rank->rank, &walk);
    for (size_t i = 0; i < rank->gaps.n && r >= 0; i++) {
        const struct gap *gap = &rank->gaps.items[i];
        struct gap_context x = {.launch = launches_find(launches, gap->launch)};
        const struct step *step = rule_context_step(rank, gap->from);
        r = gap_walk_next(&walk, gap, launched_at(gap, x.launch));
        if (r < 0)
            return r;
        x.in_step = rank->n_steps < RULE_STEPS_MIN || (step && gap->to <= step->end);
        x.is_short = gap->idle <= IDLE_LAUNCH_MAX_NS;
        x.is_after_wait =
            x.launch && wait_at(waits, slice_track(rank->slices, gap->launch), gap->from) != NULL;
        const struct interval *rest = intervals_find(rests, gap->from + gap->idle / 2);
        x.is_rest = (rest && MIN(rest->to, gap->to) - MAX(rest->from, gap->from) > gap->idle / 2) ||
                    (gap->idle >= IDLE_NOTHING_MIN_NS && is_nothing_recorded(walk.calls, walk.n));
        r = divide_gap(rank, i, &x, walk.calls, walk.n, &classes, copies);
    }
    return r;
}

int idle_read(struct analysis *a, struct rule_rank *rank)
{
    _cleanup_(launches_done) struct launches launches = {0};
    _cleanup_(waits_done) struct waits waits = {0};
    _cleanup_(copy_calls_done) struct copy_calls copies = {0};
    const struct intervals *rests = NULL;
    int r = launches_read(a, rank->rank, &launches);

    if (r >= 0)
        r = find_gaps(rank);
    if (r >= 0)
        r = find_waits(rank, &waits, &copies);
    if (r >= 0)
        find_edge(rank, &launches, &waits);
    if (r >= 0 && rank->edge.to > rank->edge.from)
        r = leave_edge_out(rank);
    if (r >= 0)
        r = analysis_rests(a, rank->rank, &rests);
    if (r >= 0)
        r = gap_blame_calls(rank->columns, rank->slices, &rank->gaps);
    return r < 0 ? r : divide_gaps(a, rank, &launches, &waits, &copies, rests);
}
