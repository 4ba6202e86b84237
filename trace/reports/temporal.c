/* SPDX-License-Identifier: Apache-2.0 */
/* How a GPU's time was spent: at work, idle, computing. */
#include "trace/reports/reports.h"

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"span_ns", UNIT_NS, "from the first to the end of the last of the GPU's work"},
    {"busy_ns", UNIT_NS, "with anything at work on any stream"},
    {"idle_ns", UNIT_NS, "with nothing at work"},
    {"compute_ns", UNIT_NS, "with a computing kernel at work"},
    {"non_compute_ns", UNIT_NS, "busy with communication or copies alone"},
    {"busy_share", UNIT_SHARE, "busy_ns of span_ns"},
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
    if (r < 0 || busy.n == 0)
        return r;
    int64_t span = busy.items[busy.n - 1].to - busy.items[0].from, at_work = intervals_length(&busy),
            computing = intervals_length(&compute);
    put_int(ret, a->ranks[rank].number);
    put_int(ret, span);
    put_int(ret, at_work);
    put_int(ret, span - at_work);
    put_int(ret, computing);
    put_int(ret, at_work - computing);
    put_share(ret, at_work, span);
    return 0;
}

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, ret);
    return r;
}

const struct report report_temporal = {
    .name = "temporal",
    .title = "busy, idle and computing time of each GPU",
    .how = "Unions over all streams, after Holistic Trace Analysis' temporal breakdown: what computes while "
           "something is "
           "communicated counts as computing.",
    .needs = NEEDS_GPU,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
