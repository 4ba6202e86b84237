/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/queue.h"

#include "trace/reports/hta.h"
#include "trace/reports/reports.h"
#include <errno.h>

/* What is launched at the moment at which something begins is in the queue first. */
static int compare(const void *x, const void *y)
{
    const struct queue_point *a = x, *b = y;

    if (a->device != b->device)
        return (a->device > b->device) - (a->device < b->device);
    if (a->stream != b->stream)
        return (a->stream > b->stream) - (a->stream < b->stream);
    if (a->ts != b->ts)
        return (a->ts > b->ts) - (a->ts < b->ts);
    return (a->length < b->length) - (a->length > b->length);
}

static bool same_stream(const struct queue_point *a, const struct queue_point *b)
{
    return a->device == b->device && a->stream == b->stream;
}

/* The points hold changes until they are ordered. */
static void add_changes(const struct analysis *a, const struct columns *c, const struct gpu_event *e,
                        struct queue *ret)
{
    int64_t ts = e->launch == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_slice_ts, e->launch);

    if (ts == COLUMN_NULL ||
        (a->hta && !hta_is_queued(columns_text(c, columns_get(c, COL_slice_name, e->launch)))))
        return;
    ret->points[ret->n++] = (struct queue_point){e->device, e->stream, ts, 1};
    ret->points[ret->n++] = (struct queue_point){e->device, e->stream, e->ts, -1};
}

static void sum_up(struct queue *q, bool each)
{
    size_t kept = 0;

    for (size_t i = 0; i < q->n; i++) {
        struct queue_point next = q->points[i];
        struct queue_point *last =
            kept > 0 && same_stream(&q->points[kept - 1], &next) ? &q->points[kept - 1] : NULL;
        if (last)
            next.length += last->length;
        if (last && last->ts == next.ts && !each)
            *last = next;
        else
            q->points[kept++] = next;
    }
    q->n = kept;
}

int queue_read(struct analysis *a, size_t rank, struct queue *ret)
{
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    *ret = (struct queue){0};
    if (r < 0)
        return r;
    ret->points = calloc(2 * work->n + 1, sizeof(*ret->points));
    if (!ret->points)
        return -ENOMEM;
    for (size_t i = 0; i < work->n; i++)
        add_changes(a, a->ranks[rank].columns, &work->events[i], ret);
    qsort(ret->points, ret->n, sizeof(*ret->points), compare);
    sum_up(ret, a->hta);
    return 0;
}

void queue_done(struct queue *queue)
{
    free(queue->points);
    *queue = (struct queue){0};
}

/* -- The report ---------------------------------------------------------------------------------------- */

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"device", UNIT_ID, "which GPU"},
    {"stream", UNIT_ID, "which stream"},
    {"start_ns", UNIT_NS, "since when, counted from the rank's first slice"},
    {"length", UNIT_COUNT, "kernels, copies and memsets that were launched and had not begun"},
};

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t rank = 0; rank < a->n && r >= 0; rank++) {
        _cleanup_(queue_done) struct queue q = {0};
        r = queue_read(a, rank, &q);
        for (size_t i = 0; i < q.n; i++) {
            put_int(ret, a->ranks[rank].number);
            put_int(ret, q.points[i].device);
            put_int(ret, q.points[i].stream);
            put_int(ret, analysis_since_first(a, rank, q.points[i].ts));
            put_int(ret, q.points[i].length);
        }
    }
    return r;
}

const struct report report_queue = {
    .name = "queue",
    .title = "work launched and not begun, over time, for each stream",
    .how = "A call that launches adds what it launches when it begins, a graph all of its nodes; each work "
           "leaves "
           "when it begins. In order of time: a row says the length from its start until the next row's. "
           "With --hta "
           "after Holistic Trace Analysis, which leaves graphs out.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
