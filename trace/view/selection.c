/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a part of some lanes consists of: the slices that overlap it, by name and category. Durations, and with them sums, are
 * cut to the part. The time of a slice itself is what its children do not cover, within the part.
 */
#include "base/alloc.h"
#include "trace/columns/lane_view.h"
#include "trace/columns/schema.h"
#include "trace/reports/interval.h"
#include "trace/view/view.h"
#include <errno.h>

#define SELECTION_ROWS     100
#define SELECTION_ROWS_MAX 10000
/* Of the slices that begin in the part, the share in the selected lanes from which on all are read in their order, which
 * unpacks each block once. */
#define SELECTION_DENSE 16

struct selection_row {
    int64_t count, sum, min, max, self;
};

struct selection {
    struct trace_view *v;
    struct view_part part;
    uint64_t first_lane, end_lane;
    struct selection_row *rows; /* by group; the last for slices of no group */
    struct intervals busy;
    int64_t count;
    int error;
};

static void selection_done(struct selection *s)
{
    free(s->rows);
    intervals_done(&s->busy);
}

struct selection_slice {
    uint64_t slice, lane;
    int64_t ts, dur, child; /* child: what its children last */
    int64_t name, category;
};

/* What the children of a slice last within [from, to): those of the next lane of its track. */
static int64_t selection_child(const struct selection *s, const struct selection_slice *i, int64_t from,
                               int64_t to, bool is_whole)
{
    const struct lane_table *lanes = &s->v->lanes;

    if (is_whole)
        return MAX(i->child, INT64_C(0));
    bool has_next = i->lane + 1 < lanes->n &&
                    lane_table_rows(lanes, i->lane + 1).track == lane_table_rows(lanes, i->lane).track;
    return has_next && i->child > 0 ? lane_busy(lanes, i->lane + 1, from, to) : 0;
}

/* A slice that may overlap the part. */
static void selection_add(struct selection *s, const struct selection_slice *i)
{
    int64_t dur = view_shown_dur(s->v, i->ts, i->dur), end = view_add(i->ts, dur);
    int64_t from = MAX(i->ts, s->part.from), to = MIN(end, s->part.to);
    bool overlaps = dur > 0 ? from < to : i->ts >= s->part.from && i->ts < s->part.to;

    if (!overlaps)
        return;
    uint32_t group = view_group_of(s->v, i->name, i->category);
    struct selection_row *row = &s->rows[group == COLUMN_NO_CODE ? s->v->n_groups : group];
    int64_t cut = dur > 0 ? to - from : 0;
    int64_t child = selection_child(s, i, from, to, from == i->ts && to == end);
    row->min = row->count == 0 ? cut : MIN(row->min, cut);
    row->max = MAX(row->max, cut);
    row->sum = view_add(row->sum, cut);
    row->self = view_add(row->self, cut - MIN(child, cut));
    row->count++;
    s->count++;
}

/* -- Which slices --------------------------------------------------------------------------------------- */

struct selection_columns {
    struct column_cursor ts, dur, child, name, category, track, depth;
};

static struct selection_columns selection_columns_of(const struct columns *c)
{
    return (struct selection_columns){
        {.c = c, .column = COL_slice_ts},       {.c = c, .column = COL_slice_dur},
        {.c = c, .column = COL_slice_child},    {.c = c, .column = COL_slice_name},
        {.c = c, .column = COL_slice_category}, {.c = c, .column = COL_slice_track},
        {.c = c, .column = COL_slice_depth}};
}

static void selection_add_slice(struct selection *s, struct selection_columns *c, int64_t slice,
                                uint64_t lane)
{
    if (slice < 0)
        return;
    const struct selection_slice i = {.slice = (uint64_t)slice,
                                      .lane = lane,
                                      .ts = column_cursor_get(&c->ts, (uint64_t)slice),
                                      .dur = column_cursor_get(&c->dur, (uint64_t)slice),
                                      .child = column_cursor_get(&c->child, (uint64_t)slice),
                                      .name = column_cursor_get(&c->name, (uint64_t)slice),
                                      .category = column_cursor_get(&c->category, (uint64_t)slice)};
    selection_add(s, &i);
}

/* Rows of a lane: the one before those that begin in the part may last into it. */
struct selection_lane {
    uint64_t before, first, end;
};

static struct selection_lane selection_find(const struct selection *s, uint64_t lane)
{
    struct lane_cursor times = lane_cursor_of(&s->v->lanes);
    struct lane_rows rows = lane_table_rows(&s->v->lanes, lane);
    uint64_t first = lane_cursor_find(&times, rows.first, rows.end, s->part.from);

    return (struct selection_lane){.before = first > rows.first ? first - 1 : first,
                                   .first = first,
                                   .end = lane_cursor_find(&times, first, rows.end, s->part.to)};
}

static void selection_walk_lanes(struct selection *s, bool with_begun)
{
    for (uint64_t lane = s->first_lane; lane < s->end_lane; lane++) {
        struct selection_columns c = selection_columns_of(s->v->c);
        struct selection_lane l = selection_find(s, lane);

        for (uint64_t at = l.before; at < (with_begun ? l.end : l.first); at++)
            selection_add_slice(s, &c, lane_table_slice(&s->v->lanes, at), lane);
    }
}

/* All slices that begin in the part, in their order. */
static void selection_walk_slices(struct selection *s, uint64_t first, uint64_t end)
{
    struct selection_columns c = selection_columns_of(s->v->c);

    for (uint64_t slice = first; slice < end; slice++) {
        int64_t lane =
            view_lane_at(s->v, column_cursor_get(&c.track, slice), column_cursor_get(&c.depth, slice));
        if (lane >= 0 && (uint64_t)lane >= s->first_lane && (uint64_t)lane < s->end_lane)
            selection_add_slice(s, &c, (int64_t)slice, (uint64_t)lane);
    }
}

/* When any selected slice is open: slices nest, so that the outermost selected lane of each track covers the others. */
static int selection_measure_busy(struct selection *s)
{
    int64_t track = COLUMN_NULL;

    for (uint64_t lane = s->first_lane; lane < s->end_lane; lane++) {
        struct lane_rows rows = lane_table_rows(&s->v->lanes, lane);
        if (lane > s->first_lane && rows.track == track)
            continue;
        track = rows.track;
        struct lane_cursor times = lane_cursor_of(&s->v->lanes);
        struct selection_lane l = selection_find(s, lane);
        for (uint64_t at = l.before; at < l.end; at++) {
            int64_t ts = lane_cursor_ts(&times, at);
            int64_t end = view_add(ts, view_shown_dur(s->v, ts, lane_cursor_dur(&times, at)));
            if (intervals_add(&s->busy, MAX(ts, s->part.from), MIN(end, s->part.to)) < 0)
                return -ENOMEM;
        }
    }
    intervals_unite(&s->busy);
    return 0;
}

static int selection_read(struct selection *s)
{
    uint64_t n = 0;

    s->rows = calloc(s->v->n_groups + 1, sizeof(*s->rows));
    if (!s->rows)
        return -ENOMEM;
    for (uint64_t lane = s->first_lane; lane < s->end_lane; lane++) {
        struct selection_lane l = selection_find(s, lane);
        n += l.end - l.first;
    }
    uint64_t first = columns_lower_bound(s->v->c, COL_slice_ts, s->part.from),
             end = columns_lower_bound(s->v->c, COL_slice_ts, s->part.to);
    bool is_dense = n > (end - MIN(first, end)) / SELECTION_DENSE;
    selection_walk_lanes(s, !is_dense);
    if (is_dense)
        selection_walk_slices(s, first, end);
    return selection_measure_busy(s);
}

/* -- The answer ----------------------------------------------------------------------------------------- */

static int selection_compare(const void *x, const void *y, void *arg)
{
    const struct selection_row *rows = arg;
    const uint64_t *i = x, *k = y;
    const struct selection_row *a = &rows[*i], *b = &rows[*k];

    return a->sum != b->sum ? (a->sum < b->sum) - (a->sum > b->sum) : (*i > *k) - (*i < *k);
}

static json_t *selection_row_to_json(const struct selection *s, uint64_t group)
{
    const struct selection_row *of = &s->rows[group];
    json_t *row = json_object();
    int64_t name = columns_get(s->v->c, COL_name_name, group);

    json_object_set_new(row, "name", view_text(s->v, name));
    json_object_set_new(row, "category", view_text(s->v, columns_get(s->v->c, COL_name_category, group)));
    json_put_str(row, "class", view_class(s->v, name));
    json_put_int(row, "count", of->count);
    json_put_int(row, "sum", of->sum);
    json_put_int(row, "mean", of->sum / of->count);
    json_put_int(row, "min", of->min);
    json_put_int(row, "max", of->max);
    json_put_int(row, "self", of->self);
    return row;
}

static json_t *selection_rows(struct selection *s, size_t top, bool *ret_more)
{
    _cleanup_(freep) uint64_t *order = xcalloc(s->v->n_groups + 1, sizeof(*order));
    json_t *list = json_array();
    size_t n = 0;

    for (uint64_t i = 0; i <= s->v->n_groups; i++)
        if (s->rows[i].count > 0)
            order[n++] = i;
    if (n > 0)
        qsort_r(order, n, sizeof(*order), selection_compare, s->rows);
    for (size_t i = 0; i < MIN(n, top); i++)
        json_array_append_new(list, selection_row_to_json(s, order[i]));
    *ret_more = n > top;
    return list;
}

int view_answer_selection(struct trace_view *v, const json_t *request, FILE *out, struct problem *p)
{
    _cleanup_(selection_done) struct selection s = {.v = v};
    int64_t top = SELECTION_ROWS;
    bool more;

    int r = view_read_number(request, "top", 1, SELECTION_ROWS_MAX, &top, p);
    if (r == 0)
        r = view_read_part(v, request, &s.part, p);
    if (r == 0)
        r = view_read_lanes(v, request, &s.first_lane, &s.end_lane, p);
    if (r < 0)
        return r;
    if (selection_read(&s) < 0)
        return problem_set(p, -ENOMEM, PROBLEM_TOO_LARGE,
                           "the selection needs too much memory: select a part");
    json_t *body = json_object();
    json_put_int(body, "from", view_since(v, MAX(s.part.from, v->first_ns)));
    json_put_int(body, "to", view_since(v, MIN(s.part.to, view_add(v->last_ns, 1))));
    json_put_int(body, "count", s.count);
    json_put_int(body, "busy", intervals_length(&s.busy));
    json_object_set_new(body, "rows", selection_rows(&s, (size_t)top, &more));
    json_put_bool(body, "more", more);
    return view_write_json(out, body, p);
}
