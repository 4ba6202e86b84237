/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/gap.h"

#include "base/array.h"
#include "trace/reports/cover.h"
#include "trace/reports/gap_culprit.h"
#include <errno.h>

static const char *const causes[_GAP_CAUSE_MAX] = {
#define C(identifier, name) [GAP_##identifier] = name,
    GAP_CAUSES(C)
#undef C
};

const char *gap_cause_name(enum gap_cause cause)
{
    return causes[cause];
}

/* The latest end of a stream's work so far. */
struct stream_end {
    int64_t end;
    uint64_t slice;
    bool any;
};

static int add(struct gaps *gaps, struct gap gap)
{
    if (!ARRAY_RESERVE(gaps->items, gaps->cap, gaps->n + 1))
        return -ENOMEM;
    gaps->items[gaps->n++] = gap;
    return 0;
}

static enum gap_cause cause_of(const struct columns *c, const struct gap *gap)
{
    int64_t launched = gap->launch == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_slice_ts, gap->launch);

    return launched > gap->from                       ? GAP_HOST_WAIT
           : gap->to - gap->from < GAP_KERNEL_WAIT_NS ? GAP_KERNEL_WAIT
                                                      : GAP_OTHER;
}

static int find(const struct columns *c, const struct gpu_work *work, const struct intervals *times,
                struct stream_set *streams, struct gaps *ret)
{
    _cleanup_(intervals_done) struct intervals at_work = {0};
    _cleanup_(cover_done) struct cover busy = {0};
    _cleanup_(freep) struct stream_end *ends = NULL;
    size_t n_ends = 0;
    int r = gpu_work_busy(work, GPU_ALL, &at_work);

    if (r >= 0)
        r = cover_new(&at_work, &busy);

    for (size_t i = 0; i < work->n && r >= 0; i++) {
        const struct gpu_event *e = &work->events[i];
        int64_t stream = stream_set_number(streams, e->device, e->stream);
        if (stream < 0)
            return (int)stream;
        if (!ARRAY_RESERVE_ZEROED(ends, n_ends, streams->n))
            return -ENOMEM;
        struct stream_end *end = &ends[stream];
        if (end->any && e->ts > end->end && intervals_find(times, e->ts)) {
            struct gap gap = {.from = end->end,
                              .to = e->ts,
                              .before = end->slice,
                              .after = e->slice,
                              .launch = e->launch,
                              .stream = (uint32_t)stream,
                              .culprit = SLICE_NONE};
            gap.idle = gap.to - gap.from - cover_length(&busy, gap.from, gap.to);
            gap.cause = cause_of(c, &gap);
            r = add(ret, gap);
        }
        if (!end->any || e->end > end->end)
            *end = (struct stream_end){e->end, e->slice, true};
    }
    return r;
}

int gaps_find(struct analysis *a, size_t rank, struct gaps *ret)
{
    _cleanup_(stream_set_done) struct stream_set streams = {0};
    const struct columns *c = a->ranks[rank].columns;
    const struct gpu_work *work;
    const struct intervals *times;
    int r = analysis_all_gpu(a, rank, &work);

    *ret = (struct gaps){0};
    if (r >= 0)
        r = analysis_times(a, rank, &times);
    if (r >= 0)
        r = find(c, work, times, &streams, ret);
    if (r >= 0)
        r = gap_culprits(c, ret);
    ret->streams = TAKE_PTR(streams.items);
    if (r < 0)
        gaps_done(ret);
    return r;
}

void gaps_done(struct gaps *gaps)
{
    free(gaps->items);
    free(gaps->streams);
    *gaps = (struct gaps){0};
}
