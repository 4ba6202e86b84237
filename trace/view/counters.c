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

/* Samples of one part of the window, of which there are as many as points. */
struct counter_point {
    int64_t ts; /* of the first sample */
    struct counter_samples of;
    double last;
};

struct counter_curve {
    const struct trace_view *v;
    int64_t track, from, to;            /* [from, to), absolute */
    uint64_t step, part;                /* what a point lasts; the part of `point` */
    struct counter_point before, point; /* the last sample before the window; what is collected */
    json_t *points;
};

static void counter_end_point(struct counter_curve *curve, struct counter_point *point)
{
    if (point->of.n == 0)
        return;
    json_t *values = json_array();

    json_array_append_new(values, json_integer(view_since(curve->v, point->ts)));
    json_array_append_new(values, json_number(point->of.min));
    json_array_append_new(values, json_number(point->of.max));
    json_array_append_new(values, json_number(point->last));
    json_array_append_new(curve->points, values);
    point->of.n = 0;
}

/* Samples are in order of time. */
static void counter_take(struct counter_curve *curve, int64_t ts, double value)
{
    if (!isfinite(value) || ts >= curve->to)
        return;
    if (ts < curve->from) {
        curve->before = (struct counter_point){ts, {value, value, 1}, value};
        return;
    }
    uint64_t part = ((uint64_t)ts - (uint64_t)curve->from) / curve->step;
    counter_end_point(curve, &curve->before);
    if (part != curve->part)
        counter_end_point(curve, &curve->point);
    if (curve->point.of.n == 0)
        curve->point.ts = ts;
    curve->part = part;
    counter_add(&curve->point.of, value);
    curve->point.last = value;
}

static void counter_read(struct counter_curve *curve)
{
    int64_t tracks[BLOCK_ROWS], values[BLOCK_ROWS], times[BLOCK_ROWS];
    const struct columns *c = curve->v->c;
    uint64_t rows = columns_rows(c, TABLE_counter), row = 0;

    /* Blocks of other counters are passed over. */
    while ((row = columns_next_in_range(c, COL_counter_track, row, rows, curve->track, curve->track)) <
           rows) {
        size_t n = columns_block(c, COL_counter_track, row, BLOCK_ROWS, tracks);
        columns_block(c, COL_counter_value, row, BLOCK_ROWS, values);
        columns_block(c, COL_counter_ts, row, BLOCK_ROWS, times);
        for (size_t i = 0; i < n; i++)
            if (tracks[i] == curve->track)
                counter_take(curve, times[i], counter_number(values[i]));
        row += BLOCK_ROWS;
    }
    counter_end_point(curve, &curve->before);
    counter_end_point(curve, &curve->point);
}

int view_answer_counters(struct trace_view *v, const json_t *request, FILE *out, struct problem *p)
{
    struct counter_curve curve = {.v = v, .track = -1};
    int64_t points = COUNTER_POINTS;
    struct view_part part;

    int r = view_read_number(request, "track", 0, INT64_MAX, &curve.track, p);
    if (r == 0)
        r = view_read_number(request, "points", 1, COUNTER_POINTS_MAX, &points, p);
    if (r == 0)
        r = view_read_part(v, request, &part, p);
    if (r < 0)
        return r;
    if (curve.track < 0 || (uint64_t)curve.track >= columns_rows(v->c, TABLE_track))
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "the trace has no counter of that number");
    /* Samples may come after the last slice. */
    uint64_t rows = columns_rows(v->c, TABLE_counter);
    int64_t last = rows > 0 ? MAX(columns_get(v->c, COL_counter_ts, rows - 1), v->last_ns) : v->last_ns;
    curve.from = MAX(part.from, v->first_ns);
    curve.to = MIN(part.to, view_add(last, 1));
    uint64_t span = curve.to > curve.from ? (uint64_t)curve.to - (uint64_t)curve.from : 1;
    curve.step = span / (uint64_t)points + (span % (uint64_t)points > 0);
    curve.points = json_array();
    counter_read(&curve);
    return view_write_json(out, json_pack("{s:o}", "points", curve.points), p);
}
