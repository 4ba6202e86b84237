/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/hta.h"

#include "trace/columns/schema.h"
#include "trace/reports/host.h"
#include "trace/reports/kernel_name.h"
#include <errno.h>

/* -- Hta ------------------------------------------------------------------------------------------------- */

/* HTA's regular expressions, as patterns: the first that matches counts. */
static const struct {
    const char *glob;
    enum gpu_kind kind;
} rules[] = {
    {"nccl*", GPU_COMMUNICATION},
    {"hip*", GPU_COMMUNICATION},
    {"hccl*", GPU_COMMUNICATION},
    {"*ncclKernel*", GPU_COMMUNICATION},
    {"Memcpy*", GPU_MEMORY},
    {"Memset*", GPU_MEMORY},
    {"dma*", GPU_MEMORY},
    {"*Memcpy*", _GPU_KIND_MAX},
    {"*Memset*", _GPU_KIND_MAX},
    {"*dma*", _GPU_KIND_MAX},
    {"*Sync*", _GPU_KIND_MAX},
    {"Stream Wait Event*", _GPU_KIND_MAX},
    {"cuda*LaunchKernel*", _GPU_KIND_MAX},
    {"runFunction*", _GPU_KIND_MAX},
    {"job_exe*", _GPU_KIND_MAX},
    {"packet*", _GPU_KIND_MAX},
    {"pe_exe*", _GPU_KIND_MAX},
    {"cpum_exe_subgraph*", _GPU_KIND_MAX},
    {"collective_subgraph_execution*", _GPU_KIND_MAX},
};

enum gpu_kind hta_kind(struct text name)
{
    char text[KERNEL_PARTS_MAX];

    snprintf(text, sizeof(text), "%.*s", (int)MIN(name.size, sizeof(text) - 1), name.p);
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (glob_matches(rules[i].glob, text))
            return rules[i].kind;
    return GPU_COMPUTE;
}

const char *hta_kind_name(enum gpu_kind kind)
{
    static const char *const names[_GPU_KIND_MAX + 1] = {
        [GPU_COMPUTE] = "COMPUTATION",
        [GPU_COMMUNICATION] = "COMMUNICATION",
        [GPU_MEMORY] = "MEMORY",
        [_GPU_KIND_MAX] = "OTHER",
    };

    return names[kind];
}

bool hta_is_gpu(int64_t category, int64_t stream)
{
    return category != COLUMN_NULL && stream != COLUMN_NULL && stream != -1;
}

/* -- Calls --------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool in_statistics; /* all of them fill the queue */
} calls[] = {
    {"cudaLaunchKernel", true},
    {"cudaLaunchKernelExC", true},
    {"cudaMemcpyAsync", true},
    {"cudaMemsetAsync", true},
    {"runFunction - job_prep_and_submit_for_execution", true},
    {"cuLaunchKernel", false},
    {"cuLaunchKernelEx", false},
    {"hipLaunchKernel", false},
    {"hipExtModuleLaunchKernel", false},
    {"hipMemcpyAsync", false},
    {"hipMemsetAsync", false},
    {"hipMemcpyWithStream", false},
};

static bool is_call(struct text name, bool *ret_in_statistics)
{
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
        if (text_is(name, calls[i].name)) {
            *ret_in_statistics = calls[i].in_statistics;
            return true;
        }
    return false;
}

bool hta_is_launch(struct text name)
{
    bool in_statistics = false;

    return is_call(name, &in_statistics) && in_statistics;
}

bool hta_is_queued(struct text name)
{
    bool in_statistics;

    return is_call(name, &in_statistics);
}

/* -- Steps --------------------------------------------------------------------------------------------- */

static bool is_step(struct text name)
{
    static const char prefix[] = "ProfilerStep#";
    size_t n = sizeof(prefix) - 1;

    return name.size > n && memcmp(name.p, prefix, n) == 0 && name.p[n] >= '0' && name.p[n] <= '9';
}

/* Whether the ranks have steps of two names between them. */
static bool have_steps(const struct analysis *a)
{
    struct text first = {NULL, 0};

    for (size_t rank = 0; rank < a->n; rank++) {
        const struct columns *c = a->ranks[rank].columns;
        for (uint64_t group = 0, n = columns_rows(c, TABLE_name); group < n; group++) {
            struct text name = columns_text(c, columns_get(c, COL_name_name, group));
            if (!is_step(name))
                continue;
            if (first.p && !text_equal(first, name))
                return true;
            first = name;
        }
    }
    return false;
}

static int64_t find_last_step(const struct columns *c)
{
    int64_t last = INT64_MIN;

    for (uint64_t group = 0, n = columns_rows(c, TABLE_name); group < n; group++) {
        if (!is_step(columns_text(c, columns_get(c, COL_name_name, group))) ||
            columns_get(c, COL_name_category, group) == COLUMN_NULL)
            continue;
        struct name_rows positions = name_rows_of(c, group);
        for (uint64_t i = positions.first; i < positions.end; i++) {
            int64_t slice = columns_get(c, COL_by_name_slice, i);
            if (slice == COLUMN_NULL)
                break;
            last = MAX(last, columns_get(c, COL_slice_ts, (uint64_t)slice));
        }
    }
    return last;
}

/* The stamp that HTA's filter ends at; INT64_MAX where there is none. */
static int64_t hta_last_step(struct analysis *a, size_t rank)
{
    if (a->hta_steps == HTA_STEPS_UNKNOWN)
        a->hta_steps = have_steps(a) ? HTA_STEPS_YES : HTA_STEPS_NO;
    return a->hta_steps == HTA_STEPS_YES ? find_last_step(a->ranks[rank].columns) : INT64_MAX;
}

/* HTA has no such bound: a trace whose correlations are all one would fill the memory. */
#define COPIES_MAX 16

/* -- The filter ---------------------------------------------------------------------------------------- */

static size_t hta_count_of(const struct correlations *in, int64_t correlation)
{
    size_t first = correlations_find(in, correlation), n = 0;

    while (n < COPIES_MAX && first + n < in->n && in->items[first + n].number == correlation)
        n++;
    return n;
}

int hta_filter_steps(struct analysis *a, size_t rank, struct gpu_work *work)
{
    _cleanup_(correlations_done) struct correlations launched = {0};
    int64_t before = hta_last_step(a, rank);

    if (before == INT64_MAX)
        return 0;
    _cleanup_(gpu_work_done) struct gpu_work all = *work;
    int r = gpu_work_init(work);
    if (r >= 0)
        r = correlations_read(a->ranks[rank].columns, before, &launched);
    for (size_t i = 0; i < all.n && r >= 0; i++) {
        int64_t correlation = columns_get(a->ranks[rank].columns, COL_gpu_correlation, all.events[i].row);
        size_t n = correlation < 0 ? 0 : hta_count_of(&launched, correlation);
        for (; n > 0 && r >= 0; n--) {
            struct gpu_event *copy = gpu_work_add(work);
            if (copy)
                *copy = all.events[i];
            else
                r = -ENOMEM;
        }
    }
    return r;
}

/* -- Hta gaps -------------------------------------------------------------------------------------------- */

struct hta_gaps_sum {
    bool seen;
    int64_t count, sum;
};

/* Synchronisation has a stream too, but is no work. */
static bool is_kernel(const struct columns *c, const struct gpu_event *e)
{
    struct text category = columns_text(c, columns_get(c, COL_slice_category, e->slice));

    return category_is_gpu_work(category.p, category.size) || text_is(category, "mtia_ccp_events");
}

static int hta_gaps_compare(const void *x, const void *y)
{
    const struct gpu_event *a = x, *b = y;

    if (a->stream != b->stream)
        return (a->stream > b->stream) - (a->stream < b->stream);
    if (a->ts != b->ts)
        return (a->ts > b->ts) - (a->ts < b->ts);
    return (a->slice > b->slice) - (a->slice < b->slice);
}

static enum hta_gap_class hta_gaps_cause_of(const struct columns *c, const struct gpu_event *before,
                                            const struct gpu_event *e)
{
    int64_t launched =
        gpu_event_launch(e) == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_slice_ts, gpu_event_launch(e));

    return launched != COLUMN_NULL && launched > before->end ? GAP_HOST_WAIT
           : e->ts - before->end < GAP_KERNEL_WAIT_NS        ? GAP_KERNEL_WAIT
                                                             : GAP_OTHER;
}

static void hta_gaps_add_stream(const struct analysis *a, size_t rank, const struct gpu_event *events,
                                size_t n, hta_emit emit, struct report_rows *ret)
{
    struct hta_gaps_sum sums[_GAP_CAUSE_MAX] = {
        [GAP_OTHER] = {.seen = true}}; /* HTA's first of a stream, without a gap */

    for (size_t i = 1; i < n; i++) {
        struct hta_gaps_sum *s = &sums[hta_gaps_cause_of(a->ranks[rank].columns, &events[i - 1], &events[i])];
        s->seen = true;
        s->count++;
        s->sum = add_time(s->sum, events[i].ts - events[i - 1].end);
    }
    for (enum hta_gap_class cause = 0; cause < _GAP_CAUSE_MAX; cause++)
        if (sums[cause].seen)
            emit(&a->ranks[rank], events[0].stream, cause, sums[cause].count, sums[cause].sum, ret);
}

int hta_gaps(struct analysis *a, size_t rank, hta_emit emit, struct report_rows *ret)
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
    qsort(events, n, sizeof(*events), hta_gaps_compare);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && events[to].stream == events[from].stream;)
            to++;
        hta_gaps_add_stream(a, rank, &events[from], to - from, emit, ret);
    }
    return 0;
}
