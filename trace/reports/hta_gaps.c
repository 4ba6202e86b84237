/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/hta_gaps.h"

#include "trace/columns/schema.h"
#include <errno.h>

/* Its consecutive_kernel_delay: 30, which its documentation calls nanoseconds and its code compares with
 * microseconds. */
#define KERNEL_WAIT_NS 30000

enum cause { HOST_WAIT, KERNEL_WAIT, OTHER, _CAUSE_MAX };

static const char *const causes[_CAUSE_MAX] = {"host_wait", "kernel_wait", "other"};

struct sum {
    bool seen;
    int64_t count, sum;
};

/* Synchronisation has a stream too, but is no work. */
static bool is_kernel(const struct columns *c, const struct gpu_event *e)
{
    struct text category = columns_text(c, columns_get(c, COL_slice_category, e->slice));

    return category_is_gpu_work(category.p, category.size) || text_is(category, "mtia_ccp_events");
}

static int compare(const void *x, const void *y)
{
    const struct gpu_event *a = x, *b = y;

    if (a->stream != b->stream)
        return (a->stream > b->stream) - (a->stream < b->stream);
    if (a->ts != b->ts)
        return (a->ts > b->ts) - (a->ts < b->ts);
    return (a->slice > b->slice) - (a->slice < b->slice);
}

static enum cause cause_of(const struct columns *c, const struct gpu_event *before, const struct gpu_event *e)
{
    int64_t launched = e->launch == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_slice_ts, e->launch);

    return launched != COLUMN_NULL && launched > before->end ? HOST_WAIT
           : e->ts - before->end < KERNEL_WAIT_NS            ? KERNEL_WAIT
                                                             : OTHER;
}

static void add_stream(const struct analysis *a, size_t rank, const struct gpu_event *events, size_t n,
                       struct report_rows *ret)
{
    struct sum sums[_CAUSE_MAX] = {[OTHER] = {.seen = true}}; /* HTA's first of a stream, without a gap */

    for (size_t i = 1; i < n; i++) {
        struct sum *s = &sums[cause_of(a->ranks[rank].columns, &events[i - 1], &events[i])];
        s->seen = true;
        s->count++;
        s->sum = add_time(s->sum, events[i].ts - events[i - 1].end);
    }
    for (enum cause cause = 0; cause < _CAUSE_MAX; cause++) {
        if (!sums[cause].seen)
            continue;
        put_int(ret, a->ranks[rank].number);
        put_int(ret, events[0].stream);
        put_str(ret, causes[cause]);
        put_int(ret, sums[cause].count);
        put_int(ret, sums[cause].sum);
    }
}

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    const struct gpu_work *work;
    size_t n = 0;
    int r = analysis_gpu(a, rank, &work);

    if (r < 0)
        return r;
    _cleanup_(freep) struct gpu_event *events = malloc((work->n + 1) * sizeof(*events));
    if (!events)
        return -ENOMEM;
    for (size_t i = 0; i < work->n; i++)
        if (is_kernel(a->ranks[rank].columns, &work->events[i]))
            events[n++] = work->events[i];
    qsort(events, n, sizeof(*events), compare);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && events[to].stream == events[from].stream;)
            to++;
        add_stream(a, rank, &events[from], to - from, ret);
    }
    return 0;
}

int hta_gaps(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, ret);
    return r;
}
