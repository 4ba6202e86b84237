/* SPDX-License-Identifier: Apache-2.0 */
/* Counters: samples of a value over time, as points for a curve. */
#include "base/alloc.h"
#include "trace/columns/schema.h"
#include "trace/view/counter_track.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>

#define COUNTERS_MAX       4096
#define COUNTER_POINTS     1000
#define COUNTER_POINTS_MAX 10000

static double counter_number(int64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

struct counter_samples {
    double min, max;
    int64_t n;
};

static json_t *counter_title(const struct trace_view *v, uint64_t track)
{
    int64_t name = columns_get(v->c, COL_track_name, track);

    return name == COLUMN_NULL ? json_sprintf("counter %" PRIu64, track) : view_text(v, name);
}

static json_t *counter_to_json(const struct trace_view *v, uint64_t track, const struct counter_samples *s)
{
    json_t *counter = json_object();

    json_put_int(counter, "track", (int64_t)track);
    json_object_set_new(counter, "title", counter_title(v, track));
    json_object_set_new(counter, "process", view_process_title(v, (int64_t)track));
    json_object_set_new(counter, "min", json_number(s->min));
    json_object_set_new(counter, "max", json_number(s->max));
    json_put_int(counter, "samples", s->n);
    return counter;
}

/* What is no number does not count. */
static void counter_add(struct counter_samples *s, double value)
{
    if (!isfinite(value))
        return;
    s->min = s->n == 0 ? value : MIN(s->min, value);
    s->max = s->n == 0 ? value : MAX(s->max, value);
    s->n++;
}

json_t *view_list_counters(const struct trace_view *v)
{
    uint64_t n_tracks = columns_rows(v->c, TABLE_track), rows = columns_rows(v->c, TABLE_counter);
    _cleanup_(freep) struct counter_samples *samples = calloc(n_tracks + 1, sizeof(*samples));
    int64_t tracks[BLOCK_ROWS], values[BLOCK_ROWS];
    json_t *list = json_array();

    for (uint64_t first = 0; samples && first < rows; first += BLOCK_ROWS) {
        size_t n = columns_block(v->c, COL_counter_track, first, BLOCK_ROWS, tracks);

        columns_block(v->c, COL_counter_value, first, BLOCK_ROWS, values);
        for (size_t i = 0; i < n; i++)
            if (tracks[i] >= 0)
                counter_add(&samples[tracks[i]], counter_number(values[i]));
    }
    for (uint64_t track = 0; samples && track < n_tracks && json_array_size(list) < COUNTERS_MAX; track++)
        if (samples[track].n > 0)
            json_array_append_new(list, counter_to_json(v, track, &samples[track]));
    return list;
}

/* -- Points --------------------------------------------------------------------------------------------- */

/* One part of the window: the time of its first sample, and the extremes. */
struct counter_point {
    int64_t ts;
    struct counter_samples of;
    double last;
};

static json_t *counter_point_to_json(const struct trace_view *v, const struct counter_point *point)
{
    json_t *values = json_array();

    json_array_append_new(values, json_integer(view_since(v, point->ts)));
    json_array_append_new(values, json_number(point->of.min));
    json_array_append_new(values, json_number(point->of.max));
    json_array_append_new(values, json_number(point->last));
    return values;
}

int view_answer_counters(struct trace_view *v, const json_t *request, FILE *out, struct problem *p)
{
    int64_t track = -1, points = COUNTER_POINTS, tracks[BLOCK_ROWS], values[BLOCK_ROWS], times[BLOCK_ROWS];
    struct view_part part;

    int r = view_read_number(request, "track", 0, INT64_MAX, &track, p);
    if (r == 0)
        r = view_read_number(request, "points", 1, COUNTER_POINTS_MAX, &points, p);
    if (r == 0)
        r = view_read_part(v, request, &part, p);
    if (r < 0)
        return r;
    if (track < 0 || (uint64_t)track >= columns_rows(v->c, TABLE_track))
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "the trace has no counter of that number");
    /* The value at the beginning of the window is that of the last sample before it. */
    struct counter_point before = {.of.n = 0}, at = {.of.n = 0};
    json_t *body = json_object(), *list = json_array();
    json_object_set_new(body, "points", list);
    int64_t from = MAX(part.from, v->first_ns), to = MIN(part.to, view_add(v->last_ns, 1));
    uint64_t span = to > from ? (uint64_t)to - (uint64_t)from : 1;
    uint64_t step = span / (uint64_t)points + (span % (uint64_t)points > 0), bucket = 0;
    uint64_t rows = columns_rows(v->c, TABLE_counter);
    for (uint64_t first = 0; first < rows; first += BLOCK_ROWS) {
        /* A block of other counters is passed over. */
        first = columns_next_in_range(v->c, COL_counter_track, first, rows, track, track) / BLOCK_ROWS *
                BLOCK_ROWS;
        size_t n = columns_block(v->c, COL_counter_track, first, BLOCK_ROWS, tracks);
        columns_block(v->c, COL_counter_value, first, BLOCK_ROWS, values);
        columns_block(v->c, COL_counter_ts, first, BLOCK_ROWS, times);
        for (size_t i = 0; i < n; i++) {
            double value = counter_number(values[i]);
            if (tracks[i] != track || !isfinite(value) || times[i] >= to)
                continue;
            if (times[i] < from) {
                before = (struct counter_point){times[i], {value, value, 1}, value};
                continue;
            }
            if (before.of.n > 0)
                json_array_append_new(list, counter_point_to_json(v, &before));
            before.of.n = 0;
            uint64_t of = ((uint64_t)times[i] - (uint64_t)from) / step;
            if (at.of.n > 0 && of != bucket) {
                json_array_append_new(list, counter_point_to_json(v, &at));
                at.of.n = 0;
            }
            if (at.of.n == 0)
                at.ts = times[i];
            bucket = of;
            counter_add(&at.of, value);
            at.last = value;
        }
    }
    if (before.of.n > 0)
        json_array_append_new(list, counter_point_to_json(v, &before));
    if (at.of.n > 0)
        json_array_append_new(list, counter_point_to_json(v, &at));
    return view_write_json(out, body, p);
}
