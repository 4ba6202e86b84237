/* SPDX-License-Identifier: Apache-2.0 */
/* What each stream of a GPU did. */
#include "trace/reports/queue.h"
#include "trace/reports/reports.h"

#include <errno.h>

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"device", UNIT_ID, "which GPU", true},
    {"stream", UNIT_ID, "which stream"},
    {"count", UNIT_COUNT, "kernels, copies and memsets on it"},
    {"busy_ns", UNIT_NS, "with anything at work on it"},
    {"busy_share", UNIT_SHARE, "busy_ns of the span of the rank's work"},
    {"alone_ns", UNIT_NS, "at work while no other stream of the rank was", true},
    {"compute_ns", UNIT_NS, "with a computing kernel at work on it"},
    {"comm_ns", UNIT_NS, "with communication at work on it"},
    {"memory_ns", UNIT_NS, "with a copy or memset at work on it"},
    {"start_ns", UNIT_NS, "when its first work begins, counted from the rank's first slice", true},
    {"span_ns", UNIT_NS, "from then to the end of its last", true},
    {"queue_mean", UNIT_FACTOR, "work launched and not begun, over time"},
    {"queue_max", UNIT_COUNT, "the most of it"},
};

struct stream {
    int64_t device, stream;
    struct gpu_work work; /* a part of the sorted events */
    struct intervals busy;
    int64_t alone;
};

struct streams {
    struct gpu_event *events; /* by device, stream and time */
    struct stream *items;
    size_t n, cap;
};

static void streams_done(struct streams *s)
{
    for (size_t i = 0; i < s->n; i++)
        intervals_done(&s->items[i].busy);
    free(s->items);
    free(s->events);
}

static int compare_events(const void *x, const void *y)
{
    const struct gpu_event *a = x, *b = y;

    if (a->device != b->device)
        return (a->device > b->device) - (a->device < b->device);
    if (a->stream != b->stream)
        return (a->stream > b->stream) - (a->stream < b->stream);
    if (a->ts != b->ts)
        return (a->ts > b->ts) - (a->ts < b->ts);
    return (a->slice > b->slice) - (a->slice < b->slice);
}

static int add_stream(struct streams *s, struct gpu_event *events, size_t n)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        struct stream *items = reallocarray(s->items, cap, sizeof(*items));
        if (!items)
            return -ENOMEM;
        s->items = items;
        s->cap = cap;
    }
    struct stream *stream = &s->items[s->n++];
    *stream = (struct stream){
        .device = events[0].device, .stream = events[0].stream, .work = {.events = events, .n = n}};
    return gpu_work_busy(&stream->work, GPU_ALL, &stream->busy);
}

static int read_streams(const struct gpu_work *work, struct streams *ret)
{
    int r = 0;

    ret->events = malloc((work->n + 1) * sizeof(*ret->events));
    if (!ret->events)
        return -ENOMEM;
    memcpy(ret->events, work->events, work->n * sizeof(*ret->events));
    qsort(ret->events, work->n, sizeof(*ret->events), compare_events);
    for (size_t from = 0, to; from < work->n && r >= 0; from = to) {
        for (to = from; to < work->n && ret->events[to].device == ret->events[from].device &&
                        ret->events[to].stream == ret->events[from].stream;)
            to++;
        r = add_stream(ret, &ret->events[from], to - from);
    }
    return r;
}

/* -- Alone --------------------------------------------------------------------------------------------- */

/* A stream begins or ends to be at work. */
struct edge {
    int64_t ts;
    size_t stream;
    int change;
};

static int compare_edges(const void *x, const void *y)
{
    const struct edge *a = x, *b = y;

    return (a->ts > b->ts) - (a->ts < b->ts);
}

/* The sum of the numbers of the streams at work is, while it is one, that one's. */
static int find_alone(struct streams *s)
{
    size_t n = 0, n_edges = 0, at_work = 0, sum = 0;

    for (size_t i = 0; i < s->n; i++)
        n_edges += 2 * s->items[i].busy.n;
    _cleanup_(freep) struct edge *edges = calloc(n_edges + 1, sizeof(*edges));
    if (!edges)
        return -ENOMEM;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->items[i].busy.n; k++) {
            edges[n++] = (struct edge){s->items[i].busy.items[k].from, i, 1};
            edges[n++] = (struct edge){s->items[i].busy.items[k].to, i, -1};
        }
    qsort(edges, n, sizeof(*edges), compare_edges);
    for (size_t i = 0; i < n; i++) {
        if (at_work == 1)
            s->items[sum].alone += edges[i].ts - edges[i - 1].ts;
        at_work += (size_t)edges[i].change;
        sum += edges[i].change > 0 ? edges[i].stream : -edges[i].stream;
    }
    return 0;
}

/* -- Rows ---------------------------------------------------------------------------------------------- */

static void put_queue(const struct queue *q, const struct stream *s, struct report_rows *ret)
{
    int64_t max = COLUMN_NULL;
    double area = 0, span = 0;

    for (size_t i = 0; i < q->n; i++) {
        const struct queue_point *p = &q->points[i];
        if (p->device != s->device || p->stream != s->stream)
            continue;
        max = MAX(max, p->length);
        if (i + 1 < q->n && q->points[i + 1].device == p->device && q->points[i + 1].stream == p->stream) {
            double time = (double)q->points[i + 1].ts - (double)p->ts;
            area += time * (double)p->length;
            span += time;
        }
    }
    put_real(ret, area / span);
    put_int(ret, max);
}

static int put_kinds(const struct stream *s, struct report_rows *ret)
{
    static const enum gpu_kind kinds[] = {GPU_COMPUTE, GPU_COMMUNICATION, GPU_MEMORY};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(kinds) && r >= 0; i++) {
        _cleanup_(intervals_done) struct intervals set = {0};
        r = gpu_work_busy(&s->work, 1u << kinds[i], &set);
        put_int(ret, intervals_length(&set));
    }
    return r;
}

static int put_stream(struct analysis *a, size_t rank, const struct stream *s, struct interval all,
                      const struct queue *q, struct report_rows *ret)
{
    struct interval span = gpu_work_span(&s->work);

    put_int(ret, a->ranks[rank].number);
    put_int(ret, s->device);
    put_int(ret, s->stream);
    put_int(ret, (int64_t)s->work.n);
    put_int(ret, intervals_length(&s->busy));
    put_share(ret, intervals_length(&s->busy), all.to - all.from);
    put_int(ret, s->alone);
    int r = put_kinds(s, ret);
    put_int(ret, analysis_since_first(a, rank, span.from));
    put_int(ret, span.to - span.from);
    put_queue(q, s, ret);
    return r;
}

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(streams_done) struct streams streams = {0};
    _cleanup_(queue_done) struct queue queue = {0};
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = queue_read(a, rank, &queue);
    if (r >= 0)
        r = read_streams(work, &streams);
    if (r >= 0)
        r = find_alone(&streams);
    for (size_t i = 0; i < streams.n && r >= 0; i++)
        r = put_stream(a, rank, &streams.items[i], gpu_work_span(work), &queue, ret);
    return r;
}

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, ret);
    return r < 0 ? r : report_rows_sort(ret, 4, true);
}

const struct report report_streams = {
    .name = "streams",
    .title = "what each stream did, how much of it alone, and how long its queue was",
    .how = "Unions of the work on one stream. alone_ns adds up to the busy time of the rank where no two "
           "streams "
           "overlap. The queue's mean is weighted by time, from the first launch to the last beginning.",
    .needs = NEEDS_GPU,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
