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

/* The tracks of each thread, as lists: a thread has a second track where its calls lie across each other. */
struct thread_tracks {
    uint32_t *next;  /* by track: the next one of the thread, + 1; 0: none */
    uint32_t *first; /* by thread, + 1 */
};

static int thread_tracks_read(const struct slice_table *t, struct thread_tracks *ret)
{
    *ret = (struct thread_tracks){calloc(t->n_tracks + 1, sizeof(*ret->next)),
                                  calloc(t->n_threads + 1, sizeof(*ret->first))};
    if (!ret->next || !ret->first)
        return -ENOMEM;
    for (uint64_t track = t->n_tracks; track > 0; track--) {
        uint32_t thread = t->thread_of[track - 1];
        if (thread == COLUMN_NO_CODE)
            continue;
        ret->next[track - 1] = ret->first[thread];
        ret->first[thread] = (uint32_t)track;
    }
    return 0;
}

static void thread_tracks_done(struct thread_tracks *tracks)
{
    free(tracks->next);
    free(tracks->first);
}

/* -- Gap blamed ----------------------------------------------------------------------------------------- */

/* Where nothing covers half of a gap, this number of slices in it are searched for the one that covers most. */
#define SCAN_MAX 256
/* Slices are nested less deep than that; a damaged file may claim otherwise. For one gap no more are looked at,
 * on all tracks of its thread. */
#define CLIMB_MAX 4096

struct gap_blame_search {
    const struct columns *c;
    const struct slice_table *slices;
    struct thread_tracks tracks;
    uint64_t *last;          /* by track: the slice that began last, SLICE_NONE */
    struct sort_item *order; /* gaps by their middle */
};

/* The first track, + 1, of the thread that launched the event after a gap; 0 where it is unknown. */
static uint32_t gap_blame_track(const struct gap_blame_search *l, const struct gap *gap)
{
    int64_t thread = slice_thread(l->slices, gap->launch);

    return thread == COLUMN_NULL ? 0 : l->tracks.first[thread];
}

static void gap_blame_search_done(struct gap_blame_search *l)
{
    thread_tracks_done(&l->tracks);
    free(l->last);
    free(l->order);
}

static int gap_blame_search_begin(struct gap_blame_search *l, const struct gaps *gaps)
{
    uint64_t n_tracks = l->slices->n_tracks;

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
    return thread_tracks_read(l->slices, &l->tracks);
}

static int64_t gap_blame_covered(const struct slice_table *t, const struct gap *gap, uint64_t slice)
{
    int64_t ts = slice_ts(t, slice), dur = slice_dur(t, slice), end;

    if (ts == COLUMN_NULL || dur < 0 || __builtin_add_overflow(ts, dur, &end))
        return 0;
    return MAX(MIN(end, gap->to) - MAX(ts, gap->from), 0);
}

/* -- What covers more than half ----------------------------------------------------------------------- */

/* The innermost, from where the climb begins. */
static void gap_blame_climb(const struct slice_table *t, uint64_t slice, int *left, struct gap *gap)
{
    for (; *left > 0 && slice != SLICE_NONE; --*left, slice = slice_parent(t, slice)) {
        int64_t ns = gap_blame_covered(t, gap, slice);
        if (ns <= (gap->to - gap->from) / 2)
            continue;
        /* Of two tracks of the thread, the shorter slice is the inner one. */
        if (gap->blamed == SLICE_NONE || slice_dur(t, slice) < slice_dur(t, gap->blamed)) {
            gap->blamed = slice;
            gap->covered = ns;
        }
        return;
    }
}

static void look_at_middle(const struct gap_blame_search *l, struct gap *gap)
{
    int left = CLIMB_MAX, tracks = THREAD_TRACKS_MAX;

    for (uint32_t track = gap_blame_track(l, gap); track > 0 && tracks > 0;
         track = l->tracks.next[track - 1], tracks--)
        gap_blame_climb(l->slices, l->last[track - 1], &left, gap);
}

static void gap_blame_walk(struct gap_blame_search *l, struct gaps *gaps)
{
    const struct slice_table *t = l->slices;
    size_t at = 0;

    for (uint64_t i = 0; i < t->n && at < gaps->n; i++) {
        while (at < gaps->n && l->order[at].number < t->ts[i])
            look_at_middle(l, &gaps->items[l->order[at++].item]);
        if (t->track[i] != COLUMN_NO_CODE)
            l->last[t->track[i]] = i;
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

static uint64_t gap_blame_outermost(const struct slice_table *t, uint64_t slice)
{
    uint64_t parent;

    for (int i = 0; i < CLIMB_MAX && (parent = slice_parent(t, slice)) != SLICE_NONE; i++)
        slice = parent;
    return slice;
}

static uint64_t gap_blame_slice_at(const struct columns *c, uint64_t position)
{
    int64_t slice = columns_get(c, COL_by_track_slice, position);

    return slice == COLUMN_NULL ? SLICE_NONE : (uint64_t)slice;
}

static void look_at_one(const struct slice_table *t, uint64_t slice, struct gap *gap, int64_t *any)
{
    int64_t ns = gap_blame_covered(t, gap, slice);

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
    const struct slice_table *t = l->slices;
    int64_t first = columns_get(c, COL_track_first, track), count = columns_get(c, COL_track_count, track);
    uint64_t n = columns_rows(c, TABLE_by_track);

    if (first < 0 || count < 0 || (uint64_t)first > n)
        return;
    uint64_t end = (uint64_t)first + MIN((uint64_t)count, n - (uint64_t)first),
             at = place_in_track(c, (uint64_t)first, end, FIRST_THAT(i, 0, t->n, t->ts[i] >= gap->from));
    if (at > (uint64_t)first) /* it may reach into the gap */
        look_at_one(t, gap_blame_outermost(t, gap_blame_slice_at(c, at - 1)), gap, any);
    for (int i = 0; i < SCAN_MAX && at < end; i++, at++) {
        uint64_t slice = gap_blame_slice_at(c, at);
        if (slice_ts(t, slice) >= gap->to)
            return;
        if (slice_parent(t, slice) == SLICE_NONE)
            look_at_one(t, slice, gap, any);
    }
}

static void look_for_most(const struct gap_blame_search *l, struct gap *gap)
{
    int64_t any = 0;
    int tracks = THREAD_TRACKS_MAX;

    for (uint32_t track = gap_blame_track(l, gap); track > 0 && tracks > 0;
         track = l->tracks.next[track - 1], tracks--)
        look_through_track(l, track - 1, gap, &any);
    if (gap->to - gap->from - any <= gap->covered)
        return;
    gap->blamed = SLICE_NONE;
    gap->covered = 0;
}

int gap_blame_calls(const struct columns *c, const struct slice_table *slices, struct gaps *gaps)
{
    _cleanup_(gap_blame_search_done) struct gap_blame_search l = {.c = c, .slices = slices};
    int r = gap_blame_search_begin(&l, gaps);

    if (r < 0)
        return r;
    gap_blame_walk(&l, gaps);
    for (size_t i = 0; i < gaps->n; i++) {
        struct gap *gap = &gaps->items[i];
        if (gap->blamed == SLICE_NONE)
            look_for_most(&l, gap);
        if (gap->blamed != SLICE_NONE)
            gap->blamed_kind = slice_kind(slices, gap->blamed);
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

static enum hta_gap_class hta_gap_class_of(const struct slice_table *t, const struct gap *gap)
{
    int64_t launched = slice_ts(t, gap->launch);

    return launched > gap->from                       ? GAP_HOST_WAIT
           : gap->to - gap->from < GAP_KERNEL_WAIT_NS ? GAP_KERNEL_WAIT
                                                      : GAP_OTHER;
}

static int gap_find(const struct slice_table *slices, const struct gpu_work *work,
                    const struct intervals *times, struct stream_set *streams, struct gaps *ret)
{
    const struct intervals *at_work;
    _cleanup_(cover_done) struct cover busy = {0};
    _cleanup_(freep) struct stream_end *ends = NULL;
    size_t n_ends = 0;
    int r = gpu_work_busy(work, GPU_ALL, &at_work);

    if (r >= 0)
        r = cover_new(at_work, &busy);

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
            gap.cause = hta_gap_class_of(slices, &gap);
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
    const struct slice_table *slices;
    int r = analysis_all_gpu(a, rank, &work);

    *ret = (struct gaps){0};
    if (r >= 0)
        r = analysis_slices(a, rank, &slices);
    if (r >= 0)
        r = analysis_times(a, rank, &times);
    if (r >= 0)
        r = gap_find(slices, work, times, &streams, ret);
    if (r >= 0)
        r = gap_blame_calls(c, slices, ret);
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
