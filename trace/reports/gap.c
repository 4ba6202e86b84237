/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever covers more than half of a gap covers its middle. So it is enough to know, for each gap, which
 * slice of the thread began last before that: it, or one that it lies in. All gaps are asked in one walk
 * through the slices.
 */
#include "trace/reports/gap.h"

#include "base/array.h"
#include "base/statistics.h"
#include "trace/reports/interval.h"
#include "trace/reports/search.h"
#include <errno.h>

/* -- Tracks of threads --------------------------------------------------------------------------------- */

int thread_tracks_read(const struct columns *c, struct thread_tracks *ret)
{
    uint64_t n_tracks = columns_rows(c, TABLE_track), n_threads = columns_rows(c, TABLE_thread);

    *ret = (struct thread_tracks){calloc(n_tracks + 1, sizeof(*ret->next)),
                                  calloc(n_threads + 1, sizeof(*ret->first)), n_threads};
    if (!ret->next || !ret->first)
        return -ENOMEM;
    for (uint64_t track = n_tracks; track > 0; track--) {
        int64_t thread = columns_get(c, COL_track_thread, track - 1);
        if (thread < 0 || (uint64_t)thread >= n_threads)
            continue;
        ret->next[track - 1] = ret->first[thread];
        ret->first[thread] = (uint32_t)track;
    }
    return 0;
}

void thread_tracks_done(struct thread_tracks *tracks)
{
    free(tracks->next);
    free(tracks->first);
}

uint32_t thread_tracks_of(const struct thread_tracks *tracks, const struct columns *c, const struct gap *gap)
{
    int64_t track = gap->launch == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_slice_track, gap->launch),
            thread = track == COLUMN_NULL ? COLUMN_NULL : columns_get(c, COL_track_thread, (uint64_t)track);

    return thread < 0 || (uint64_t)thread >= tracks->n_threads ? 0 : tracks->first[thread];
}

/* -- Gap blamed ----------------------------------------------------------------------------------------- */

/* Where nothing covers half of a gap, this number of slices in it are searched for the one that covers most. */
#define SCAN_MAX 256
/* Slices are nested less deep than that; a damaged file may claim otherwise. For one gap no more are looked at,
 * on all tracks of its thread. */
#define CLIMB_MAX 4096

struct gap_blame_search {
    const struct columns *c;
    struct thread_tracks tracks;
    uint64_t *last;          /* by track: the slice that began last, SLICE_NONE */
    struct sort_item *order; /* gaps by their middle */
};

static void gap_blame_search_done(struct gap_blame_search *l)
{
    thread_tracks_done(&l->tracks);
    free(l->last);
    free(l->order);
}

static int gap_blame_search_begin(struct gap_blame_search *l, const struct gaps *gaps)
{
    uint64_t n_tracks = columns_rows(l->c, TABLE_track);

    l->last = malloc((n_tracks + 1) * sizeof(*l->last));
    l->order = malloc((gaps->n + 1) * sizeof(*l->order));
    if (!l->last || !l->order)
        return -ENOMEM;
    memset(l->last, 0xff, (n_tracks + 1) * sizeof(*l->last)); /* SLICE_NONE */
    for (size_t i = 0; i < gaps->n; i++) {
        const struct gap *gap = &gaps->items[i];
        l->order[i] = (struct sort_item){gap->from + (gap->to - gap->from) / 2, i};
    }
    sort_items(l->order, gaps->n);
    return thread_tracks_read(l->c, &l->tracks);
}

static int64_t gap_blame_covered(const struct columns *c, const struct gap *gap, uint64_t slice)
{
    int64_t ts = columns_get(c, COL_slice_ts, slice), dur = columns_get(c, COL_slice_dur, slice), end;

    if (ts == COLUMN_NULL || dur < 0 || __builtin_add_overflow(ts, dur, &end))
        return 0;
    return MAX(MIN(end, gap->to) - MAX(ts, gap->from), 0);
}

/* -- What covers more than half ----------------------------------------------------------------------- */

/* The innermost, from where the climb begins. */
static void gap_blame_climb(const struct columns *c, uint64_t slice, int *left, struct gap *gap)
{
    for (; *left > 0 && slice != SLICE_NONE; --*left, slice = ancestor_parent(c, slice)) {
        int64_t ns = gap_blame_covered(c, gap, slice);
        if (ns <= (gap->to - gap->from) / 2)
            continue;
        /* Of two tracks of the thread, the shorter slice is the inner one. */
        if (gap->blamed == SLICE_NONE ||
            columns_get(c, COL_slice_dur, slice) < columns_get(c, COL_slice_dur, gap->blamed)) {
            gap->blamed = slice;
            gap->covered = ns;
        }
        return;
    }
}

static void look_at_middle(const struct gap_blame_search *l, struct gap *gap)
{
    int left = CLIMB_MAX, tracks = THREAD_TRACKS_MAX;

    for (uint32_t track = thread_tracks_of(&l->tracks, l->c, gap); track > 0 && tracks > 0;
         track = l->tracks.next[track - 1], tracks--)
        gap_blame_climb(l->c, l->last[track - 1], &left, gap);
}

static void gap_blame_walk(struct gap_blame_search *l, struct gaps *gaps)
{
    int64_t ts[BLOCK_ROWS], track[BLOCK_ROWS];
    uint64_t rows = columns_rows(l->c, TABLE_slice);
    size_t at = 0;

    for (uint64_t first = 0; first < rows && at < gaps->n; first += BLOCK_ROWS) {
        size_t n = columns_block(l->c, COL_slice_ts, first, BLOCK_ROWS, ts);
        columns_block(l->c, COL_slice_track, first, BLOCK_ROWS, track);
        for (size_t i = 0; i < n && at < gaps->n; i++) {
            while (at < gaps->n && l->order[at].number < ts[i])
                look_at_middle(l, &gaps->items[l->order[at++].item]);
            if (track[i] != COLUMN_NULL)
                l->last[track[i]] = first + i;
        }
    }
    for (; at < gaps->n; at++)
        look_at_middle(l, &gaps->items[l->order[at].item]);
}

/* -- What covers most --------------------------------------------------------------------------------- */

/* The first position in the track's part of by_track whose slice is at or after `slice`. */
static uint64_t place_in_track(const struct columns *c, uint64_t first, uint64_t end, uint64_t slice)
{
    /* As an unsigned number COLUMN_NULL is after all slices. */
    return FIRST_THAT(i, first, end, (uint64_t)columns_get(c, COL_by_track_slice, i) >= slice);
}

static uint64_t gap_blame_outermost(const struct columns *c, uint64_t slice)
{
    uint64_t parent;

    for (int i = 0; i < CLIMB_MAX && (parent = ancestor_parent(c, slice)) != SLICE_NONE; i++)
        slice = parent;
    return slice;
}

static uint64_t gap_blame_slice_at(const struct columns *c, uint64_t position)
{
    int64_t slice = columns_get(c, COL_by_track_slice, position);

    return slice == COLUMN_NULL ? SLICE_NONE : (uint64_t)slice;
}

static void look_at_one(const struct columns *c, uint64_t slice, struct gap *gap, int64_t *any)
{
    int64_t ns = gap_blame_covered(c, gap, slice);

    *any += ns;
    if (ns > gap->covered) {
        gap->covered = ns;
        gap->blamed = slice;
    }
}

/* Slices that lie in no other come one after the other: one of them covers most. */
static void look_through_track(const struct gap_blame_search *l, uint64_t track, struct gap *gap,
                               int64_t *any)
{
    const struct columns *c = l->c;
    int64_t first = columns_get(c, COL_track_first, track), count = columns_get(c, COL_track_count, track);
    uint64_t n = columns_rows(c, TABLE_by_track);

    if (first < 0 || count < 0 || (uint64_t)first > n)
        return;
    uint64_t end = (uint64_t)first + MIN((uint64_t)count, n - (uint64_t)first),
             at = place_in_track(c, (uint64_t)first, end, columns_lower_bound(c, COL_slice_ts, gap->from));
    if (at > (uint64_t)first) /* it may reach into the gap */
        look_at_one(c, gap_blame_outermost(c, gap_blame_slice_at(c, at - 1)), gap, any);
    for (int i = 0; i < SCAN_MAX && at < end; i++, at++) {
        uint64_t slice = gap_blame_slice_at(c, at);
        if (columns_get(c, COL_slice_ts, slice) >= gap->to)
            return;
        if (columns_get(c, COL_slice_depth, slice) == 0)
            look_at_one(c, slice, gap, any);
    }
}

static void look_for_most(const struct gap_blame_search *l, struct gap *gap)
{
    int64_t any = 0;
    int tracks = THREAD_TRACKS_MAX;

    for (uint32_t track = thread_tracks_of(&l->tracks, l->c, gap); track > 0 && tracks > 0;
         track = l->tracks.next[track - 1], tracks--)
        look_through_track(l, track - 1, gap, &any);
    if (gap->to - gap->from - any <= gap->covered)
        return;
    gap->blamed = SLICE_NONE;
    gap->covered = 0;
}

int gap_blame_calls(const struct columns *c, struct gaps *gaps)
{
    _cleanup_(gap_blame_search_done) struct gap_blame_search l = {.c = c};
    int r = gap_blame_search_begin(&l, gaps);

    if (r < 0)
        return r;
    gap_blame_walk(&l, gaps);
    for (size_t i = 0; i < gaps->n; i++) {
        struct gap *gap = &gaps->items[i];
        if (gap->blamed == SLICE_NONE)
            look_for_most(&l, gap);
        if (gap->blamed != SLICE_NONE)
            gap->blamed_kind = host_kind_of(columns_text(c, columns_get(c, COL_slice_category, gap->blamed)));
    }
    return 0;
}

/* -- Gap ------------------------------------------------------------------------------------------------- */

static const char *const causes[_GAP_CAUSE_MAX] = {
#define C(identifier, name) [GAP_##identifier] = name,
    GAP_CAUSES(C)
#undef C
};

const char *hta_gap_class_name(enum hta_gap_class cause)
{
    return causes[cause];
}

/* The latest end of a stream's work so far. */
struct stream_end {
    int64_t end;
    uint64_t slice;
    bool any;
};

static int gap_add(struct gaps *gaps, struct gap gap)
{
    if (!ARRAY_RESERVE(gaps->items, gaps->cap, gaps->n + 1))
        return -ENOMEM;
    gaps->items[gaps->n++] = gap;
    return 0;
}

static enum hta_gap_class hta_gap_class_of(const struct columns *c, const struct gap *gap)
{
    int64_t launched = gap->launch == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_slice_ts, gap->launch);

    return launched > gap->from                       ? GAP_HOST_WAIT
           : gap->to - gap->from < GAP_KERNEL_WAIT_NS ? GAP_KERNEL_WAIT
                                                      : GAP_OTHER;
}

static int gap_find(const struct columns *c, const struct gpu_work *work, const struct intervals *times,
                    struct stream_set *streams, struct gaps *ret)
{
    _cleanup_(intervals_done) struct intervals at_work = {0};
    _cleanup_(cover_done) struct cover busy = {0};
    _cleanup_(freep) struct stream_end *ends = NULL;
    size_t n_ends = 0;
    int r = gpu_work_busy(work, GPU_ALL, &at_work);

    if (r >= 0)
        r = cover_new(&at_work, &busy);

    for (size_t i = 0; i < work->n && r >= 0; i++) {
        const struct gpu_event *e = &work->events[i];
        int64_t stream = stream_set_number(streams, e->device, e->stream);
        if (stream < 0)
            return (int)stream;
        if (!ARRAY_RESERVE_ZEROED(ends, n_ends, streams->n))
            return -ENOMEM;
        struct stream_end *end = &ends[stream];
        if (end->any && e->ts > end->end && intervals_find(times, e->ts)) {
            struct gap gap = {.from = end->end,
                              .to = e->ts,
                              .before = end->slice,
                              .after = e->slice,
                              .launch = e->launch,
                              .stream = (uint32_t)stream,
                              .blamed = SLICE_NONE};
            gap.idle = gap.to - gap.from - cover_length(&busy, gap.from, gap.to);
            gap.cause = hta_gap_class_of(c, &gap);
            r = gap_add(ret, gap);
        }
        if (!end->any || e->end > end->end)
            *end = (struct stream_end){e->end, e->slice, true};
    }
    return r;
}

int gaps_find(struct analysis *a, size_t rank, struct gaps *ret)
{
    _cleanup_(stream_set_done) struct stream_set streams = {0};
    const struct columns *c = a->ranks[rank].columns;
    const struct gpu_work *work;
    const struct intervals *times;
    int r = analysis_all_gpu(a, rank, &work);

    *ret = (struct gaps){0};
    if (r >= 0)
        r = analysis_times(a, rank, &times);
    if (r >= 0)
        r = gap_find(c, work, times, &streams, ret);
    if (r >= 0)
        r = gap_blame_calls(c, ret);
    ret->streams = TAKE_PTR(streams.items);
    if (r < 0)
        gaps_done(ret);
    return r;
}

void gaps_done(struct gaps *gaps)
{
    free(gaps->items);
    free(gaps->streams);
    *gaps = (struct gaps){0};
}
