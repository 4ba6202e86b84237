/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/queue.h"

#include "trace/reports/hta.h"
#include "trace/reports/reports.h"
#include <errno.h>

static int compare(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

static void put_point(struct queue *q, size_t first, struct queue_point next, bool each)
{
    struct queue_point *last = q->n > first ? &q->points[q->n - 1] : NULL;

    if (last)
        next.length += last->length;
    if (last && last->ts == next.ts && !each)
        *last = next;
    else
        q->points[q->n++] = next;
}

/* When what was launched on it was launched, and when it began; both in order. Returns how many. */
static size_t find_changes(const struct analysis *a, const struct columns *c, const struct gpu_part *s,
                           int64_t *launched, int64_t *begun)
{
    bool is_ordered = true;
    size_t n = 0;

    for (size_t i = 0; i < s->work.n; i++) {
        const struct gpu_event *e = &s->work.events[i];
        int64_t ts = e->launch == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_slice_ts, e->launch);
        if (ts == COLUMN_NULL ||
            (a->hta && !hta_is_queued(columns_text(c, columns_get(c, COL_slice_name, e->launch)))))
            continue;
        is_ordered = is_ordered && (n == 0 || launched[n - 1] <= ts);
        launched[n] = ts;
        begun[n++] = e->ts;
    }
    if (!is_ordered)
        qsort(launched, n, sizeof(*launched), compare);
    return n;
}

/* What is launched at the moment at which something begins is in the queue first. */
static void add_stream(const struct analysis *a, const struct columns *c, const struct gpu_part *s,
                       int64_t *launched, int64_t *begun, struct queue *ret)
{
    size_t n = find_changes(a, c, s, launched, begun), first = ret->n, i = 0, k = 0;

    while (i < n || k < n) {
        bool is_launch = i < n && (k == n || launched[i] <= begun[k]);
        put_point(ret, first,
                  (struct queue_point){s->device, s->stream, is_launch ? launched[i] : begun[k],
                                       is_launch ? 1 : -1},
                  a->hta);
        i += is_launch;
        k += !is_launch;
    }
}

int queue_read(struct analysis *a, size_t rank, const struct gpu_parts *streams, struct queue *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < streams->n; i++)
        n += streams->items[i].work.n;
    _cleanup_(freep) int64_t *launched = calloc(n + 1, sizeof(*launched)),
                             *begun = calloc(n + 1, sizeof(*begun));
    *ret = (struct queue){.points = calloc(2 * n + 1, sizeof(*ret->points))};
    if (!ret->points || !launched || !begun)
        return -ENOMEM;
    for (size_t i = 0; i < streams->n; i++)
        add_stream(a, a->ranks[rank].columns, &streams->items[i], launched, begun, ret);
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
        _cleanup_(gpu_parts_done) struct gpu_parts streams = {0};
        _cleanup_(queue_done) struct queue q = {0};
        const struct gpu_work *work;
        r = analysis_gpu(a, rank, &work);
        if (r >= 0)
            r = gpu_parts_read(work, BY_STREAM, &streams);
        if (r >= 0)
            r = queue_read(a, rank, &streams, &q);
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
