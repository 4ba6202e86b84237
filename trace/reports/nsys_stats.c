/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The summaries of `nsys stats`, by its names and definitions, of any trace that has what they sum up. They
 * differ in what is summed and under which label.
 */
#include "base/array.h"
#include "trace/columns/schema.h"
#include "trace/reports/host.h"
#include "trace/reports/ops.h"
#include "trace/reports/report.h"
#include "trace/reports/slice_sums.h"
#include <errno.h>
#include <math.h>

/* -- Nsys stats ------------------------------------------------------------------------------------------ */

#define STATISTICS(unit, what)                                                                               \
    {"share", UNIT_SHARE, "share of the total"}, {"sum_" what, unit, "total"},                               \
        {"count", UNIT_COUNT, "number of events"}, {"mean_" what, unit, "mean"},                             \
        {"median_" what, unit, "median"}, {"min_" what, unit, "smallest"}, {"max_" what, unit, "largest"},   \
        {"std_" what, unit, "standard deviation (n - 1)"}, RANK_COLUMN

static const struct report_column time_columns[] = {
    {"name", UNIT_TEXT, "name of the kernel, call, range or copy direction"},
    STATISTICS(UNIT_NS, "ns"),
};

static const struct report_column size_columns[] = {
    {"name", UNIT_TEXT, "copy direction"},
    STATISTICS(UNIT_BYTES, "bytes"),
};

static void emit_sums(const struct analysis *a, size_t rank, const struct slice_sums *sums,
                      struct report_rows *ret)
{
    for (size_t i = 0; i < sums->n; i++) {
        const struct slice_sum *s = &sums->items[i];
        emit_text(ret, s->label);
        emit_share(ret, s->sum, sums->total);
        emit_int(ret, s->sum);
        emit_int(ret, (int64_t)s->count);
        emit_int(ret, llround(s->mean));
        emit_int(ret, llround(s->median));
        emit_int(ret, s->min);
        emit_int(ret, s->max);
        emit_int(ret, llround(s->std));
        emit_int(ret, a->ranks[rank].number);
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
            emit_sums(a, i, &sums, ret);
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

static struct text nsys_stats_label_of(struct text name)
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

static int64_t nsys_stats_size_of(const struct columns *c, const struct gpu_event *e)
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
                r = slice_sums_add(
                    &sums, slice_sums_label(&sums, nsys_stats_label_of(columns_text(c, e->name))), one);
        }
        if (r >= 0) {
            slice_sums_finish(&sums);
            emit_sums(a, rank, &sums, ret);
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
    return sum_transfers(a, nsys_stats_size_of, ret);
}

#define HOW "As defined by `nsys stats`; figures are rounded to full nanoseconds and bytes."

#define REPORT(identifier, text, columns_of, function)                                                       \
    const struct report report_##identifier = {.name = #identifier,                                          \
                                               .title = text,                                                \
                                               .method = HOW,                                                \
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

/* -- Nvtx ------------------------------------------------------------------------------------------------ */

/* NVTX ranges, and annotations of torch, with the GPU's work that was launched in them. */

/* Ranges in each other that a launch lies in; further ones are left out. */
#define RANGES_MAX 64

static const struct report_column nvtx_columns[] = {
    {"name", UNIT_TEXT, "name of the range"},
    {"count", UNIT_COUNT, "number of ranges"},
    {"sum_ns", UNIT_NS, "total duration on the host"},
    {"mean_ns", UNIT_NS, "mean duration on the host"},
    {"median_ns", UNIT_NS, "median duration on the host"},
    {"min_ns", UNIT_NS, "shortest duration on the host"},
    {"max_ns", UNIT_NS, "longest duration on the host"},
    {"kernels", UNIT_COUNT, "number of kernels, copies and memsets launched within the ranges"},
    {"gpu_span_ns", UNIT_NS,
     "time on the GPU from the first event to the end of the last, summed over the ranges"},
    {"gpu_busy_ns", UNIT_NS, "total duration of these GPU events"},
    RANK_COLUMN,
};

static const char *const categories[] = {"user_annotation", NULL};

/* A group of the table of names: ranges of one name. */
struct nvtx_group {
    struct text name;
    uint64_t row;
};

/* What was launched in a range, as it is met: a range is there as often as it has work. */
struct nvtx_piece {
    uint64_t range; /* its slice */
    int64_t label;
    int64_t ts, end;
};

/* Of the ranges of one label, on the GPU. */
struct projection {
    int64_t kernels, span, busy;
};

struct ranges {
    const struct columns *c;
    const struct intervals *times;
    struct nvtx_group *groups;
    size_t n_groups;
    int64_t *labels; /* of each text that is a range's name, else -1 */
    uint32_t n_texts;
    struct slice_sums sums;
    struct nvtx_piece *pieces;
    size_t n, cap;
    struct projection *projections; /* of each label */
};

static void ranges_done(struct ranges *r)
{
    free(r->groups);
    free(r->labels);
    slice_sums_done(&r->sums);
    free(r->pieces);
    free(r->projections);
}

static int compare_groups(const void *x, const void *y)
{
    const struct nvtx_group *a = x, *b = y;
    size_t common = MIN(a->name.size, b->name.size);
    int order = common ? memcmp(a->name.p, b->name.p, common) : 0;

    return order ? order : (a->name.size > b->name.size) - (a->name.size < b->name.size);
}

static int nvtx_add_group(struct ranges *r, const struct nvtx_group *group, int64_t label)
{
    const struct columns *c = r->c;
    struct name_rows places = name_rows_of(c, group->row);
    int64_t name = columns_get(c, COL_name_name, group->row);
    int err = 0;

    if (name >= 0 && name < r->n_texts)
        r->labels[name] = label;
    for (uint64_t i = places.first; i < places.end && err >= 0; i++) {
        int64_t slice = columns_get(c, COL_by_name_slice, i);
        if (slice == COLUMN_NULL)
            continue;
        int64_t dur = columns_get(c, COL_slice_dur, (uint64_t)slice);
        if (dur >= 0 && intervals_find(r->times, columns_get(c, COL_slice_ts, (uint64_t)slice)))
            err = slice_sums_add(&r->sums, label, dur);
    }
    return err;
}

static int read_ranges(struct ranges *r)
{
    uint64_t rows = columns_rows(r->c, TABLE_name);
    int64_t label = -1;
    int err = 0;

    r->n_texts = columns_texts(r->c);
    r->groups = calloc(rows + 1, sizeof(*r->groups));
    r->labels = malloc(((size_t)r->n_texts + 1) * sizeof(*r->labels));
    if (!r->groups || !r->labels)
        return -ENOMEM;
    memset(r->labels, 0xff, ((size_t)r->n_texts + 1) * sizeof(*r->labels)); /* -1 */
    for (uint64_t row = 0; row < rows; row++)
        if (category_is_one_of(r->c, columns_get(r->c, COL_name_category, row), categories))
            r->groups[r->n_groups++] = (struct nvtx_group){
                range_name(columns_text(r->c, columns_get(r->c, COL_name_name, row))), row};
    qsort(r->groups, r->n_groups, sizeof(*r->groups), compare_groups);
    for (size_t i = 0; i < r->n_groups && err >= 0; i++) {
        if (i == 0 || compare_groups(&r->groups[i - 1], &r->groups[i]) != 0)
            label = slice_sums_new(&r->sums, r->groups[i].name);
        err = label < 0 ? (int)label : nvtx_add_group(r, &r->groups[i], label);
    }
    return err;
}

/* -- On the GPU --------------------------------------------------------------------------------------- */

static int add_piece(struct ranges *r, struct nvtx_piece piece)
{
    if (!ARRAY_RESERVE(r->pieces, r->cap, r->n + 1))
        return -ENOMEM;
    r->pieces[r->n++] = piece;
    return 0;
}

/* As the report op_tree has it: by time on the launching thread, whatever else lies across. */
static int add_work(struct ranges *r, const struct host_calls *host, uint32_t launcher,
                    const struct gpu_event *e)
{
    int n = 0, err = 0;

    for (uint32_t at = launcher; at != HOST_CALL_NONE && n < RANGES_MAX && err >= 0;
         at = host->calls[at].parent) {
        const struct host_call *call = &host->calls[at];
        int64_t label = call->name >= 0 && call->name < r->n_texts ? r->labels[call->name] : -1;
        if (call->kind != HOST_ANNOTATION || label < 0)
            continue;
        err = add_piece(r, (struct nvtx_piece){call->slice, label, e->ts, e->end});
        n++;
    }
    return err;
}

static int compare_pieces(const void *x, const void *y)
{
    const struct nvtx_piece *a = x, *b = y;

    if (a->range != b->range)
        return a->range < b->range ? -1 : 1;
    return (a->ts > b->ts) - (a->ts < b->ts);
}

static int nvtx_project(struct ranges *r, const struct gpu_work *work, const struct host_calls *host)
{
    int err = 0;

    r->projections = calloc(r->sums.n + 1, sizeof(*r->projections));
    if (!r->projections)
        return -ENOMEM;
    for (size_t i = 0; i < work->n && err >= 0; i++)
        err = add_work(r, host, host->launcher[i], &work->events[i]);
    if (err < 0)
        return err;
    if (r->n > 0)
        qsort(r->pieces, r->n, sizeof(*r->pieces), compare_pieces);
    for (size_t i = 0, to; i < r->n; i = to) {
        struct projection *p = &r->projections[r->pieces[i].label];
        int64_t end = r->pieces[i].end;
        for (to = i; to < r->n && r->pieces[to].range == r->pieces[i].range; to++) {
            end = MAX(end, r->pieces[to].end);
            p->busy += r->pieces[to].end - r->pieces[to].ts;
            p->kernels++;
        }
        p->span += end - r->pieces[i].ts;
    }
    return 0;
}

static int nvtx_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(ranges_done) struct ranges r = {.c = a->ranks[rank].columns};
    const struct gpu_work *work;
    const struct host_calls *host;
    int err = analysis_times(a, rank, &r.times);

    if (err >= 0)
        err = analysis_gpu(a, rank, &work);
    if (err >= 0)
        err = analysis_ops(a, rank, &host);
    if (err >= 0)
        err = read_ranges(&r);
    if (err >= 0)
        err = nvtx_project(&r, work, host);
    if (err < 0)
        return err;
    slice_sums_finish(&r.sums);
    for (size_t i = 0; i < r.sums.n; i++) {
        const struct slice_sum *s = &r.sums.items[i];
        const struct projection *p = &r.projections[s->number];
        emit_text(ret, s->label);
        emit_int(ret, (int64_t)s->count);
        emit_int(ret, s->sum);
        emit_int(ret, llround(s->mean));
        emit_int(ret, llround(s->median));
        emit_int(ret, s->min);
        emit_int(ret, s->max);
        emit_int(ret, p->kernels);
        emit_int(ret, p->span);
        emit_int(ret, p->busy);
        emit_int(ret, a->ranks[rank].number);
    }
    return 0;
}

const struct report report_nvtx = {
    .name = "nvtx",
    .title = "NVTX ranges and annotations, on the host and projected to the GPU",
    .method = "Ranges by name, as nvtx_sum of `nsys stats`, but without the numbers that torch appends to "
              "names; with the GPU events launched within the range on its thread, as nvtx_gpu_proj_sum. "
              "Calls nest by time, as in op_tree.",
    .needs_rows = true,
    .columns = nvtx_columns,
    .n_columns = ARRAY_SIZE(nvtx_columns),
    .make_rank = nvtx_make_rank,
};
