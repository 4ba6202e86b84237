/* SPDX-License-Identifier: Apache-2.0 */
/* Everything about one slice: arguments, what it lies in, what launched it and what it launched, and its place among others. */
#include "base/alloc.h"
#include "trace/columns/lane_view.h"
#include "trace/columns/schema.h"
#include "trace/sql/arg_set.h"
#include "trace/view/view.h"
#include <errno.h>
#include <inttypes.h>

/* Slices around one, and references of each kind. Rows of a hostile file may refer to each other in a circle. */
#define PARENTS_MAX 512
#define REFS_MAX    100
/* Slices of a name that are farther apart than this are read by parts of blocks. */
#define SLICES_APART 128
/* Of the arguments of one event. */
#define ARGS_MAX        1000
#define ARGS_BYTES_MAX  (1 << 20)
#define ARGS_VALUES_MAX 100000

/* -- Finding -------------------------------------------------------------------------------------------- */

struct slice_search {
    const struct trace_view *v;
    struct lane_rows rows;
    struct lane_cursor times;
    int64_t at, within;
    int64_t best_distance;
    uint64_t best; /* row of by_lane; rows.end: none */
};

/* How far the slice is from the time: 0 where it lies in the slice. */
static void slice_search_try(struct slice_search *s, uint64_t row)
{
    if (row < s->rows.first || row >= s->rows.end)
        return;
    int64_t ts = lane_cursor_ts(&s->times, row);
    int64_t dur = view_shown_dur(s->v, ts, lane_cursor_dur(&s->times, row));
    int64_t last = view_add(ts, MAX(dur - 1, INT64_C(0)));
    uint64_t distance = s->at < ts     ? (uint64_t)ts - (uint64_t)s->at
                        : s->at > last ? (uint64_t)s->at - (uint64_t)last
                                       : 0;
    if (distance <= (uint64_t)s->within && (int64_t)distance < s->best_distance) {
        s->best = row;
        s->best_distance = (int64_t)distance;
    }
}

/* The slice of a lane at a time, or the nearest one at most `within` away. */
static int slice_find_at(const struct trace_view *v, const json_t *request, int64_t *ret, struct problem *p)
{
    int64_t lane = -1, at = 0, within = 0;

    int r = view_read_number(request, "lane", 0, INT64_MAX, &lane, p);
    if (r == 0)
        r = view_read_number(request, "at", 0, INT64_MAX, &at, p);
    if (r == 0)
        r = view_read_number(request, "within", 0, INT64_MAX - 1, &within, p);
    if (r < 0)
        return r;
    if (lane < 0 || (uint64_t)lane >= v->lanes.n)
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "the trace has no lane %" PRId64, lane);
    struct slice_search s = {.v = v,
                             .rows = lane_table_rows(&v->lanes, (uint64_t)lane),
                             .times = lane_cursor_of(&v->lanes),
                             .at = view_absolute(v, at),
                             .within = within,
                             .best_distance = INT64_MAX};
    s.best = s.rows.end;
    uint64_t after = lane_cursor_find(&s.times, s.rows.first, s.rows.end, view_add(s.at, 1));
    /* Of several that begin at once, the one that lasts is before or after those that do not. */
    for (uint64_t row = after; row > s.rows.first && after - row < REFS_MAX && s.best_distance > 0; row--)
        slice_search_try(&s, row - 1);
    slice_search_try(&s, after);
    if (s.best == s.rows.end) {
        problem_remedy(p, "within=NANOSECONDS takes the nearest slice.");
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "lane %" PRId64 " has no slice at %" PRId64 " ns",
                           lane, at);
    }
    *ret = lane_table_slice(&v->lanes, s.best);
    return 0;
}

static int slice_find(const struct trace_view *v, const json_t *request, uint64_t *ret, struct problem *p)
{
    int64_t slice = -1;

    int r = view_read_number(request, "slice", 0, INT64_MAX, &slice, p);
    if (r == 0 && slice < 0)
        r = slice_find_at(v, request, &slice, p);
    if (r < 0)
        return r;
    if (slice < 0 || (uint64_t)slice >= columns_rows(v->c, TABLE_slice))
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "the trace has no slice %" PRId64, slice);
    *ret = (uint64_t)slice;
    return 0;
}

/* -- Arguments ------------------------------------------------------------------------------------------ */

static json_t *slice_arg(const struct arg *a)
{
    _cleanup_(freep) char *text = NULL;
    char error[200];

    switch (a->type) {
    case ARG_INT:
        return json_integer(a->integer);
    case ARG_REAL:
        return json_number(a->real);
    case ARG_BOOL:
        return json_boolean(a->integer);
    default:
        break;
    }
    size_t size = MIN(a->text.size, (size_t)ARGS_BYTES_MAX);
    json_t *value = a->type == ARG_JSON ? json_parse_bounded(a->text.p, size, ARGS_VALUES_MAX, error) : NULL;
    if (value)
        return value;
    text = xstrndup(a->text.p, size);
    return json_text(text);
}

/* As they are in the columns, or where an event's JSON is not quite that: one member for each value. */
static json_t *slice_flat_args(struct arg_set *set)
{
    json_t *args = json_object();
    size_t bytes = 0;

    for (size_t i = 0; i < MIN(set->n, (size_t)ARGS_MAX) && bytes < ARGS_BYTES_MAX; i++) {
        const struct arg *a = &set->items[i];
        struct text key = a->key;
        if (key.size > 5 && memcmp(key.p, "args.", 5) == 0)
            key = (struct text){key.p + 5, key.size - 5};
        _cleanup_(freep) char *name = xstrndup(key.p, MIN(key.size, (size_t)VIEW_NAME_MAX));
        bytes += key.size + a->text.size;
        _cleanup_json_ clean = json_text(name);
        json_object_set_new(args, json_string_value(clean), slice_arg(a));
    }
    return args;
}

/* The member "args" of an event as it is written; NULL where it is no JSON. */
static json_t *slice_parse_args(struct text event)
{
    struct slice rest = json_inside((struct slice){event.p, event.p + event.size}), key, value;
    char error[200];
    json_t *args = NULL;

    while (json_next(&rest, &key, &value)) {
        if (!slice_is(slice_unquoted(key), "args"))
            continue;
        json_decref(args);
        size_t size = (size_t)(value.end - value.p);
        args = size > ARGS_BYTES_MAX ? NULL : json_parse_bounded(value.p, size, ARGS_VALUES_MAX, error);
    }
    if (args && !json_is_object(args)) {
        json_decref(args);
        return NULL;
    }
    return args;
}

static json_t *slice_args(struct trace_view *v, uint64_t slice)
{
    _cleanup_(arg_set_done) struct arg_set set = {0};
    int64_t offset = columns_get(v->c, COL_slice_offset, slice);
    struct text event;

    int r = offset < 0 ? -ENOENT : heads_text(&v->heads, (uint64_t)offset, &event);
    if (r == 0) {
        json_t *args = slice_parse_args(event);
        if (args)
            return args;
        r = arg_set_of_text(&set, event);
    } else {
        /* The original is gone, or is another one by now. */
        r = arg_set_of_columns(&set, v->c, slice);
    }
    return r < 0 ? json_object() : slice_flat_args(&set);
}

/* -- Relations ------------------------------------------------------------------------------------------ */

static json_t *slice_parents(const struct trace_view *v, uint64_t slice)
{
    json_t *list = json_array();
    int64_t parent = columns_get(v->c, COL_slice_parent, slice);

    for (; parent >= 0 && json_array_size(list) < PARENTS_MAX;
         parent = columns_get(v->c, COL_slice_parent, (uint64_t)parent))
        json_array_append_new(list, view_ref(v, (uint64_t)parent));
    return list;
}

/* References to the slices in `to` of the rows of a table that have this slice in `column`. */
static json_t *slice_refs(const struct trace_view *v, enum column column, enum column to, uint64_t slice)
{
    uint64_t rows = columns_rows(v->c, column_specs[column].table);
    int64_t values[BLOCK_ROWS], number = (int64_t)slice;
    json_t *list = json_array();

    for (uint64_t row = 0; json_array_size(list) < REFS_MAX; row += BLOCK_ROWS) {
        row = columns_next_in_range(v->c, column, row, rows, number, number);
        if (row >= rows)
            break;
        size_t n = columns_block(v->c, column, row, BLOCK_ROWS, values);
        for (size_t i = 0; i < n && json_array_size(list) < REFS_MAX; i++) {
            int64_t other = values[i] == number ? columns_get(v->c, to, row + i) : COLUMN_NULL;
            if (other >= 0)
                json_array_append_new(list, view_ref(v, (uint64_t)other));
        }
    }
    return list;
}

static void slice_put_launch(const struct trace_view *v, uint64_t slice, json_t *body)
{
    json_t *calls = slice_refs(v, COL_launch_gpu, COL_launch_runtime, slice);
    json_t *launch = json_array_get(calls, 0);
    int64_t begin = view_since(v, columns_get(v->c, COL_slice_ts, slice)), delay;

    if (launch) {
        int64_t called =
            view_add(json_get_int(launch, "begin", 0), MAX(json_get_int(launch, "dur", 0), INT64_C(0)));
        if (__builtin_sub_overflow(begin, called, &delay))
            delay = begin > called ? INT64_MAX : 0;
        json_put_int(launch, "delay_ns", MAX(delay, INT64_C(0)));
        json_object_set_new(launch, "parents", slice_parents(v, (uint64_t)json_get_int(launch, "slice", 0)));
        json_object_set(body, "launch", launch);
    }
    json_decref(calls);
    json_object_set_new(body, "launched", slice_refs(v, COL_launch_runtime, COL_launch_gpu, slice));
    json_object_set_new(body, "flows",
                        json_pack("{s:o,s:o}", "in", slice_refs(v, COL_flow_in, COL_flow_out, slice), "out",
                                  slice_refs(v, COL_flow_out, COL_flow_in, slice)));
}

/* The row of by_lane that has the slice; rows.end where none has. */
static uint64_t slice_row(const struct trace_view *v, const struct lane_rows *rows, uint64_t slice)
{
    struct lane_cursor times = lane_cursor_of(&v->lanes);
    int64_t ts = columns_get(v->c, COL_slice_ts, slice);
    uint64_t row = lane_cursor_find(&times, rows->first, rows->end, ts);

    while (row < rows->end && lane_table_slice(&v->lanes, row) != (int64_t)slice &&
           lane_cursor_ts(&times, row) == ts)
        row++;
    return row < rows->end && lane_table_slice(&v->lanes, row) == (int64_t)slice ? row : rows->end;
}

static void slice_put_neighbours(const struct trace_view *v, int64_t lane, uint64_t slice, json_t *body)
{
    struct lane_rows rows = lane_table_rows(&v->lanes, lane < 0 ? UINT64_MAX : (uint64_t)lane);
    uint64_t row = slice_row(v, &rows, slice);

    if (row == rows.end)
        return;
    if (row > rows.first) {
        int64_t before = lane_table_slice(&v->lanes, row - 1), ts = lane_table_ts(&v->lanes, row - 1);
        int64_t end = view_add(ts, view_shown_dur(v, ts, lane_table_dur(&v->lanes, row - 1))), gap;
        if (!__builtin_sub_overflow(lane_table_ts(&v->lanes, row), end, &gap))
            json_put_int(body, "gap_before_ns", MAX(gap, INT64_C(0)));
        if (before >= 0)
            json_object_set_new(body, "before", view_ref(v, (uint64_t)before));
    }
    int64_t after = row + 1 < rows.end ? lane_table_slice(&v->lanes, row + 1) : COLUMN_NULL;
    if (after >= 0)
        json_object_set_new(body, "after", view_ref(v, (uint64_t)after));
}

/* -- Others of the same name ---------------------------------------------------------------------------- */

/* Reads durations of slices that are near each other, or far apart. */
struct slice_durs {
    struct column_cursor blocks;
    struct column_part_cursor parts;
};

struct slice_others {
    int64_t count, sum, min, max, shorter;
    int64_t previous, next; /* slices; COLUMN_NULL */
};

/* The durations of n slices in order; most are one of two or more in their block, or one of few in many blocks. */
static void slice_read_durs(const struct trace_view *v, struct slice_durs *durs, const int64_t *slices,
                            size_t n, int64_t *ret)
{
    bool is_dense = (uint64_t)slices[n - 1] - (uint64_t)slices[0] < n * SLICES_APART;

    for (size_t i = 0; i < n; i++) {
        uint64_t slice = (uint64_t)slices[i];

        ret[i] =
            is_dense ? column_cursor_get(&durs->blocks, slice) : column_part_cursor_get(&durs->parts, slice);
        if (__builtin_expect(ret[i] < 0, 0))
            ret[i] = slices[i] < 0 ? COLUMN_NULL
                                   : view_shown_dur(v, columns_get(v->c, COL_slice_ts, slice), ret[i]);
    }
}

static void slice_count_group(const struct trace_view *v, const struct view_group *g, uint64_t slice,
                              struct slice_others *o)
{
    struct slice_durs cursors = {{.c = v->c, .column = COL_slice_dur}, {.c = v->c, .column = COL_slice_dur}};
    int64_t own =
        view_shown_dur(v, columns_get(v->c, COL_slice_ts, slice), columns_get(v->c, COL_slice_dur, slice));
    int64_t slices[BLOCK_ROWS], durs[BLOCK_ROWS], min = INT64_MAX, max = 0, sum = 0, count = 0, shorter = 0;
    size_t n;

    for (uint64_t at = g->first; at < g->end; at += n) {
        n = columns_values(v->c, COL_by_name_slice, at, (size_t)MIN(g->end - at, (uint64_t)BLOCK_ROWS),
                           slices);
        if (n == 0)
            break;
        slice_read_durs(v, &cursors, slices, n, durs);
        for (size_t i = 0; i < n; i++) {
            int64_t dur = durs[i];

            if (dur < 0)
                continue;
            min = MIN(min, dur);
            max = MAX(max, dur);
            sum = __builtin_add_overflow(sum, dur, &sum) ? INT64_MAX : sum;
            shorter += dur < own;
            count++;
        }
    }
    *o = (struct slice_others){.count = count,
                               .sum = sum,
                               .min = count > 0 ? min : 0,
                               .max = max,
                               .shorter = shorter,
                               .previous = COLUMN_NULL,
                               .next = COLUMN_NULL};
    uint64_t row = view_group_find(v, g->first, g->end, slice);
    if (row > g->first)
        o->previous = columns_get(v->c, COL_by_name_slice, row - 1);
    if (row < g->end && columns_get(v->c, COL_by_name_slice, row) == (int64_t)slice)
        row++;
    if (row < g->end)
        o->next = columns_get(v->c, COL_by_name_slice, row);
}

/* Of the same category as well: an operator and a kernel may have one name. */
static json_t *slice_same(const struct trace_view *v, uint64_t slice, int64_t name, int64_t category)
{
    struct slice_others o = {.previous = COLUMN_NULL, .next = COLUMN_NULL};
    uint32_t group = view_group_of(v, name, category);
    json_t *same = json_object();

    if (group != COLUMN_NO_CODE) {
        struct view_group g = view_group_rows(v, group);
        slice_count_group(v, &g, slice, &o);
    }
    json_put_int(same, "count", o.count);
    json_put_int(same, "rank", o.shorter);
    json_put_int(same, "sum", o.sum);
    json_put_int(same, "min", o.min);
    json_put_int(same, "max", o.max);
    if (o.previous >= 0)
        json_object_set_new(same, "previous", view_ref(v, (uint64_t)o.previous));
    if (o.next >= 0)
        json_object_set_new(same, "next", view_ref(v, (uint64_t)o.next));
    return same;
}

/* -- The answer ----------------------------------------------------------------------------------------- */

static void slice_put_track(const struct trace_view *v, uint64_t slice, json_t *body)
{
    int64_t track = columns_get(v->c, COL_slice_track, slice), lane = view_lane_of(v, slice);

    if (lane != COLUMN_NULL) {
        json_put_int(body, "lane", lane);
        json_object_set_new(body, "title", view_track_title(v, &v->tracks[v->track_at[track]]));
    }
    if (track != COLUMN_NULL)
        json_put_int(body, "track", track);
}

int view_answer_slice(struct trace_view *v, const json_t *request, FILE *out, struct problem *p)
{
    uint64_t slice = 0;

    int r = slice_find(v, request, &slice, p);
    if (r < 0)
        return r;
    int64_t ts = columns_get(v->c, COL_slice_ts, slice), dur = columns_get(v->c, COL_slice_dur, slice),
            name = columns_get(v->c, COL_slice_name, slice),
            category = columns_get(v->c, COL_slice_category, slice);
    int64_t child = columns_get(v->c, COL_slice_child, slice), shown = view_shown_dur(v, ts, dur);
    json_t *body = json_object();
    json_put_int(body, "slice", (int64_t)slice);
    slice_put_track(v, slice, body);
    json_object_set_new(body, "name", view_text(v, name));
    json_put_str(body, "class", view_class(v, name));
    json_object_set_new(body, "category", view_text(v, category));
    json_put_int(body, "begin", view_since(v, ts));
    json_put_int(body, "dur", MAX(dur, INT64_C(-1)));
    json_put_int(body, "self", shown - MIN(MAX(child, INT64_C(0)), shown));
    json_put_int(body, "depth", MAX(columns_get(v->c, COL_slice_depth, slice), INT64_C(0)));
    json_object_set_new(body, "args", slice_args(v, slice));
    json_object_set_new(body, "parents", slice_parents(v, slice));
    slice_put_launch(v, slice, body);
    slice_put_neighbours(v, view_lane_of(v, slice), slice, body);
    json_object_set_new(body, "same", slice_same(v, slice, name, category));
    return view_write_json(out, body, p);
}
