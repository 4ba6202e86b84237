/* SPDX-License-Identifier: Apache-2.0 */
/* What each stream of a GPU did. */
#include "trace/reports/launches.h"
#include "trace/reports/report.h"

#include <errno.h>

#define STREAMS_COLUMNS(C)                                                                                   \
    RANK_COLUMN(C)                                                                                           \
    C(device, ID, "GPU number", IMPORTANCE_EXTRA)                                                            \
    C(stream, ID, "stream number")                                                                           \
    C(count, COUNT, "number of kernels, copies and memsets on the stream")                                   \
    C(busy_ns, NS, "time with activity on the stream")                                                       \
    C(busy_share, SHARE, "busy_ns divided by the span of GPU activity of the rank")                          \
    C(alone_ns, NS, "time with activity on the stream and no other stream of the rank", IMPORTANCE_EXTRA)    \
    C(compute_ns, NS, "time with a computing kernel on the stream")                                          \
    C(comm_ns, NS, "time with communication on the stream")                                                  \
    C(memory_ns, NS, "time with a copy or memset on the stream")                                             \
    C(start_ns, NS, "start of the first event, relative to the first slice of the rank", IMPORTANCE_EXTRA)   \
    C(span_ns, NS, "time from the first event to the end of the last", IMPORTANCE_EXTRA)                     \
    C(queue_mean, FACTOR, "mean number of launched events that have not started, weighted by time")          \
    C(queue_max, COUNT, "maximum number of launched events that have not started")
REPORT_ROW(streams, STREAMS_COLUMNS);

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

struct queue_sum {
    double mean; /* weighted by time */
    int64_t max;
};

/* at: the first point that may be of the stream; moves past its last. */
static struct queue_sum sum_queue(const struct queue *q, size_t *at, const struct gpu_part *s)
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
    return (struct queue_sum){area / span, max};
}

static int emit_stream(struct analysis *a, size_t rank, const struct gpu_part *s, struct interval all,
                       int64_t alone, struct queue_sum queue, struct report_rows *ret)
{
    struct interval span = gpu_work_span(&s->work);
    struct gpu_times times;
    int r = gpu_work_times(&s->work, &times);

    if (r >= 0)
        EMIT_ROW(streams, ret, .rank = a->ranks[rank].number, .device = s->device, .stream = s->stream,
                 .count = (int64_t)s->work.n, .busy_ns = times.busy,
                 .busy_share = row_share(times.busy, all.to - all.from), .alone_ns = alone,
                 .compute_ns = times.compute, .comm_ns = times.communication, .memory_ns = times.memory,
                 .start_ns = analysis_since_first(a, rank, span.from), .span_ns = span.to - span.from,
                 .queue_mean = queue.mean, .queue_max = queue.max);
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
    for (size_t i = 0; i < streams.n && r >= 0; i++)
        r = emit_stream(a, rank, &streams.items[i], gpu_work_span(work), alone[i],
                        sum_queue(&queue, &at, &streams.items[i]), ret);
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
    REPORT_COLUMNS(streams),
    .make_rank = streams_make_rank,
};
