/* SPDX-License-Identifier: Apache-2.0 */
/* How a GPU's time was spent: at work, idle, computing. */
#include "trace/reports/reports.h"

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"span_ns", UNIT_NS, "from the first to the end of the last of the GPU's work"},
    {"busy_ns", UNIT_NS, "with anything at work on any stream", IMPORTANCE_HIGH},
    {"idle_ns", UNIT_NS, "with nothing at work", IMPORTANCE_HIGH},
    {"compute_ns", UNIT_NS, "with a computing kernel at work"},
    {"non_compute_ns", UNIT_NS, "busy with communication or copies alone"},
    {"busy_share", UNIT_SHARE, "busy_ns of span_ns", IMPORTANCE_HIGH},
    {"compute_share", UNIT_SHARE, "compute_ns of span_ns", IMPORTANCE_EXTRA},
    {"idle_share", UNIT_SHARE, "idle_ns of span_ns", IMPORTANCE_EXTRA},
};

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(intervals_done) struct intervals busy = {0}, compute = {0};
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_work_busy(work, GPU_ALL, &busy);
    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_COMPUTE, &compute);
    if (r < 0 || work->n == 0)
        return r;
    struct interval span = gpu_work_span(work);
    int64_t all = span.to - span.from, at_work = intervals_length(&busy),
            computing = intervals_length(&compute);
    put_int(ret, a->ranks[rank].number);
    put_int(ret, all);
    put_int(ret, at_work);
    put_int(ret, all - at_work);
    put_int(ret, computing);
    put_int(ret, at_work - computing);
    put_share(ret, at_work, all);
    put_share(ret, computing, all);
    put_share(ret, all - at_work, all);
    return 0;
}

const struct report report_temporal = {
    .name = "temporal",
    .title = "busy, idle and computing time of each GPU",
    .how = "Unions over all streams, after Holistic Trace Analysis' temporal breakdown: what computes while "
           "something is communicated counts as computing.",
    .needs = NEEDS_GPU,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make_rank = add_rank,
};
