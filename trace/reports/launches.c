/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/launches.h"

#include "base/statistics.h"
#include "trace/reports/aggregation.h"
#include "trace/reports/gpu.h"
#include "trace/reports/hta.h"
#include "trace/reports/search.h"
#include <errno.h>

/* -- Launch ---------------------------------------------------------------------------------------------- */

/* Work by its call, and of one call by when it begins. */
static size_t order_work(const struct gpu_work *work, struct sort_item *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < work->n; i++)
        if (gpu_event_launch(&work->events[i]) != SLICE_NONE)
            ret[n++] = (struct sort_item){(int64_t)gpu_event_launch(&work->events[i]), i};
    sort_items(ret, n);
    return n;
}

/* False for what is no finished call. */
static bool launch_look_up(const struct slice_table *t, struct launch *l)
{
    int64_t dur = slice_dur(t, l->call);

    l->name = slice_name(t, l->call);
    l->ts = slice_ts(t, l->call);
    l->end = add_time(l->ts, dur);
    return l->ts >= -GPU_TIME_MAX && dur >= 0 && l->end <= GPU_TIME_MAX;
}

int launches_read(struct analysis *a, size_t rank, struct launches *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    const struct gpu_work *work;
    const struct slice_table *slices;
    int r = analysis_gpu(a, rank, &work);

    *ret = (struct launches){0};
    if (r >= 0)
        r = analysis_slices(a, rank, &slices);
    if (r < 0)
        return r;
    _cleanup_(freep) struct sort_item *order = malloc((work->n + 1) * sizeof(*order));
    ret->items = malloc((work->n + 1) * sizeof(*ret->items));
    if (!order || !ret->items)
        return -ENOMEM;
    size_t n = order_work(work, order);
    for (size_t from = 0, to; from < n; from = to) {
        struct launch l = {.call = (uint64_t)order[from].number, .begin = work->events[order[from].item].ts};
        for (to = from; to < n && order[to].number == order[from].number && (to == from || !a->hta); to++) {
            const struct gpu_event *e = &work->events[order[to].item];
            l.work = add_time(l.work, e->end - e->ts);
            l.count++;
        }
        if (launch_look_up(slices, &l) && (!a->hta || hta_is_launch(columns_text(c, l.name))))
            ret->items[ret->n++] = l;
    }
    return 0;
}

void launches_done(struct launches *launches)
{
    free(launches->items);
    *launches = (struct launches){0};
}

const struct launch *launches_find(const struct launches *launches, uint64_t call)
{
    size_t at = FIRST_THAT(i, 0, launches->n, launches->items[i].call >= call);

    return at < launches->n && launches->items[at].call == call ? &launches->items[at] : NULL;
}

/* -- Launches -------------------------------------------------------------------------------------------- */

/* HTA counts no launch as short whose call took longer: something else was wrong with it. */
#define HTA_CALL_MAX_NS 50000

enum { DELAY, WORK_COUNT, CALL, WORK, LATENCY, SHORT, _VALUE_MAX };

static const struct report_column launches_columns[] = {
    {"name", UNIT_TEXT, "name of the launch call", .figure = {FIGURE_TEXT}},
    {"count", UNIT_COUNT, "number of calls that launched GPU events", .figure = {FIGURE_COUNT}},
    {"work", UNIT_COUNT, "number of kernels, copies and memsets launched",
     .figure = {FIGURE_SUM, WORK_COUNT}},
    {"call_ns", UNIT_NS, "total host time in the calls", IMPORTANCE_HIGH, .figure = {FIGURE_SUM, CALL}},
    {"mean_call_ns", UNIT_NS, "mean duration of a call", .figure = {FIGURE_MEAN, CALL}},
    {"work_ns", UNIT_NS, "total duration of the launched events", IMPORTANCE_EXTRA,
     .figure = {FIGURE_SUM, WORK}},
    {"mean_delay_ns", UNIT_NS,
     "mean time from the end of the call to the start of its first event, at least 0", IMPORTANCE_HIGH,
     .figure = {FIGURE_MEAN, DELAY}},
    {"p50_delay_ns", UNIT_NS, "median delay", IMPORTANCE_EXTRA, .figure = {FIGURE_P50, DELAY}},
    {"p99_delay_ns", UNIT_NS, "99th percentile of the delay", .figure = {FIGURE_P99, DELAY}},
    {"max_delay_ns", UNIT_NS, "longest delay", IMPORTANCE_EXTRA, .figure = {FIGURE_MAX, DELAY}},
    {"mean_latency_ns", UNIT_NS, "mean time from the start of the call to the start of its first event",
     IMPORTANCE_EXTRA, .figure = {FIGURE_MEAN, LATENCY}},
    {"short_kernels", UNIT_COUNT, "number of calls that took longer than everything they launched",
     .figure = {FIGURE_SUM, SHORT}},
    {"short_share", UNIT_SHARE, "short_kernels divided by count", IMPORTANCE_EXTRA,
     .figure = {FIGURE_PART, SHORT}},
};

static int launches_gather(struct gathering *g)
{
    _cleanup_(launches_done) struct launches launches = {0};
    int r = launches_read(g->analysis, g->rank, &launches);

    for (size_t i = 0; i < launches.n && r >= 0; i++) {
        const struct launch *l = &launches.items[i];
        int64_t call = l->end - l->ts,
                values[] = {[DELAY] = MAX(l->begin - l->end, 0),
                            [WORK_COUNT] = (int64_t)l->count,
                            [CALL] = call,
                            [WORK] = l->work,
                            [LATENCY] = l->begin - l->ts,
                            [SHORT] = l->work < call && (!g->analysis->hta || call <= HTA_CALL_MAX_NS)};
        r = gathering_add(g, (struct group_key){{gathering_text(g, l->name)}}, values, l->call);
    }
    return r;
}

static const struct aggregation launches_by_name = {.n_values = _VALUE_MAX, .gather = launches_gather};

const struct report report_launches = {
    .name = "launches",
    .title = "launch calls: duration, delay, kernels shorter than their launch",
    .method = "Calls and GPU events are matched by correlation id. A call that launches many events (a "
              "graph) counts once: its delay is that of its first event, and it is short if all of its "
              "events are. With --hta after Holistic Trace Analysis: each event separately, for "
              "cudaLaunchKernel, cudaLaunchKernelExC, cudaMemcpyAsync and cudaMemsetAsync only, short only "
              "if the call took at most 50 us.",
    .needs = NEEDS_GPU,
    .sort_by = "call_ns",
    REPORT_COLUMNS(launches),
    .aggregation = &launches_by_name,
};

/* -- Launch bound ---------------------------------------------------------------------------------------- */

/* A GPU that waits longer waits for something else than launches, which the report gaps shows. */
#define WAIT_MAX_NS 1000000
/* Fewer are no stretch. */
#define LATE_MIN 16

#define LAUNCH_BOUND_COLUMNS(C)                                                                              \
    RANK_COLUMN(C)                                                                                           \
    C(device, ID, "GPU number")                                                                              \
    C(start_ns, NS, "start, relative to the first slice of the rank")                                        \
    C(dur_ns, NS, "duration")                                                                                \
    C(work, COUNT, "number of kernels, copies and memsets in the interval")                                  \
    C(late, COUNT, "number of events that the idle GPU waited for")                                          \
    C(busy_ns, NS, "time with GPU activity")                                                                 \
    C(idle_ns, NS, "time waiting for launches")                                                              \
    C(idle_share, SHARE, "idle_ns divided by dur_ns")
REPORT_ROW(launch_bound, LAUNCH_BOUND_COLUMNS);

struct stretch {
    int64_t from, to, idle;
    uint64_t work, late;
};

static void end_stretch(struct analysis *a, size_t rank, int64_t device, const struct stretch *s,
                        struct report_rows *ret)
{
    int64_t dur = s->to - s->from;

    if (s->late < LATE_MIN)
        return;
    EMIT_ROW(launch_bound, ret, .rank = a->ranks[rank].number, .device = device,
             .start_ns = analysis_since_first(a, rank, s->from), .dur_ns = dur, .work = (int64_t)s->work,
             .late = (int64_t)s->late, .busy_ns = dur - s->idle, .idle_ns = s->idle,
             .idle_share = row_share(s->idle, dur));
}

/* Whether the call that launched it returned only when the GPU had nothing left to do. What a graph brings
 * after its first work was there already. */
static bool is_late(const struct launches *launches, const struct gpu_event *e, int64_t idle_since)
{
    const struct launch *l = launches_find(launches, gpu_event_launch(e));

    return l && e->ts == l->begin && e->ts - idle_since <= WAIT_MAX_NS && l->end > idle_since;
}

/* An event that begins while another is running is no evidence; work that had been queued and still was waited
 * for ends a stretch. */
static void add_device(struct analysis *a, size_t rank, const struct launches *launches,
                       const struct gpu_work *work, struct report_rows *ret)
{
    struct stretch s = {.from = work->events[0].ts, .to = work->events[0].end, .work = 1};

    for (size_t i = 1; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        if (e->ts > s.to && is_late(launches, e, s.to)) {
            s.idle += e->ts - s.to;
            s.late++;
        } else if (e->ts > s.to) {
            end_stretch(a, rank, e->device, &s, ret);
            s = (struct stretch){.from = e->ts, .to = e->end};
        }
        s.work++;
        s.to = MAX(s.to, e->end);
    }
    end_stretch(a, rank, work->events[0].device, &s, ret);
}

static int launch_bound_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(launches_done) struct launches launches = {0};
    _cleanup_(gpu_parts_done) struct gpu_parts devices = {0};
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = launches_read(a, rank, &launches);
    if (r >= 0)
        r = gpu_parts_read(work, BY_DEVICE, &devices);
    if (r < 0)
        return r;
    for (size_t i = 0; i < devices.n; i++)
        add_device(a, rank, &launches, &devices.items[i].work, ret);
    return 0;
}

const struct report report_launch_bound = {
    .name = "launch_bound",
    .title = "intervals in which the GPU waits for kernel launches",
    .method = "An event is late if the GPU was idle and the call that launched it returned only after the "
              "previous event had ended. An interval contains at least 16 late events, and the GPU waits in"
              " it for nothing else, and never longer than 1 ms.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    .sort_by = "idle_ns",
    REPORT_COLUMNS(launch_bound),
    .make_rank = launch_bound_make_rank,
};

/* -- Queue ----------------------------------------------------------------------------------------------- */

static int queue_compare(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

static void emit_point(struct queue *q, size_t first, struct queue_point next, bool each)
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
static size_t find_changes(const struct analysis *a, const struct columns *c, const struct slice_table *t,
                           const struct gpu_part *s, int64_t *launched, int64_t *begun)
{
    bool is_ordered = true;
    size_t n = 0;

    for (size_t i = 0; i < s->work.n; i++) {
        const struct gpu_event *e = &s->work.events[i];
        int64_t ts = slice_ts(t, gpu_event_launch(e));
        if (ts == COLUMN_NULL ||
            (a->hta && !hta_is_queued(columns_text(c, slice_name(t, gpu_event_launch(e))))))
            continue;
        is_ordered = is_ordered && (n == 0 || launched[n - 1] <= ts);
        launched[n] = ts;
        begun[n++] = e->ts;
    }
    if (!is_ordered)
        qsort(launched, n, sizeof(*launched), queue_compare);
    return n;
}

/* What is launched at the moment at which something begins is in the queue first. */
static void queue_add_stream(const struct analysis *a, const struct columns *c, const struct slice_table *t,
                             const struct gpu_part *s, int64_t *launched, int64_t *begun, struct queue *ret)
{
    size_t n = find_changes(a, c, t, s, launched, begun), first = ret->n, i = 0, k = 0;

    while (i < n || k < n) {
        bool is_launch = i < n && (k == n || launched[i] <= begun[k]);
        emit_point(ret, first,
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
    _cleanup_(freep) int64_t *launched = malloc((n + 1) * sizeof(*launched)),
                             *begun = malloc((n + 1) * sizeof(*begun));
    const struct slice_table *slices;
    int r = analysis_slices(a, rank, &slices);
    *ret = (struct queue){.points = malloc((2 * n + 1) * sizeof(*ret->points))};
    if (r < 0 || !ret->points || !launched || !begun)
        return -ENOMEM;
    for (size_t i = 0; i < streams->n; i++)
        queue_add_stream(a, a->ranks[rank].columns, slices, &streams->items[i], launched, begun, ret);
    return 0;
}

void queue_done(struct queue *queue)
{
    free(queue->points);
    *queue = (struct queue){0};
}

/* -- The report ---------------------------------------------------------------------------------------- */

#define QUEUE_COLUMNS(C)                                                                                     \
    RANK_COLUMN(C)                                                                                           \
    C(device, ID, "GPU number")                                                                              \
    C(stream, ID, "stream number")                                                                           \
    C(start_ns, NS, "start of the interval, relative to the first slice of the rank")                        \
    C(length, COUNT, "number of launched kernels, copies and memsets that have not started")
REPORT_ROW(queue, QUEUE_COLUMNS);

static int queue_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(gpu_parts_done) struct gpu_parts streams = {0};
    _cleanup_(queue_done) struct queue q = {0};
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_parts_read(work, BY_STREAM, &streams);
    if (r >= 0)
        r = queue_read(a, rank, &streams, &q);
    for (size_t i = 0; i < q.n; i++) {
        EMIT_ROW(queue, ret, .rank = a->ranks[rank].number, .device = q.points[i].device,
                 .stream = q.points[i].stream, .start_ns = analysis_since_first(a, rank, q.points[i].ts),
                 .length = q.points[i].length);
    }
    return r;
}

const struct report report_queue = {
    .name = "queue",
    .title = "launched events that have not started, over time, per stream",
    .method = "A launch call adds its events when it begins, a graph all of its nodes; each event leaves "
              "the queue when it starts. In order of time: a row is the length from its start to that of "
              "the next row. With --hta after Holistic Trace Analysis, which leaves graphs out.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    REPORT_COLUMNS(queue),
    .make_rank = queue_make_rank,
};
