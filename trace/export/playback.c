/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/playback.h"

#include <errno.h>

struct stage {
    const struct playback *p;
    struct playing *open; /* from the outermost to the innermost */
    size_t n, cap;
    bool entered;  /* the track has begun */
    int64_t clock; /* of its last begin or end */
};

static int end_innermost(struct stage *s, int64_t latest)
{
    struct playing *slice = &s->open[--s->n];

    slice->end = MAX(MIN(slice->end, latest), s->clock);
    s->clock = slice->end;
    if (s->n > 0) {
        int64_t *inside = &s->open[s->n - 1].inside;

        *inside = add_ns(*inside, sub_ns(slice->end, slice->begin));
    }
    return s->p->end(s->p->arg, slice);
}

static int begin(struct stage *s, struct playing slice)
{
    struct playing *around = NULL;

    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 64;
        struct playing *grown = reallocarray(s->open, cap, sizeof(*grown));

        if (!grown)
            return -ENOMEM;
        s->open = grown;
        s->cap = cap;
    }
    if (s->n > 0) {
        around = &s->open[s->n - 1];
        slice.end = MIN(slice.end, around->end);
    }
    slice.begin = MAX(slice.begin, s->clock);
    slice.end = MAX(slice.begin, slice.end);
    s->clock = slice.begin;
    s->open[s->n++] = slice;
    return s->p->begin(s->p->arg, &s->open[s->n - 1], around);
}

static struct playing read_slice(const struct playback *p, uint64_t row)
{
    const struct selection *sel = p->selection;
    int64_t depth = columns_get(sel->c, COL_slice_depth, row);
    struct playing slice = {
        .row = row,
        .begin = columns_get(sel->c, COL_slice_ts, row),
        .end = selection_slice_end(sel, row),
        .unfinished = columns_get(sel->c, COL_slice_dur, row) < 0,
        .depth = MAX(depth, 0),
    };

    if (p->cut) {
        slice.begin = MAX(slice.begin, sel->from);
        slice.end = MIN(slice.end, sel->to);
    }
    return slice;
}

/* Before the first slice of a track. */
static int enter(struct stage *s, uint64_t track)
{
    s->entered = true;
    s->clock = INT64_MIN;
    return s->p->track_begin ? s->p->track_begin(s->p->arg, track) : 0;
}

static int play_slice(struct stage *s, uint64_t track, uint64_t row)
{
    struct playing slice = read_slice(s->p, row);
    int r = s->entered ? 0 : enter(s, track);

    while (r == 0 && s->n > 0 && s->open[s->n - 1].depth >= slice.depth)
        r = end_innermost(s, slice.begin);
    return r == 0 ? begin(s, slice) : r;
}

static int play_track(struct stage *s, uint64_t track, uint64_t first, uint64_t n)
{
    const struct selection *sel = s->p->selection;
    int r = 0;

    s->entered = false;
    for (uint64_t i = first; i < first + n && r == 0; i++) {
        int64_t row = columns_get(sel->c, COL_by_track_slice, i);

        if (row >= 0 && selection_has(sel, (uint64_t)row))
            r = play_slice(s, track, (uint64_t)row);
    }
    while (r == 0 && s->n > 0)
        r = end_innermost(s, INT64_MAX);
    if (r == 0 && s->entered && s->p->track_end)
        r = s->p->track_end(s->p->arg, track);
    return r;
}

int playback_run(const struct playback *p)
{
    const struct columns *c = p->selection->c;
    uint64_t tracks = columns_rows(c, TABLE_track), left = columns_rows(c, TABLE_by_track);
    struct stage stage = {.p = p};
    int r = 0;

    for (uint64_t track = 0; track < tracks && r == 0; track++) {
        int64_t first = columns_get(c, COL_track_first, track),
                count = columns_get(c, COL_track_count, track);

        if (first < 0 || count <= 0)
            continue;
        r = (uint64_t)count > left ? -EBADMSG : play_track(&stage, track, (uint64_t)first, (uint64_t)count);
        left -= (uint64_t)count;
    }
    free(stage.open);
    return r;
}
