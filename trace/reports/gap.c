/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever covers more than half of a gap covers its middle. So it is enough to know, for each gap, which
 * slice of the thread began last before that: it, or one that it lies in.
 */
#include "trace/reports/gap.h"

#include "base/array.h"
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

/* The slices of one track: positions in by_track. */
struct track_part {
    uint64_t first, end;
};

struct gap_blame_search {
    const struct columns *c;
    const struct slice_table *slices;
    struct thread_tracks tracks;
    uint32_t *by_track; /* the slices of each track, in order */
    uint64_t n;
    struct track_part *parts; /* by track */
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
    free(l->by_track);
    free(l->parts);
}

static struct track_part gap_blame_part(const struct gap_blame_search *l, uint64_t track)
{
    int64_t first = columns_get(l->c, COL_track_first, track),
            count = columns_get(l->c, COL_track_count, track);

    if (first < 0 || count < 0 || (uint64_t)first > l->n)
        return (struct track_part){0, 0};
    return (struct track_part){(uint64_t)first,
                               (uint64_t)first + MIN((uint64_t)count, l->n - (uint64_t)first)};
}

static int gap_blame_search_begin(struct gap_blame_search *l)
{
    uint64_t rows = columns_rows(l->c, TABLE_by_track);

    l->by_track = array_calloc_pages((rows + 1) * sizeof(*l->by_track));
    l->parts = calloc(l->slices->n_tracks + 1, sizeof(*l->parts));
    if (!l->by_track || !l->parts)
        return -ENOMEM;
    l->n = columns_codes(l->c, COL_by_track_slice, 0, rows, l->by_track);
    for (uint64_t track = 0; track < l->slices->n_tracks; track++)
        l->parts[track] = gap_blame_part(l, track);
    return thread_tracks_read(l->slices, &l->tracks);
}

static uint64_t gap_blame_slice_at(const struct gap_blame_search *l, uint64_t position)
{
    return l->by_track[position] == COLUMN_NO_CODE ? SLICE_NONE : l->by_track[position];
}

/* The first position of a part whose slice begins at a time or later. */
static uint64_t gap_blame_since(const struct gap_blame_search *l, struct track_part part, int64_t at)
{
    return FIRST_THAT(i, part.first, part.end,
                      l->by_track[i] >= l->slices->n || l->slices->ts[l->by_track[i]] >= at);
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
    int64_t middle = gap->from + (gap->to - gap->from) / 2;
    int left = CLIMB_MAX, tracks = THREAD_TRACKS_MAX;

    for (uint32_t track = gap_blame_track(l, gap); track > 0 && tracks > 0;
         track = l->tracks.next[track - 1], tracks--) {
        struct track_part part = l->parts[track - 1];
        uint64_t after = gap_blame_since(l, part, middle + 1);
        if (after > part.first)
            gap_blame_climb(l->slices, gap_blame_slice_at(l, after - 1), &left, gap);
    }
}

/* -- What covers most --------------------------------------------------------------------------------- */

static uint64_t gap_blame_outermost(const struct slice_table *t, uint64_t slice)
{
    uint64_t parent;

    for (int i = 0; i < CLIMB_MAX && (parent = slice_parent(t, slice)) != SLICE_NONE; i++)
        slice = parent;
    return slice;
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
    const struct slice_table *t = l->slices;
    struct track_part part = l->parts[track];
    uint64_t at = gap_blame_since(l, part, gap->from);

    if (at > part.first) /* it may reach into the gap */
        look_at_one(t, gap_blame_outermost(t, gap_blame_slice_at(l, at - 1)), gap, any);
    for (int i = 0; i < SCAN_MAX && at < part.end; i++, at++) {
        uint64_t slice = gap_blame_slice_at(l, at);
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
    int r = gap_blame_search_begin(&l);

    for (size_t i = 0; i < gaps->n && r >= 0; i++) {
        struct gap *gap = &gaps->items[i];
        look_at_middle(&l, gap);
        if (gap->blamed == SLICE_NONE)
            look_for_most(&l, gap);
        if (gap->blamed != SLICE_NONE)
            gap->blamed_kind = slice_kind(slices, gap->blamed);
    }
    return r;
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
                              .launch = gpu_event_launch(e),
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
