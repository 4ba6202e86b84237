/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the communication is hidden behind computation. */
#include "trace/reports/reports.h"

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"comm_ns", UNIT_NS, "with communication at work"},
    {"compute_ns", UNIT_NS, "with a computing kernel at work"},
    {"overlapped_ns", UNIT_NS, "with both at work"},
    {"exposed_ns", UNIT_NS, "communication with no computation at work"},
    {"overlapped_share", UNIT_SHARE, "overlapped_ns of comm_ns"},
    {"exposed_share", UNIT_SHARE, "exposed_ns of the span of the GPU's work"},
    {"memory_ns", UNIT_NS, "with a copy or memset at work", IMPORTANCE_EXTRA},
    {"exposed_memory_ns", UNIT_NS, "copies and memsets with neither computation nor communication at work",
     true},
};

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(intervals_done) struct intervals comm = {0}, compute = {0}, memory = {0}, kernels = {0};
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_COMMUNICATION, &comm);
    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_COMPUTE, &compute);
    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_MEMORY, &memory);
    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_COMMUNICATION | 1 << GPU_COMPUTE, &kernels);
    if (r < 0 || work->n == 0)
        return r;
    struct interval span = gpu_work_span(work);
    int64_t communicating = intervals_length(&comm), both = intervals_common(&comm, &compute);
    put_int(ret, a->ranks[rank].number);
    put_int(ret, communicating);
    put_int(ret, intervals_length(&compute));
    put_int(ret, both);
    put_int(ret, communicating - both);
    put_share(ret, both, communicating);
    put_share(ret, communicating - both, span.to - span.from);
    put_int(ret, intervals_length(&memory));
    put_int(ret, intervals_length(&memory) - intervals_common(&memory, &kernels));
    return 0;
}

const struct report report_overlap = {
    .name = "overlap",
    .title = "communication and copies, hidden behind computation or exposed",
    .how = "Unions over all streams, after Holistic Trace Analysis (overlapped_share) and TraceLens "
           "(exposed_ns, exposed_memory_ns): compute_ns + exposed_ns + exposed_memory_ns is the busy time. "
           "What communicates is told by patterns of names that know more than nccl*.",
    .needs = NEEDS_GPU,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make_rank = add_rank,
};
