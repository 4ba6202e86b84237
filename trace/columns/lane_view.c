/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/lane_view.h"

#define LANE_LEVELS_CURSORS 3
#define LANE_LEVELS_MAX     16 /* LANE_FANOUT to this power are more rows than there can be */

/* A part of a lane: its longest slice, and the sum of durations. */
struct lane_part {
    uint64_t at;
    int64_t dur, busy;
};

struct lane_reader {
    const struct lane_table *t;
    const struct lane_view *view;
    uint64_t first, end; /* of by_lane */
    int64_t last_ns;
    unsigned n_levels;
    uint64_t levels[LANE_LEVELS_MAX]; /* rows of lanemip */
    struct lane_cursor times;
    struct lane_cursor longest; /* durations of what the first level refers to */
    struct lane_group_cursor
        groups[LANE_LEVELS_CURSORS]; /* of the first levels; the last one also of those above */
    struct lane_run *runs;
    size_t n_runs;
    bool joins;        /* the last run has only slices shorter than a pixel */
    uint64_t named_at; /* the row whose name was asked for last, and that name */
    int64_t name;
};

/* Sums of untrusted times saturate. */
static int64_t lane_add(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t lane_shown_dur(const struct lane_reader *r, int64_t ts, int64_t dur)
{
    int64_t shown = dur;

    if (dur < 0 && __builtin_sub_overflow(r->last_ns, ts, &shown))
        shown = INT64_MAX;
    return MAX(shown, 0);
}

static int64_t lane_ts(struct lane_reader *r, uint64_t at)
{
    return lane_cursor_ts(&r->times, at);
}

/* The same of a row that is far from others. */
static int64_t lane_dur_of(const struct lane_reader *r, uint64_t at)
{
    int64_t dur = lane_table_dur(r->t, at);

    return lane_shown_dur(r, dur < 0 ? lane_table_ts(r->t, at) : 0, dur);
}

static int64_t lane_cursor_shown_dur(const struct lane_reader *r, struct lane_cursor *cursor, uint64_t at)
{
    int64_t dur = lane_cursor_dur(cursor, at);

    return lane_shown_dur(r, dur < 0 ? lane_cursor_ts(cursor, at) : 0, dur);
}

static int64_t lane_dur(struct lane_reader *r, uint64_t at)
{
    return lane_cursor_shown_dur(r, &r->times, at);
}

/* The pixel of a time at or after the view's beginning; `pixels` for all times after its end. */
static int64_t lane_pixel(const struct lane_reader *r, int64_t ns)
{
    uint64_t pixel = ((uint64_t)ns - (uint64_t)r->view->from) / (uint64_t)r->view->step;

    return (int64_t)MIN(pixel, (uint64_t)r->view->pixels);
}

/* What n pixels last. */
static int64_t lane_width(const struct lane_reader *r, int64_t n)
{
    int64_t ns;

    return __builtin_mul_overflow(n, r->view->step, &ns) ? INT64_MAX : ns;
}

/* The last pixel that a slice touches; it begins at pixel x. */
static int64_t lane_last_pixel(const struct lane_reader *r, int64_t ts, int64_t dur, int64_t x)
{
    return dur < r->view->step ? x : lane_pixel(r, lane_add(ts, dur - 1));
}

/* -- Parts of a lane ------------------------------------------------------------------------------------ */

static void lane_part_add(struct lane_part *p, struct lane_part add)
{
    int64_t busy = lane_add(p->busy, add.busy);

    if (add.dur > p->dur || (add.dur == p->dur && add.at < p->at))
        *p = add;
    p->busy = busy;
}

static struct lane_part lane_item(struct lane_reader *r, unsigned level, uint64_t i)
{
    struct lane_part p = {.at = r->first + i};

    if (level > 0) {
        int64_t at, busy;

        lane_group_cursor_get(&r->groups[MIN(level, (unsigned)LANE_LEVELS_CURSORS) - 1],
                              r->levels[level - 1] + i, &at, &busy);
        p.at = (uint64_t)at - r->first < r->end - r->first ? (uint64_t)at : r->first;
        p.busy = MAX(busy, 0);
        p.dur = level == 1 ? lane_cursor_shown_dur(r, &r->longest, p.at) : lane_dur_of(r, p.at);
    } else {
        p.dur = p.busy = lane_dur(r, p.at);
    }
    return p;
}

/* Rows [at, end) of by_lane, of which there is one: what does not fill a group from its level, the rest from
 * the level above. */
static struct lane_part lane_sum(struct lane_reader *r, uint64_t at, uint64_t end)
{
    struct lane_part p = {.at = at, .dur = -1};

    at -= r->first;
    end -= r->first;
    for (unsigned level = 0; at < end; level++, at /= LANE_FANOUT, end /= LANE_FANOUT) {
        bool is_last = level == r->n_levels;

        for (; at < end && (is_last || at % LANE_FANOUT != 0); at++)
            lane_part_add(&p, lane_item(r, level, at));
        for (; at < end && end % LANE_FANOUT != 0; end--)
            lane_part_add(&p, lane_item(r, level, end - 1));
    }
    return p;
}

/* The first row from `at` on whose slice begins at `ns` or later; it is near `at` most of the time. */
static uint64_t lane_find(struct lane_reader *r, uint64_t at, int64_t ns)
{
    return lane_cursor_find(&r->times, at, r->end, ns);
}

/* -- Runs ----------------------------------------------------------------------------------------------- */

static int64_t lane_name_of(const struct lane_reader *r, uint64_t at)
{
    return columns_get(r->t->c, COL_slice_name, (uint64_t)lane_table_slice(r->t, at));
}

/* Of the row that the last run shows: it is compared with one after the other. */
static int64_t lane_name(struct lane_reader *r, uint64_t at)
{
    if (at != r->named_at)
        r->name = lane_name_of(r, at);
    r->named_at = at;
    return r->name;
}

/* Whether p is shown by the last run, which ends at its pixel. */
static bool lane_joins(struct lane_reader *r, const struct lane_run *last, struct lane_part p)
{
    return last->at == p.at ||
           (r->joins && p.dur < r->view->step && lane_name(r, last->at) == lane_name_of(r, p.at));
}

/* Pixels [x, end) show p. */
static void lane_emit(struct lane_reader *r, int64_t x, int64_t end, struct lane_part p)
{
    bool is_short = p.dur < r->view->step;
    struct lane_run run = {(uint32_t)x, (uint32_t)(end - x), p.at, 0};
    size_t n = r->n_runs;

    run.busy = is_short ? MIN(p.busy, r->view->step) : lane_width(r, run.width);
    if (n > 0 && r->runs[n - 1].x + r->runs[n - 1].width == x && lane_joins(r, &r->runs[n - 1], p)) {
        r->runs[n - 1].width += run.width;
        r->runs[n - 1].busy = lane_add(r->runs[n - 1].busy, run.busy);
        return;
    }
    r->runs[r->n_runs++] = run;
    r->joins = is_short;
}

/* A slice of a pixel or more that began earlier, and its last pixel; -1: none. */
struct lane_carry {
    struct lane_part part;
    int64_t last;
};

/* What lies in the first pixel of the view from before it. */
static struct lane_carry lane_carry_in(struct lane_reader *r, uint64_t at)
{
    int64_t ts = at > r->first ? lane_ts(r, at - 1) : 0, dur = at > r->first ? lane_dur(r, at - 1) : 0;

    if (dur < r->view->step || lane_add(ts, dur - 1) < r->view->from)
        return (struct lane_carry){.last = -1};
    return (struct lane_carry){{.at = at - 1, .dur = dur}, lane_last_pixel(r, ts, dur, 0)};
}

/* Pixel x, in which the slices from `at` on begin. Returns the first that does not. */
static uint64_t lane_draw_pixel(struct lane_reader *r, int64_t x, uint64_t at, struct lane_carry *carry)
{
    uint64_t end = MAX(lane_find(r, at, lane_add(r->view->from, lane_width(r, x + 1))), at + 1);
    struct lane_carry group = {.part = lane_sum(r, at, end)};

    group.last = lane_last_pixel(r, lane_ts(r, group.part.at), group.part.dur, x);
    lane_emit(r, x, x + 1, carry->last >= x && carry->part.dur >= group.part.dur ? carry->part : group.part);
    if (carry->last <= x || group.part.dur > carry->part.dur)
        *carry = group;
    return end;
}

static void lane_walk(struct lane_reader *r)
{
    uint64_t at = lane_find(r, r->first, r->view->from);
    struct lane_carry carry = lane_carry_in(r, at);
    int64_t pixels = r->view->pixels;

    for (int64_t x = 0; x < pixels;) {
        int64_t next = at < r->end ? MAX(lane_pixel(r, lane_ts(r, at)), x) : pixels, until;

        if (next == x) {
            at = lane_draw_pixel(r, x++, at, &carry);
            continue;
        }
        until = MIN(carry.last + 1, next);
        if (until > x)
            lane_emit(r, x, until, carry.part);
        x = next;
    }
}

struct lane_view lane_view_of(int64_t from, int64_t to, uint32_t pixels)
{
    struct lane_view v = {.from = from, .step = 1, .pixels = MAX(MIN(pixels, LANE_VIEW_PIXELS_MAX), 1U)};
    uint64_t span = to > from ? (uint64_t)to - (uint64_t)from : 1;

    v.step = (int64_t)(span / v.pixels + (span % v.pixels > 0));
    return v;
}

static struct lane_reader lane_reader_of(const struct lane_table *t, uint64_t lane)
{
    const struct lane_rows rows = lane_table_rows(t, lane);
    struct lane_reader r = {.t = t,
                            .first = rows.first,
                            .end = rows.end,
                            .last_ns = columns_meta(t->c, META_last_ns),
                            .named_at = UINT64_MAX,
                            .times = lane_cursor_of(t),
                            .longest = lane_cursor_of(t)};

    for (size_t i = 0; i < LANE_LEVELS_CURSORS; i++)
        r.groups[i] = lane_group_cursor_of(t);

    for (uint64_t n = lane_groups(r.end - r.first), at = (uint64_t)rows.mip; rows.mip >= 0 && n > 0;
         n = lane_groups(n)) {
        r.levels[r.n_levels++] = at;
        at += n;
    }
    return r;
}

size_t lane_view_read(const struct lane_table *t, uint64_t lane, const struct lane_view *view,
                      struct lane_run *ret)
{
    struct lane_reader r = lane_reader_of(t, lane);

    r.view = view;
    r.runs = ret;
    if (r.first < r.end)
        lane_walk(&r);
    return r.n_runs;
}

int64_t lane_busy(const struct lane_table *t, uint64_t lane, int64_t from, int64_t to)
{
    struct lane_reader r = lane_reader_of(t, lane);
    int64_t busy = 0;

    if (r.first == r.end || from >= to)
        return 0;
    uint64_t at = lane_find(&r, r.first, from), end = lane_find(&r, at, to);
    if (at > r.first) {
        int64_t until = MIN(lane_add(lane_ts(&r, at - 1), lane_dur(&r, at - 1)), to);
        busy = MAX(until, from) - from;
    }
    if (at < end) {
        int64_t until = lane_add(lane_ts(&r, end - 1), lane_dur(&r, end - 1));
        busy = lane_add(busy, lane_sum(&r, at, end).busy);
        busy -= until > to ? until - to : 0;
    }
    return MAX(busy, INT64_C(0));
}
