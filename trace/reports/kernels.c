/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's work by name, over all ranks that are looked at. */
#include "trace/reports/hta.h"
#include "trace/reports/name_sums.h"
#include "trace/reports/reports.h"

static const struct report_column columns[] = {
    {"name", UNIT_TEXT, "of the kernel, copy or memset"},
    {"category", UNIT_TEXT, "what it does, by its name"},
    {"count", UNIT_COUNT, "how often"},
    {"sum_ns", UNIT_NS, "time of all of them", IMPORTANCE_HIGH},
    {"mean_ns", UNIT_NS, "of one", IMPORTANCE_LOW},
    {"min_ns", UNIT_NS, "of the shortest", IMPORTANCE_EXTRA},
    {"max_ns", UNIT_NS, "of the longest", IMPORTANCE_EXTRA},
    {"std_ns", UNIT_NS, "standard deviation (n - 1), 0 of a single one", IMPORTANCE_EXTRA},
    {"p50_ns", UNIT_NS, "half of them were as short", IMPORTANCE_EXTRA},
    {"p99_ns", UNIT_NS, "99 of 100 were as short", IMPORTANCE_LOW},
    {"share", UNIT_SHARE, "of the sum over all names", IMPORTANCE_HIGH},
    {"min_rank", UNIT_ID, "the shortest one's rank", IMPORTANCE_EXTRA},
    {"min_slice", UNIT_ID, "the shortest one's slice in it", IMPORTANCE_EXTRA},
    {"min_start_ns", UNIT_NS, "when it began, counted from its rank's first slice", IMPORTANCE_EXTRA},
    {"max_rank", UNIT_ID, "the longest one's rank", IMPORTANCE_EXTRA},
    {"max_slice", UNIT_ID, "the longest one's slice in it", IMPORTANCE_EXTRA},
    {"max_start_ns", UNIT_NS, "when it began, counted from its rank's first slice", IMPORTANCE_EXTRA},
};

static void put_place(struct analysis *a, size_t rank, uint64_t slice, struct report_rows *ret)
{
    put_int(ret, a->ranks[rank].number);
    put_int(ret, (int64_t)slice);
    put_int(ret, analysis_since_first(a, rank, columns_get(a->ranks[rank].columns, COL_slice_ts, slice)));
}

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(name_sums_done) struct name_sums sums = {0};
    int r = name_sums_of_gpu(a, &sums);

    if (r < 0)
        return r;
    for (size_t i = 0; i < sums.n; i++) {
        const struct name_sum *s = &sums.items[i];
        put_text(ret, s->name);
        put_str(ret, a->hta ? hta_kind_name(s->kind) : kernel_class_name(s->class));
        put_int(ret, (int64_t)s->count);
        put_int(ret, s->sum);
        put_int(ret, s->mean);
        put_int(ret, s->min);
        put_int(ret, s->max);
        put_int(ret, s->std);
        put_int(ret, s->p50);
        put_int(ret, s->p99);
        put_share(ret, s->sum, sums.total);
        put_place(a, s->min_rank, s->min_slice, ret);
        put_place(a, s->max_rank, s->max_slice, ret);
    }
    return 0;
}

const struct report report_kernels = {
    .name = "kernels",
    .title = "GPU work by name: count, sum, mean, percentiles",
    .how = "Instances of one name over all ranks and streams that are looked at; percentiles are of an "
           "instance (nearest rank), the standard deviation is that of a sample. With --hta the category is "
           "HTA's kernel type, and what HTA calls other is left out, as HTA does.",
    .needs = NEEDS_GPU,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
