/* SPDX-License-Identifier: Apache-2.0 */
/* The tracks of a trace, in the order in which people look at them. */
#include "base/alloc.h"
#include "trace/columns/lane_view.h"
#include "trace/columns/schema.h"
#include "trace/view/view.h"
#include <errno.h>
#include <inttypes.h>

/* Slices of a track that are looked at to find its kind, taken evenly. */
#define TRACK_SAMPLE 256

static const char *const view_track_kinds[_VIEW_TRACK_KIND_MAX] = {
    [VIEW_GPU] = "gpu",     [VIEW_THREAD] = "thread",   [VIEW_PYTHON] = "python",
    [VIEW_ASYNC] = "async", [VIEW_INSTANT] = "instant",
};

const char *view_track_kind_name(enum view_track_kind kind)
{
    return view_track_kinds[kind];
}

/* The lanes of each track, which follow each other. */
static int view_list_tracks(struct trace_view *v)
{
    uint64_t rows = columns_rows(v->c, TABLE_track);
    size_t cap = 0;

    v->track_at = malloc((rows + 1) * sizeof(*v->track_at));
    if (!v->track_at)
        return -ENOMEM;
    memset(v->track_at, 0xff, (rows + 1) * sizeof(*v->track_at));
    for (uint64_t lane = 0; lane < v->lanes.n; lane++) {
        struct lane_rows l = lane_table_rows(&v->lanes, lane);
        struct view_track *last = v->n_tracks > 0 ? &v->tracks[v->n_tracks - 1] : NULL;

        if (l.track < 0 || (uint64_t)l.track >= rows)
            continue;
        if (!last || last->track != (uint64_t)l.track || last->lane + last->n_lanes != lane) {
            /* Of a track whose lanes are in several places, which no writer makes, the first are shown. */
            if (v->track_at[l.track] != COLUMN_NO_CODE)
                continue;
            if (!ARRAY_RESERVE(v->tracks, cap, v->n_tracks + 1))
                return -ENOMEM;
            v->track_at[l.track] = (uint32_t)v->n_tracks;
            last = &v->tracks[v->n_tracks++];
            *last = (struct view_track){.track = (uint64_t)l.track,
                                        .owner = (uint64_t)l.track,
                                        .lane = lane,
                                        .device = COLUMN_NULL,
                                        .stream = COLUMN_NULL};
        }
        last->n_lanes++;
        last->n_slices += l.end - l.first;
    }
    return 0;
}

/* The device and stream of a slice's arguments. */
static void view_read_stream(const struct trace_view *v, struct view_track *t, uint64_t slice)
{
    uint64_t row = columns_lower_bound(v->c, COL_gpu_slice, (int64_t)slice);

    if (row >= columns_rows(v->c, TABLE_gpu) || columns_get(v->c, COL_gpu_slice, row) != (int64_t)slice)
        return;
    if (t->device == COLUMN_NULL)
        t->device = columns_get(v->c, COL_gpu_device, row);
    if (t->stream == COLUMN_NULL)
        t->stream = columns_get(v->c, COL_gpu_stream, row);
}

static bool view_is_of_gpu(struct text category)
{
    return category_is_gpu_work(category.p, category.size) || text_is(category, "cuda_sync") ||
           (category.size > 4 && memcmp(category.p, "gpu_", 4) == 0);
}

/* By what its slices are: one of the GPU's is enough, most must be of Python. */
static void view_classify_track(const struct trace_view *v, struct view_track *t)
{
    static const enum view_track_kind kinds[_TRACK_KIND_MAX] = {
        [TRACK_THREAD] = VIEW_THREAD,
        [TRACK_OVERFLOW] = VIEW_THREAD,
        [TRACK_ASYNC] = VIEW_ASYNC,
        [TRACK_PROCESS_INSTANTS] = VIEW_INSTANT,
        [TRACK_GLOBAL_INSTANTS] = VIEW_INSTANT,
        [TRACK_COUNTER] = VIEW_INSTANT,
    };
    int64_t kind = columns_get(v->c, COL_track_kind, t->track);
    uint64_t n = 0, n_python = 0, n_profiler = 0;

    t->kind = kind >= 0 && kind < _TRACK_KIND_MAX ? kinds[kind] : VIEW_THREAD;
    t->is_overflow = kind == TRACK_OVERFLOW;
    if (t->kind != VIEW_THREAD)
        return;
    for (uint64_t lane = t->lane; lane < t->lane + t->n_lanes; lane++) {
        struct lane_rows l = lane_table_rows(&v->lanes, lane);
        uint64_t step = MAX(t->n_slices / TRACK_SAMPLE, UINT64_C(1));

        for (uint64_t at = l.first; at < l.end; at += step, n++) {
            int64_t slice = lane_table_slice(&v->lanes, at);
            struct text category = columns_text(v->c, columns_get(v->c, COL_slice_category, (uint64_t)slice));
            n_python += text_is(category, "python_function");
            n_profiler += text_is(category, "Trace");
            if (!view_is_of_gpu(category))
                continue;
            t->kind = VIEW_GPU;
            view_read_stream(v, t, (uint64_t)slice);
            if (t->device != COLUMN_NULL && t->stream != COLUMN_NULL)
                return;
        }
    }
    if (t->kind == VIEW_THREAD && n_python * 2 > n)
        t->kind = VIEW_PYTHON;
    t->is_of_profiler = n_profiler == n;
}

/* The track that an overflow's events are from: the first of its thread. Whoever sorts goes there by its position. */
static void view_find_owners(struct trace_view *v)
{
    uint64_t n_threads = columns_rows(v->c, TABLE_thread);
    _cleanup_(freep) uint32_t *first = malloc((n_threads + 1) * sizeof(*first));

    if (!first)
        return;
    memset(first, 0xff, (n_threads + 1) * sizeof(*first));
    for (size_t i = 0; i < v->n_tracks; i++) {
        int64_t thread = columns_get(v->c, COL_track_thread, v->tracks[i].track);
        if (thread >= 0 && !v->tracks[i].is_overflow && first[thread] == COLUMN_NO_CODE)
            first[thread] = (uint32_t)i;
    }
    for (size_t i = 0; i < v->n_tracks; i++) {
        struct view_track *t = &v->tracks[i];
        int64_t thread = columns_get(v->c, COL_track_thread, t->track);
        if (!t->is_overflow || thread < 0 || first[thread] == COLUMN_NO_CODE)
            continue;
        const struct view_track *owner = &v->tracks[first[thread]];
        t->owner = owner->track;
        t->kind = owner->kind;
        t->device = t->device == COLUMN_NULL ? owner->device : t->device;
        t->stream = t->stream == COLUMN_NULL ? owner->stream : t->stream;
    }
}

static int view_compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int view_compare_tracks(const void *x, const void *y, void *arg)
{
    const struct trace_view *v = arg;
    const uint32_t *i = x, *k = y;
    const struct view_track *a = &v->tracks[*i], *b = &v->tracks[*k];
    const struct view_track *of_a = &v->tracks[v->track_at[a->owner]],
                            *of_b = &v->tracks[v->track_at[b->owner]];
    int order = view_compare(of_a->kind, of_b->kind);

    if (order == 0 && of_a->kind == VIEW_GPU) {
        order = view_compare(of_a->device, of_b->device);
        order = order ? order : view_compare(of_a->stream, of_b->stream);
    } else if (order == 0) {
        order = view_compare(of_a->is_of_profiler, of_b->is_of_profiler);
        order = order ? order : view_compare(of_b->busy, of_a->busy);
    }
    order = order ? order : view_compare((int64_t)of_a->track, (int64_t)of_b->track);
    return order ? order : view_compare((int64_t)a->track, (int64_t)b->track);
}

static int view_order_tracks(struct trace_view *v)
{
    _cleanup_(freep) uint32_t *order = malloc((v->n_tracks + 1) * sizeof(*order));
    struct view_track *sorted = malloc((v->n_tracks + 1) * sizeof(*sorted));

    if (!order || !sorted) {
        free(sorted);
        return -ENOMEM;
    }
    for (size_t i = 0; i < v->n_tracks; i++)
        order[i] = (uint32_t)i;
    if (v->n_tracks > 0)
        qsort_r(order, v->n_tracks, sizeof(*order), view_compare_tracks, v);
    for (size_t i = 0; i < v->n_tracks; i++)
        sorted[i] = v->tracks[order[i]];
    for (size_t i = 0; i < v->n_tracks; i++)
        v->track_at[sorted[i].track] = (uint32_t)i;
    free(v->tracks);
    v->tracks = sorted;
    return 0;
}

int view_read_tracks(struct trace_view *v)
{
    int r = view_list_tracks(v);

    if (r < 0)
        return r;
    for (size_t i = 0; i < v->n_tracks; i++) {
        view_classify_track(v, &v->tracks[i]);
        v->tracks[i].busy = lane_busy(&v->lanes, v->tracks[i].lane, INT64_MIN, INT64_MAX);
    }
    view_find_owners(v);
    return view_order_tracks(v);
}

/* -- Titles --------------------------------------------------------------------------------------------- */

json_t *view_process_title(const struct trace_view *v, int64_t track)
{
    int64_t process = track < 0 ? COLUMN_NULL : columns_get(v->c, COL_track_process, (uint64_t)track);
    int64_t thread = track < 0 ? COLUMN_NULL : columns_get(v->c, COL_track_thread, (uint64_t)track);

    if (process == COLUMN_NULL && thread != COLUMN_NULL)
        process = columns_get(v->c, COL_thread_process, (uint64_t)thread);
    if (process == COLUMN_NULL)
        return json_string("");
    int64_t name = columns_get(v->c, COL_process_name, (uint64_t)process);
    if (name == COLUMN_NULL)
        name = columns_get(v->c, COL_process_pid_text, (uint64_t)process);
    int64_t pid = columns_get(v->c, COL_process_pid, (uint64_t)process);
    if (name != COLUMN_NULL)
        return view_text(v, name);
    return pid == COLUMN_NULL ? json_string("") : json_sprintf("process %" PRId64, pid);
}

static json_t *view_thread_title(const struct trace_view *v, const struct view_track *t)
{
    int64_t thread = columns_get(v->c, COL_track_thread, t->track);
    int64_t name = thread < 0 ? COLUMN_NULL : columns_get(v->c, COL_thread_name, (uint64_t)thread);

    if (name == COLUMN_NULL && thread >= 0)
        name = columns_get(v->c, COL_thread_tid_text, (uint64_t)thread);
    if (name == COLUMN_NULL)
        name = columns_get(v->c, COL_track_name, t->track);
    if (name != COLUMN_NULL)
        return view_text(v, name);
    int64_t tid = thread < 0 ? COLUMN_NULL : columns_get(v->c, COL_thread_tid, (uint64_t)thread);
    return tid == COLUMN_NULL ? json_sprintf("track %" PRIu64, t->track)
                              : json_sprintf("thread %" PRId64, tid);
}

static json_t *view_plain_title(const struct trace_view *v, const struct view_track *t)
{
    int64_t name = columns_get(v->c, COL_track_name, t->track);

    if (t->kind == VIEW_GPU && t->device != COLUMN_NULL && t->stream != COLUMN_NULL)
        return json_sprintf("GPU %" PRId64 " stream %" PRId64, t->device, t->stream);
    if (t->kind == VIEW_ASYNC && name != COLUMN_NULL)
        return view_text(v, name);
    return t->kind == VIEW_INSTANT ? json_string("instants") : view_thread_title(v, t);
}

json_t *view_track_title(const struct trace_view *v, const struct view_track *t)
{
    json_t *title = view_plain_title(v, t);

    if (!t->is_overflow)
        return title;
    json_t *overflow = json_sprintf("%s (overlapping)", json_string_value(title));
    json_decref(title);
    return overflow;
}
