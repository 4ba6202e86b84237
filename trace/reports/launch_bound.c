/* SPDX-License-Identifier: Apache-2.0 */
/* Stretches in which the GPU waits for one launch after the other. */
#include "trace/reports/gpu_parts.h"
#include "trace/reports/launch.h"
#include "trace/reports/reports.h"

/* A GPU that waits longer waits for something else than launches: the report gaps says for what. */
#define WAIT_MAX_NS 1000000
/* Fewer are no stretch. */
#define LATE_MIN 16

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"device", UNIT_ID, "which GPU"},
    {"start_ns", UNIT_NS, "when it begins, counted from the rank's first slice"},
    {"dur_ns", UNIT_NS, "how long it lasts"},
    {"work", UNIT_COUNT, "kernels, copies and memsets in it"},
    {"late", UNIT_COUNT, "those that the idle GPU waited for"},
    {"busy_ns", UNIT_NS, "with anything at work"},
    {"idle_ns", UNIT_NS, "waiting"},
    {"idle_share", UNIT_SHARE, "idle_ns of dur_ns"},
};

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
    put_int(ret, a->ranks[rank].number);
    put_int(ret, device);
    put_int(ret, analysis_since_first(a, rank, s->from));
    put_int(ret, dur);
    put_int(ret, (int64_t)s->work);
    put_int(ret, (int64_t)s->late);
    put_int(ret, dur - s->idle);
    put_int(ret, s->idle);
    put_share(ret, s->idle, dur);
}

static int compare_call(const void *key, const void *item)
{
    const uint64_t *call = key;
    const struct launch *l = item;

    return (*call > l->call) - (*call < l->call);
}

/* Whether the call that launched it returned only when the GPU had nothing left to do. What a graph brings
 * after its first work was there already. */
static bool is_late(const struct launches *launches, const struct gpu_event *e, int64_t idle_since)
{
    const struct launch *l =
        bsearch(&e->launch, launches->items, launches->n, sizeof(*launches->items), compare_call);

    return l && e->ts == l->begin && e->ts - idle_since <= WAIT_MAX_NS && l->end > idle_since;
}

/* Work that begins while other is still running says nothing; work that had been queued and still was waited
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

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
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

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, ret);
    return r < 0 ? r : report_rows_sort(ret, 7, true);
}

const struct report report_launch_bound = {
    .name = "launch_bound",
    .title = "stretches in which the GPU waits for one launch after the other",
    .how = "Work is late where the GPU was idle and the call that launched it returned only after the work "
           "before it had ended. A stretch is work of which 16 or more is late, and in which the GPU waits "
           "for nothing else, and never longer than 1 ms.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
