/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a timeline needs before its first tile: bounds, tracks in the order of the picture, counters. Its steps are an
 * answer of their own: finding them reads all GPU events of the trace, and the picture does not wait for that. Both are
 * computed once and kept with the view.
 */
#include "base/alloc.h"
#include "trace/columns/schema.h"
#include "trace/reports/step.h"
#include "trace/view/counter_track.h"
#include "trace/view/view.h"
#include <errno.h>
#include <inttypes.h>

/* Of one answer. */
#define TIMELINE_STEPS_MAX  20000
#define TIMELINE_TRACKS_MAX 20000

static json_t *timeline_track(const struct trace_view *v, const struct view_track *t)
{
    json_t *track = json_object();
    int64_t thread = columns_get(v->c, COL_track_thread, t->track);

    json_put_int(track, "track", (int64_t)t->track);
    json_put_str(track, "kind", view_track_kind_name(t->kind));
    json_object_set_new(track, "title", view_track_title(v, t));
    json_object_set_new(track, "process", view_process_title(v, (int64_t)t->track));
    json_object_set_new(
        track, "thread",
        view_text(v, thread < 0 ? COLUMN_NULL : columns_get(v->c, COL_thread_name, (uint64_t)thread)));
    if (t->device != COLUMN_NULL)
        json_put_int(track, "device", t->device);
    if (t->stream != COLUMN_NULL)
        json_put_int(track, "stream", t->stream);
    json_put_int(track, "lane", (int64_t)t->lane);
    json_put_int(track, "lanes", (int64_t)t->n_lanes);
    json_put_int(track, "slices", (int64_t)t->n_slices);
    json_put_int(track, "busy_ns", t->busy);
    return track;
}

static json_t *timeline_step(const struct trace_view *v, const struct step *s)
{
    json_t *step = json_object();
    const char *phase =
        s->phase != PHASE_UNKNOWN && s->phase < _STEP_PHASE_MAX ? step_phase_name(s->phase) : NULL;

    json_put_int(step, "begin", view_since(v, s->ts));
    json_put_int(step, "end", view_since(v, s->end));
    json_object_set_new(step, "label",
                        s->name == COLUMN_NULL ? json_sprintf("step %" PRId64, s->index)
                                               : view_text(v, s->name));
    json_put_str(step, "phase", phase);
    return step;
}

/* NULL: not enough memory. */
static char *timeline_steps_make(const struct trace_view *v)
{
    _cleanup_(gpu_work_done) struct gpu_work work = {0};
    _cleanup_(steps_done) struct steps steps = {0};

    if (gpu_work_read(v->c, NULL, false, &work) < 0 || steps_read(v->c, &work, &steps) < 0)
        return NULL;
    _cleanup_json_ body = json_object();
    json_t *list = json_array();
    json_put_str(body, "sum", v->sum);
    json_object_set_new(body, "steps", list);
    for (size_t i = 0; i < MIN(steps.n, (size_t)TIMELINE_STEPS_MAX); i++)
        json_array_append_new(list, timeline_step(v, &steps.items[i]));
    return json_dumps(body, JSON_COMPACT);
}

static json_t *timeline_make(const struct trace_view *v)
{
    json_t *body = json_object(), *tracks = json_array();

    json_put_str(body, "sum", v->sum);
    int64_t base = columns_meta(v->c, META_base_time_ns);
    json_object_set_new(body, "first_at",
                        json_sprintf("%" PRId64, view_add(base == COLUMN_NULL ? 0 : base, v->first_ns)));
    json_object_set_new(body, "first_ts", json_sprintf("%" PRId64, v->first_ns));
    json_put_int(body, "length_ns", view_since(v, v->last_ns));
    json_put_int(body, "slices", (int64_t)columns_rows(v->c, TABLE_slice));
    json_put_int(body, "names", v->n_texts);
    json_put_int(body, "name_block", VIEW_NAMES_BLOCK);
    json_put_int(body, "lanes", (int64_t)v->lanes.n);
    json_object_set_new(body, "tracks", tracks);
    for (size_t i = 0; i < MIN(v->n_tracks, (size_t)TIMELINE_TRACKS_MAX); i++)
        json_array_append_new(tracks, timeline_track(v, &v->tracks[i]));
    json_object_set_new(body, "counters", view_list_counters(v));
    return body;
}

int view_answer_timeline(struct trace_view *v, const json_t *request, FILE *out, struct problem *p)
{
    const char *trace = json_get_str(request, "trace");

    if (!v->timeline) {
        _cleanup_json_ body = timeline_make(v);
        v->timeline = json_dumps(body, JSON_COMPACT);
    }
    if (!v->timeline)
        return problem_set(p, -ENOMEM, PROBLEM_TOO_LARGE, "the timeline has too many tracks");
    /* The first member is the caller's name of the trace. */
    _cleanup_json_ name = json_text(trace ? trace : "");
    _cleanup_(freep) char *text = json_dumps(name, JSON_ENCODE_ANY);
    fprintf(out, "{\"trace\":%s,%s\n", text ? text : "\"\"", v->timeline + 1);
    return 0;
}

int view_answer_steps(struct trace_view *v, const json_t *request, FILE *out, struct problem *p)
{
    (void)request;
    if (!v->steps)
        v->steps = timeline_steps_make(v);
    if (!v->steps)
        return problem_set(p, -ENOMEM, PROBLEM_TOO_LARGE, "the steps need too much memory");
    fprintf(out, "%s\n", v->steps);
    return 0;
}
