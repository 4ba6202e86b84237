/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All slices that reach into a gap are collected from the tracks of its thread, by when they begin. Then the
 * gap is walked through once with a stack of the open ones: the innermost is the one that began last and has
 * not ended, whether the tracks of a thread nest or lie across each other. A call of the GPU's runtime is
 * always innermost: the profiler stamps it by another clock than operators, so that it may begin some
 * microseconds before the operator that it lies in.
 */
#include "trace/reports/gap.h"

#include "base/array.h"
#include "trace/reports/host.h"
#include "trace/reports/search.h"
#include <errno.h>

/* Slices are nested less deep than this; a damaged file may claim otherwise. */
#define CLIMB_MAX 1024
/*
 * Slices that are looked at in all gaps together, for each slice of the trace. A gap of every GPU or stream
 * looks at what its thread did then: a file that names thousands of streams would take the product of both,
 * in time and in memory.
 */
#define VISITS_PER_SLICE_MAX 64
#define VISITS_MIN           65536

struct gap_call_open_slice {
    int64_t ts, end;
    uint64_t slice;
    int64_t self;
    bool is_runtime;
};

/* Places of open slices, the one that began last on top. */
struct open_stack {
    size_t *items;
    size_t n, cap;
};

struct gap_walk {
    const struct columns *c;
    struct thread_tracks tracks;
    struct gap_call_open_slice *items;
    size_t n, cap;
    struct open_stack runtime, others;
    /* Columns of the slices, unpacked: a slice that lies in the gaps of several streams is read for each. */
    int64_t *ts, *dur, *by_track;
    bool *is_runtime;
    uint64_t n_slices, n_places, visits_left;
};

static void gap_walk_done(struct gap_walk *w)
{
    thread_tracks_done(&w->tracks);
    free(w->items);
    free(w->runtime.items);
    free(w->others.items);
    free(w->ts);
    free(w->dur);
    free(w->by_track);
    free(w->is_runtime);
}

/* A complete column as an array, the caller's; NULL without memory. */
static int64_t *read_column(const struct columns *c, enum column column, uint64_t n)
{
    int64_t *values = calloc(n + BLOCK_ROWS, sizeof(*values));

    for (uint64_t first = 0; values && first < n; first += BLOCK_ROWS)
        columns_block(c, column, first, BLOCK_ROWS, &values[first]);
    return values;
}

static int gap_walk_read_slices(struct gap_walk *w)
{
    w->n_slices = columns_rows(w->c, TABLE_slice);
    w->n_places = columns_rows(w->c, TABLE_by_track);
    w->ts = read_column(w->c, COL_slice_ts, w->n_slices);
    w->dur = read_column(w->c, COL_slice_dur, w->n_slices);
    w->by_track = read_column(w->c, COL_by_track_slice, w->n_places);
    w->is_runtime = calloc(w->n_slices + 1, sizeof(*w->is_runtime));
    _cleanup_(freep) int64_t *categories = read_column(w->c, COL_slice_category, w->n_slices);
    if (!w->ts || !w->dur || !w->by_track || !w->is_runtime || !categories)
        return -ENOMEM;
    int64_t category = COLUMN_NULL;
    bool is_runtime = false;
    for (uint64_t i = 0; i < w->n_slices; i++) {
        if (categories[i] != category) {
            category = categories[i];
            is_runtime = host_kind_of(columns_text(w->c, category)) == HOST_RUNTIME;
        }
        w->is_runtime[i] = is_runtime;
    }
    return 0;
}

/* A slice that reaches into [from, to). */
static int gap_walk_add(struct gap_walk *w, uint64_t slice, int64_t from, int64_t to)
{
    /* The parent that a damaged file names may be none of its slices. */
    int64_t ts = slice < w->n_slices ? w->ts[slice] : COLUMN_NULL,
            dur = slice < w->n_slices ? w->dur[slice] : 0;
    int64_t end = ts == COLUMN_NULL ? 0 : add_time(ts, MAX(dur, 0));

    if (w->visits_left > 0)
        w->visits_left--;
    if (ts == COLUMN_NULL || ts >= to || end <= from)
        return 0;
    if (!ARRAY_RESERVE(w->items, w->cap, w->n + 1))
        return -ENOMEM;
    w->items[w->n++] = (struct gap_call_open_slice){ts, end, slice, 0, w->is_runtime[slice]};
    return 0;
}

static uint64_t gap_call_slice_at(const struct gap_walk *w, uint64_t position)
{
    int64_t slice = w->by_track[position];

    return slice < 0 || (uint64_t)slice >= w->n_slices ? SLICE_NONE : (uint64_t)slice;
}

static int gap_walk_collect_track(struct gap_walk *w, uint64_t track, int64_t from, int64_t to)
{
    const struct columns *c = w->c;
    int64_t first = columns_get(c, COL_track_first, track), count = columns_get(c, COL_track_count, track);
    uint64_t n = w->n_places, begun = columns_lower_bound(c, COL_slice_ts, from);
    int r = 0;

    if (first < 0 || count < 0 || (uint64_t)first > n)
        return 0;
    /* As an unsigned number COLUMN_NULL is after all slices. */
    uint64_t end = (uint64_t)first + MIN((uint64_t)count, n - (uint64_t)first),
             at = FIRST_THAT(i, (uint64_t)first, end, (uint64_t)w->by_track[i] >= begun);
    /* What is open when the gap begins: the slice that began last, and what it lies in. */
    uint64_t open = at > (uint64_t)first ? gap_call_slice_at(w, at - 1) : SLICE_NONE;
    for (int i = 0; i < CLIMB_MAX && open != SLICE_NONE && w->visits_left > 0 && r >= 0;
         i++, open = ancestor_parent(c, open))
        r = gap_walk_add(w, open, from, to);
    for (; at < end && w->visits_left > 0 && r >= 0; at++) {
        uint64_t slice = gap_call_slice_at(w, at);
        if (slice == SLICE_NONE || w->ts[slice] >= to)
            break;
        r = gap_walk_add(w, slice, from, to);
    }
    return r;
}

/* By when they begin; of those that begin at once the longer is the outer one. */
static int compare_open(const void *x, const void *y)
{
    const struct gap_call_open_slice *a = x, *b = y;

    if (a->ts != b->ts)
        return (a->ts > b->ts) - (a->ts < b->ts);
    if (a->end != b->end)
        return (a->end < b->end) - (a->end > b->end);
    return (a->slice > b->slice) - (a->slice < b->slice);
}

/* As they come from a single track, but for what was open when the gap began. */
static bool is_in_order(const struct gap_walk *w)
{
    for (size_t i = 1; i < w->n; i++)
        if (compare_open(&w->items[i - 1], &w->items[i]) > 0)
            return false;
    return true;
}

/* What is open at a time, the one that began last; NULL. */
static struct gap_call_open_slice *open_at(const struct gap_walk *w, struct open_stack *stack, int64_t at)
{
    while (stack->n > 0 && w->items[stack->items[stack->n - 1]].end <= at)
        stack->n--;
    return stack->n > 0 ? &w->items[stack->items[stack->n - 1]] : NULL;
}

/* Gives every nanosecond of [from, to) to the innermost open slice; returns what none has. */
static int64_t gap_walk_share(struct gap_walk *w, int64_t from, int64_t to)
{
    int64_t none = 0;
    size_t next = 0;

    w->runtime.n = w->others.n = 0;
    for (int64_t at = from; at < to;) {
        for (; next < w->n && w->items[next].ts <= at; next++) {
            struct open_stack *stack = w->items[next].is_runtime ? &w->runtime : &w->others;
            stack->items[stack->n++] = next;
        }
        int64_t until = next < w->n ? MIN(w->items[next].ts, to) : to;
        struct gap_call_open_slice *open = open_at(w, &w->runtime, at);
        if (!open)
            open = open_at(w, &w->others, at);
        if (open) {
            until = MIN(until, open->end);
            open->self += until - at;
        } else {
            none += until - at;
        }
        at = until;
    }
    return none;
}

static int gap_call_add(struct gap_call_list *list, size_t gap, uint64_t slice, int64_t ns)
{
    if (ns <= 0)
        return 0;
    if (!ARRAY_RESERVE(list->items, list->cap, list->n + 1))
        return -ENOMEM;
    list->items[list->n++] = (struct gap_call){gap, slice, ns};
    return 0;
}

static int gap_walk_one(struct gap_walk *w, const struct gaps *gaps, size_t i, int64_t end,
                        struct gap_call_list *ret)
{
    const struct gap *gap = &gaps->items[i];
    int r = 0, tracks = THREAD_TRACKS_MAX;

    w->n = 0;
    uint32_t t = end > gap->from ? thread_tracks_of(&w->tracks, w->c, gap) : 0;
    if (t == 0)
        return 0;
    for (; t > 0 && tracks > 0 && r >= 0; t = w->tracks.next[t - 1], tracks--)
        r = gap_walk_collect_track(w, t - 1, gap->from, end);
    /* Half of what a thread did would be wrong. */
    if (w->visits_left == 0)
        return r;
    if (r < 0 || !ARRAY_RESERVE(w->runtime.items, w->runtime.cap, w->n + 1) ||
        !ARRAY_RESERVE(w->others.items, w->others.cap, w->n + 1))
        return -ENOMEM;
    if (!is_in_order(w))
        qsort(w->items, w->n, sizeof(*w->items), compare_open);
    int64_t none = gap_walk_share(w, gap->from, end);
    for (size_t k = 0; k < w->n && r >= 0; k++)
        r = gap_call_add(ret, i, w->items[k].slice, w->items[k].self);
    return r < 0 ? r : gap_call_add(ret, i, SLICE_NONE, none);
}

int gap_calls_read(const struct columns *c, const struct gaps *gaps, const int64_t *ends,
                   struct gap_call_list *ret)
{
    _cleanup_(gap_walk_done) struct gap_walk w = {.c = c};
    int r = gaps->n > 0 ? thread_tracks_read(c, &w.tracks) : 0;

    if (r >= 0 && gaps->n > 0)
        r = gap_walk_read_slices(&w);
    *ret = (struct gap_call_list){0};
    w.visits_left = MAX(VISITS_PER_SLICE_MAX * columns_rows(c, TABLE_slice), (uint64_t)VISITS_MIN);
    for (size_t i = 0; i < gaps->n && w.visits_left > 0 && r >= 0; i++)
        r = gap_walk_one(&w, gaps, i, ends[i], ret);
    if (r < 0)
        gap_calls_done(ret);
    return r;
}

int gap_calls_of_all(const struct columns *c, const struct gaps *gaps, struct gap_call_list *ret)
{
    _cleanup_(freep) int64_t *ends = calloc(gaps->n + 1, sizeof(*ends));

    *ret = (struct gap_call_list){0};
    if (!ends)
        return -ENOMEM;
    for (size_t i = 0; i < gaps->n; i++)
        ends[i] = gaps->items[i].to;
    return gap_calls_read(c, gaps, ends, ret);
}

void gap_calls_done(struct gap_call_list *list)
{
    free(list->items);
    *list = (struct gap_call_list){0};
}

int call_sums_begin(struct call_sums *sums, const struct columns *c)
{
    *sums = (struct call_sums){.c = c, .n_texts = columns_texts(c)};
    sums->ns = calloc((size_t)sums->n_texts + 1, sizeof(*sums->ns));
    return sums->ns ? 0 : -ENOMEM;
}

/* The last position is that of what has no name. */
static int64_t *call_sum_of(struct call_sums *sums, const struct gap_call *part)
{
    int64_t name =
        part->slice == SLICE_NONE ? COLUMN_NULL : columns_get(sums->c, COL_slice_name, part->slice);

    return &sums->ns[name >= 0 && name < sums->n_texts ? name : sums->n_texts];
}

struct top_call call_sums_top(struct call_sums *sums, const struct gap_call *parts, size_t n)
{
    struct top_call top = {COLUMN_NULL, 0};

    for (size_t i = 0; i < n; i++)
        *call_sum_of(sums, &parts[i]) += parts[i].ns;
    for (size_t i = 0; i < n; i++) {
        int64_t *sum = call_sum_of(sums, &parts[i]);
        if (*sum > top.ns)
            top = (struct top_call){sum == &sums->ns[sums->n_texts] ? COLUMN_NULL : sum - sums->ns, *sum};
        *sum = 0;
    }
    return top;
}

void call_sums_done(struct call_sums *sums)
{
    free(sums->ns);
}
