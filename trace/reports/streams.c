/* SPDX-License-Identifier: Apache-2.0 */
/* What each stream of a GPU did. */
#include "trace/reports/launches.h"
#include "trace/reports/report.h"

#include <errno.h>

static const struct report_column streams_columns[] = {
    RANK_COLUMN,
    {"device", UNIT_ID, "GPU number", IMPORTANCE_EXTRA},
    {"stream", UNIT_ID, "stream number"},
    {"count", UNIT_COUNT, "number of kernels, copies and memsets on the stream"},
    {"busy_ns", UNIT_NS, "time with activity on the stream"},
    {"busy_share", UNIT_SHARE, "busy_ns divided by the span of GPU activity of the rank"},
    {"alone_ns", UNIT_NS, "time with activity on the stream and no other stream of the rank",
     IMPORTANCE_EXTRA},
    {"compute_ns", UNIT_NS, "time with a computing kernel on the stream"},
    {"comm_ns", UNIT_NS, "time with communication on the stream"},
    {"memory_ns", UNIT_NS, "time with a copy or memset on the stream"},
    {"start_ns", UNIT_NS, "start of the first event, relative to the first slice of the rank",
     IMPORTANCE_EXTRA},
    {"span_ns", UNIT_NS, "time from the first event to the end of the last", IMPORTANCE_EXTRA},
    {"queue_mean", UNIT_FACTOR, "mean number of launched events that have not started, weighted by time"},
    {"queue_max", UNIT_COUNT, "maximum number of launched events that have not started"},
};

/*
 * alone: for each stream, its time without activity on the others. Events are ordered by start, so
 * that up to the next beginning only the stream that ends last can be alone, from the end of the others on.
 */
static int find_alone(const struct gpu_work *work, const struct gpu_parts *streams, int64_t **ret)
{
    int64_t *alone = calloc(streams->n + 1, sizeof(*alone)), since = INT64_MIN, end = INT64_MIN,
            end_of_others = INT64_MIN;
    uint32_t last = 0;

    if (!alone)
        return -ENOMEM;
    for (size_t i = 0; i <= work->n; i++) {
        int64_t now = i < work->n ? work->events[i].ts : INT64_MAX, from = MAX(since, end_of_others);
        if (from < MIN(now, end))
            alone[last] += MIN(now, end) - from;
        if (i == work->n)
            break;
        if (streams->of[i] == last) {
            end = MAX(end, work->events[i].end);
        } else if (work->events[i].end > end) {
            end_of_others = end;
            end = work->events[i].end;
            last = streams->of[i];
        } else {
            end_of_others = MAX(end_of_others, work->events[i].end);
        }
        since = now;
    }
    *ret = alone;
    return 0;
}

/* -- Rows ---------------------------------------------------------------------------------------------- */

/* at: the first point that may be of the stream; moves past its last. */
static void emit_queue(const struct queue *q, size_t *at, const struct gpu_part *s, struct report_rows *ret)
{
    int64_t max = COLUMN_NULL;
    double area = 0, span = 0;
    const struct queue_point *last = NULL;

    for (; *at < q->n && q->points[*at].device == s->device && q->points[*at].stream == s->stream; ++*at) {
        const struct queue_point *p = &q->points[*at];
        double time = last ? (double)p->ts - (double)last->ts : 0;
        area += last ? time * (double)last->length : 0;
        span += time;
        max = MAX(max, p->length);
        last = p;
    }
    emit_real(ret, area / span);
    emit_int(ret, max);
}

static int emit_kinds(const struct gpu_part *s, struct report_rows *ret)
{
    static const enum gpu_kind kinds[] = {GPU_COMPUTE, GPU_COMMUNICATION, GPU_MEMORY};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(kinds) && r >= 0; i++) {
        _cleanup_(intervals_done) struct intervals set = {0};
        r = gpu_work_busy(&s->work, 1u << kinds[i], &set);
        emit_int(ret, intervals_length(&set));
    }
    return r;
}

static int emit_stream(struct analysis *a, size_t rank, const struct gpu_part *s, struct interval all,
                       int64_t alone, struct report_rows *ret)
{
    _cleanup_(intervals_done) struct intervals busy = {0};
    struct interval span = gpu_work_span(&s->work);
    int r = gpu_work_busy(&s->work, GPU_ALL, &busy);

    emit_int(ret, a->ranks[rank].number);
    emit_int(ret, s->device);
    emit_int(ret, s->stream);
    emit_int(ret, (int64_t)s->work.n);
    emit_int(ret, intervals_length(&busy));
    emit_share(ret, intervals_length(&busy), all.to - all.from);
    emit_int(ret, alone);
    if (r >= 0)
        r = emit_kinds(s, ret);
    emit_int(ret, analysis_since_first(a, rank, span.from));
    emit_int(ret, span.to - span.from);
    return r;
}

static int streams_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(gpu_parts_done) struct gpu_parts streams = {0};
    _cleanup_(queue_done) struct queue queue = {0};
    _cleanup_(freep) int64_t *alone = NULL;
    const struct gpu_work *work;
    size_t at = 0;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_parts_read(work, BY_STREAM, &streams);
    if (r >= 0)
        r = queue_read(a, rank, &streams, &queue);
    if (r >= 0)
        r = find_alone(work, &streams, &alone);
    for (size_t i = 0; i < streams.n && r >= 0; i++) {
        r = emit_stream(a, rank, &streams.items[i], gpu_work_span(work), alone[i], ret);
        emit_queue(&queue, &at, &streams.items[i], ret);
    }
    return r;
}

const struct report report_streams = {
    .name = "streams",
    .title = "activity of each stream, exclusive time and queue length",
    .method = "Unions of the events on one stream. alone_ns adds up to the busy time of the rank if no two "
              "streams overlap. The mean queue length is weighted by time, from the first launch to the "
              "last start.",
    .needs = NEEDS_GPU,
    .sort_by = "busy_ns",
    .columns = streams_columns,
    .n_columns = ARRAY_SIZE(streams_columns),
    .make_rank = streams_make_rank,
};
