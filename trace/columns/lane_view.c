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
    bool joins; /* the last run has only slices shorter than a pixel */
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

/* Adds items [i, end) of a lane's slices. */
static void lane_add_slices(struct lane_reader *r, uint64_t i, uint64_t end, struct lane_part *p)
{
    size_t n;

    for (uint64_t at = r->first + i; at < r->first + end; at += n) {
        const int64_t *durs = lane_cursor_durs(&r->times, at, r->first + end, &n);

        for (size_t k = 0; k < n; k++) {
            int64_t dur = durs[k] >= 0 ? durs[k] : lane_shown_dur(r, lane_ts(r, at + k), durs[k]);
            lane_part_add(p, (struct lane_part){at + k, dur, dur});
        }
    }
}

static struct lane_part lane_group_of(struct lane_reader *r, unsigned level, uint64_t row, int64_t busy)
{
    struct lane_group_cursor *groups = &r->groups[MIN(level, LANE_LEVELS_CURSORS - 1U)];
    uint64_t at = (uint64_t)lane_group_cursor_longest(groups, row);

    if (at - r->first >= r->end - r->first)
        at = r->first;
    int64_t dur = level == 0 ? lane_cursor_shown_dur(r, &r->longest, at) : lane_dur_of(r, at);
    return (struct lane_part){at, dur, busy};
}

/* Adds items [i, end) of a level of groups, the first of which is 0. One whose sum is less than the longest slice so far has no longer one, which then
 * need not be looked up. */
static void lane_add_groups(struct lane_reader *r, unsigned level, uint64_t i, uint64_t end,
                            struct lane_part *p)
{
    struct lane_group_cursor *groups = &r->groups[MIN(level, LANE_LEVELS_CURSORS - 1U)];
    uint64_t first = r->levels[level];
    size_t n;

    for (uint64_t row = first + i; row < first + end; row += n) {
        const int64_t *sums = lane_group_cursor_busy(groups, row, first + end, &n);

        for (size_t k = 0; k < n; k++) {
            int64_t busy = MAX(sums[k], INT64_C(0));
            if (busy < p->dur)
                p->busy = lane_add(p->busy, busy);
            else
                lane_part_add(p, lane_group_of(r, level, row + k, busy));
        }
    }
}

static void lane_add_items(struct lane_reader *r, unsigned level, uint64_t i, uint64_t end,
                           struct lane_part *p)
{
    if (level == 0)
        lane_add_slices(r, i, end, p);
    else
        lane_add_groups(r, level - 1, i, end, p);
}

/* Rows [at, end) of by_lane, of which there is one: what does not fill a group from its level, the rest from
 * the level above. The highest level is first, since the longest slice of many lets most groups be passed over. */
static struct lane_part lane_sum(struct lane_reader *r, uint64_t at, uint64_t end)
{
    struct {
        uint64_t low, low_end, high, high_end;
    } levels[LANE_LEVELS_MAX + 1];
    struct lane_part p = {.at = at, .dur = -1};
    unsigned n = 0;

    at -= r->first;
    end -= r->first;
    for (; at < end; n++, at /= LANE_FANOUT, end /= LANE_FANOUT) {
        bool is_last = n == r->n_levels;
        uint64_t low_end = is_last ? end : MIN(end, (at + LANE_FANOUT - 1) / LANE_FANOUT * LANE_FANOUT),
                 high = MAX(low_end, end / LANE_FANOUT * LANE_FANOUT);

        levels[n].low = at;
        levels[n].low_end = low_end;
        levels[n].high = is_last ? end : high;
        levels[n].high_end = end;
        at = low_end;
        end = levels[n].high;
    }
    while (n-- > 0) {
        lane_add_items(r, n, levels[n].low, levels[n].low_end, &p);
        lane_add_items(r, n, levels[n].high, levels[n].high_end, &p);
    }
    return p;
}

/* The first row from `at` on whose slice begins at `ns` or later; it is near `at` most of the time. */
static uint64_t lane_find(struct lane_reader *r, uint64_t at, int64_t ns)
{
    return lane_cursor_find(&r->times, at, r->end, ns);
}

/* -- Runs ----------------------------------------------------------------------------------------------- */

/* Pixels [x, end) show p. */
static void lane_emit(struct lane_reader *r, int64_t x, int64_t end, struct lane_part p)
{
    bool is_short = p.dur < r->view->step;
    struct lane_run run = {.x = (uint32_t)x, .width = (uint32_t)(end - x), .at = p.at},
                    *next = &r->runs[r->n_runs], *last = next - (r->n_runs > 0);
    bool is_same = last < next && last->at == p.at, follows = last < next && last->x + last->width == x;

    run.busy = is_short ? MIN(p.busy, r->view->step) : lane_width(r, run.width);
    run.name =
        is_same ? last->name : columns_get(r->t->c, COL_slice_name, (uint64_t)lane_table_slice(r->t, p.at));
    if (follows && (is_same || (r->joins && is_short && last->name == run.name))) {
        last->width += run.width;
        last->busy = lane_add(last->busy, run.busy);
        return;
    }
    *next = run;
    r->n_runs++;
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

    /* The time of a shorter one is not needed, and seldom unpacked. */
    group.last =
        group.part.dur < r->view->step ? x : lane_last_pixel(r, lane_ts(r, group.part.at), group.part.dur, x);
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
