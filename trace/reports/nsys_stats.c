/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The summaries of `nsys stats`, by its names and definitions, of any trace that has what they sum up. They
 * differ in what is summed and under which label.
 */
#include "trace/columns/schema.h"
#include "trace/reports/reports.h"
#include "trace/reports/slice_sums.h"
#include <errno.h>
#include <math.h>

#define STATISTICS(unit, what)                                                                               \
    {"share", UNIT_SHARE, "of the sum over all"}, {"sum_" what, unit, "of all of them"},                     \
        {"count", UNIT_COUNT, "how many"}, {"mean_" what, unit, "of one"},                                   \
        {"median_" what, unit, "half of them are as small"}, {"min_" what, unit, "the smallest"},            \
        {"max_" what, unit, "the largest"}, {"std_" what, unit, "standard deviation (n - 1)"},               \
    {                                                                                                        \
        "rank", UNIT_ID, "which rank"                                                                        \
    }

static const struct report_column time_columns[] = {
    {"name", UNIT_TEXT, "of the kernel, call, range or kind of copy"},
    STATISTICS(UNIT_NS, "ns"),
};

static const struct report_column size_columns[] = {
    {"name", UNIT_TEXT, "of the kind of copy"},
    STATISTICS(UNIT_BYTES, "bytes"),
};

static void put_sums(const struct analysis *a, size_t rank, const struct slice_sums *sums,
                     struct report_rows *ret)
{
    for (size_t i = 0; i < sums->n; i++) {
        const struct slice_sum *s = &sums->items[i];
        put_text(ret, s->label);
        put_share(ret, s->sum, sums->total);
        put_int(ret, s->sum);
        put_int(ret, (int64_t)s->count);
        put_int(ret, llround(s->mean));
        put_int(ret, llround(s->median));
        put_int(ret, s->min);
        put_int(ret, s->max);
        put_int(ret, llround(s->std));
        put_int(ret, a->ranks[rank].number);
    }
}

/* Empty is what the trace has nothing of. */
static int sum_categories(struct analysis *a, const char *const *categories, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        _cleanup_(slice_sums_done) struct slice_sums sums = {0};
        r = slice_sums_of_categories(a, i, categories, &sums);
        if (r >= 0)
            put_sums(a, i, &sums, ret);
    }
    return r < 0 ? r : report_rows_count(ret) == 0 ? -ENODATA : 0;
}

/* -- Copies and sets, by their direction ---------------------------------------------------------------- */

static const struct {
    const char *prefix, *label;
} operations[] = {
    {"Memcpy HtoD", "[CUDA memcpy Host-to-Device]"},   {"Memcpy DtoH", "[CUDA memcpy Device-to-Host]"},
    {"Memcpy DtoD", "[CUDA memcpy Device-to-Device]"}, {"Memcpy HtoH", "[CUDA memcpy Host-to-Host]"},
    {"Memcpy PtoP", "[CUDA memcpy Peer-to-Peer]"},     {"Memset", "[CUDA memset]"},
};

static struct text label_of(struct text name)
{
    for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
        if (name.size >= strlen(operations[i].prefix) &&
            memcmp(name.p, operations[i].prefix, strlen(operations[i].prefix)) == 0)
            return (struct text){operations[i].label, strlen(operations[i].label)};
    return name;
}

static int64_t time_of(const struct columns *c, const struct gpu_event *e)
{
    return e->end - e->ts;
}

static int64_t size_of(const struct columns *c, const struct gpu_event *e)
{
    return e->row == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_gpu_bytes, e->row);
}

static int sum_transfers(struct analysis *a,
                         int64_t (*value)(const struct columns *, const struct gpu_event *),
                         struct report_rows *ret)
{
    static const char *const transfers[] = {CATEGORY_MEMCPY, CATEGORY_MEMSET, NULL};
    const struct gpu_work *work;
    int r = 0;

    for (size_t rank = 0; rank < a->n && r >= 0; rank++) {
        _cleanup_(slice_sums_done) struct slice_sums sums = {0};
        const struct columns *c = a->ranks[rank].columns;
        r = analysis_gpu(a, rank, &work);
        for (size_t i = 0; r >= 0 && i < work->n; i++) {
            const struct gpu_event *e = &work->events[i];
            int64_t one = category_is_one_of(c, columns_get(c, COL_slice_category, e->slice), transfers)
                              ? value(c, e)
                              : COLUMN_NULL;
            if (one != COLUMN_NULL)
                r = slice_sums_add(&sums, slice_sums_label(&sums, label_of(columns_text(c, e->name))), one);
        }
        if (r >= 0) {
            slice_sums_finish(&sums);
            put_sums(a, rank, &sums, ret);
        }
    }
    return r < 0 ? r : report_rows_count(ret) == 0 ? -ENODATA : 0;
}

/* -- The reports ----------------------------------------------------------------------------------------- */

static int make_kernels(struct analysis *a, struct report_rows *ret)
{
    return sum_categories(a, (const char *const[]){CATEGORY_KERNEL, NULL}, ret);
}

static int make_calls(struct analysis *a, struct report_rows *ret)
{
    return sum_categories(a, (const char *const[]){CATEGORY_RUNTIME, "cuda_driver", NULL}, ret);
}

static int make_ranges(struct analysis *a, struct report_rows *ret)
{
    return sum_categories(a, (const char *const[]){"user_annotation", NULL}, ret);
}

static int make_system(struct analysis *a, struct report_rows *ret)
{
    return sum_categories(a, (const char *const[]){"osrt", NULL}, ret);
}

static int make_times(struct analysis *a, struct report_rows *ret)
{
    return sum_transfers(a, time_of, ret);
}

static int make_sizes(struct analysis *a, struct report_rows *ret)
{
    return sum_transfers(a, size_of, ret);
}

#define HOW "As `nsys stats` defines it; figures are rounded to whole nanoseconds and bytes."

#define REPORT(identifier, text, columns_of, function)                                                       \
    const struct report report_##identifier = {.name = #identifier,                                          \
                                               .title = text,                                                \
                                               .how = HOW,                                                   \
                                               .is_detail = true,                                            \
                                               .columns = columns_of,                                        \
                                               .n_columns = ARRAY_SIZE(columns_of),                          \
                                               .make = function}

REPORT(cuda_gpu_kern_sum, "nsys stats: kernels by name", time_columns, make_kernels);
REPORT(cuda_gpu_mem_time_sum, "nsys stats: time of copies and memsets by direction", time_columns,
       make_times);
REPORT(cuda_gpu_mem_size_sum, "nsys stats: bytes of copies and memsets by direction", size_columns,
       make_sizes);
REPORT(cuda_api_sum, "nsys stats: calls of the CUDA runtime and driver by name", time_columns, make_calls);
REPORT(nvtx_sum, "nsys stats: NVTX ranges, or annotations, by name", time_columns, make_ranges);
REPORT(osrt_sum, "nsys stats: calls of the operating system by name", time_columns, make_system);
