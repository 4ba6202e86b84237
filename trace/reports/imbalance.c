/* SPDX-License-Identifier: Apache-2.0 */
/* How unevenly ranks share the work: each kind of kernel on the rank that has most of it beside the average.
 */
#include "trace/reports/reports.h"

#include <errno.h>

static const struct report_column columns[] = {
    {"category", UNIT_TEXT, "kind of kernel: moe for experts, gemm and attention for shards of tensors"},
    {"mean_ns", UNIT_NS, "time of a rank in it, on average"},
    {"min_ns", UNIT_NS, "of the rank with least"},
    {"max_ns", UNIT_NS, "of the rank with most"},
    {"factor", UNIT_FACTOR, "max_ns by mean_ns: 1 is even"},
    {"cost_ns", UNIT_NS, "max_ns less mean_ns: what an even share would save"},
    {"min_rank", UNIT_ID, "the rank with least"},
    {"max_rank", UNIT_ID, "the rank with most"},
};

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(freep) int64_t *sums = calloc(a->n, _KERNEL_CLASS_MAX * sizeof(*sums));

    if (!sums)
        return -ENOMEM;
    for (size_t rank = 0; rank < a->n; rank++) {
        const struct gpu_work *work;
        int r = analysis_gpu(a, rank, &work);
        if (r < 0)
            return r;
        for (size_t i = 0; i < work->n; i++)
            sums[rank * _KERNEL_CLASS_MAX + work->events[i].class] +=
                work->events[i].end - work->events[i].ts;
    }
    for (size_t class = 0; class < _KERNEL_CLASS_MAX; class ++) {
        size_t least = 0, most = 0;
        int64_t sum = 0;
        for (size_t rank = 0; rank < a->n; rank++) {
            int64_t ns = sums[rank * _KERNEL_CLASS_MAX + class];
            sum += ns;
            least = ns < sums[least * _KERNEL_CLASS_MAX + class] ? rank : least;
            most = ns > sums[most * _KERNEL_CLASS_MAX + class] ? rank : most;
        }
        // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): it is made of ranks, NEEDS_RANKS says
        int64_t mean = sum / (int64_t)a->n, max = sums[most * _KERNEL_CLASS_MAX + class];
        if (max == 0)
            continue;
        put_str(ret, kernel_class_name((enum kernel_class) class));
        put_int(ret, mean);
        put_int(ret, sums[least * _KERNEL_CLASS_MAX + class]);
        put_int(ret, max);
        put_share(ret, max, mean);
        put_int(ret, max - mean);
        put_int(ret, a->ranks[least].number);
        put_int(ret, a->ranks[most].number);
    }
    return report_rows_sort(ret, 5, true);
}

const struct report report_imbalance = {
    .name = "imbalance",
    .title = "how unevenly ranks share each kind of work",
    .how = "Sums of the durations of each kind of kernel for each rank. Communication is uneven where ranks "
           "wait: see stragglers.",
    .needs = NEEDS_GPU | NEEDS_RANKS,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
