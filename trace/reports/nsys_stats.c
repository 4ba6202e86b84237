/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The summaries of `nsys stats`, by its names and definitions, of any trace that has what they sum up. They
 * differ in what is summed and under which label.
 */
#include "base/array.h"
#include "base/statistics.h"
#include "trace/columns/schema.h"
#include "trace/reports/aggregation.h"
#include "trace/reports/host.h"
#include "trace/reports/ops.h"
#include <errno.h>

/* -- Nsys stats ------------------------------------------------------------------------------------------ */

#define STATISTICS(unit, what)                                                                               \
    {"share", UNIT_SHARE, "share of the total", .figure = {FIGURE_SHARE}},                                   \
        {"sum_" what, unit, "total", .figure = {FIGURE_SUM}},                                                \
        {"count", UNIT_COUNT, "number of events", .figure = {FIGURE_COUNT}},                                 \
        {"mean_" what, unit, "mean", .figure = {FIGURE_MEAN}},                                               \
        {"median_" what, unit, "median", .figure = {FIGURE_MEDIAN}},                                         \
        {"min_" what, unit, "smallest", .figure = {FIGURE_MIN}},                                             \
        {"max_" what, unit, "largest", .figure = {FIGURE_MAX}},                                              \
        {"std_" what, unit, "standard deviation (n - 1)", .figure = {FIGURE_DEVIATION}}, RANK_FIGURE

static const struct report_column time_columns[] = {
    {"name", UNIT_TEXT, "name of the kernel, call, range or copy direction", .figure = {FIGURE_TEXT}},
    STATISTICS(UNIT_NS, "ns"),
};

static const struct report_column size_columns[] = {
    {"name", UNIT_TEXT, "copy direction", .figure = {FIGURE_TEXT}},
    STATISTICS(UNIT_BYTES, "bytes"),
};

/* -- Slices of categories, by name ---------------------------------------------------------------------- */

static bool is_one_of(const struct columns *c, int64_t category, const char *const *categories)
{
    struct text text = columns_text(c, category);

    for (; *categories; categories++)
        if (text_is(text, *categories))
            return true;
    return false;
}

/* The durations of all slices of a row of the table of names that begin within the view. values: the first is set. */
static int gather_row(struct gathering *g, uint64_t row, struct group_key key, int64_t *values)
{
    struct name_rows positions = name_rows_of(g->c, row);
    const struct intervals *times;
    int r = analysis_times(g->analysis, g->rank, &times);

    for (uint64_t i = positions.first; i < positions.end && r >= 0; i++) {
        int64_t slice = columns_get(g->c, COL_by_name_slice, i);
        if (slice == COLUMN_NULL)
            continue;
        values[0] = columns_get(g->c, COL_slice_dur, (uint64_t)slice);
        if (values[0] >= 0 && intervals_find(times, columns_get(g->c, COL_slice_ts, (uint64_t)slice)))
            r = gathering_add(g, key, values, (uint64_t)slice);
    }
    return r;
}

/* arg: the categories, NULL after the last. */
static int categories_gather(struct gathering *g)
{
    int64_t dur;
    int r = 0;

    for (uint64_t row = 0; row < columns_rows(g->c, TABLE_name) && r >= 0; row++)
        if (is_one_of(g->c, columns_get(g->c, COL_name_category, row), g->arg))
            r = gather_row(
                g, row, (struct group_key){{gathering_text(g, columns_get(g->c, COL_name_name, row))}}, &dur);
    return r;
}

static const struct aggregation by_name = {
    .n_values = 1, .by_rank = true, .n_order = 1, .then_by_text = true, .gather = categories_gather};

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

static const char *const transfers[] = {CATEGORY_MEMCPY, CATEGORY_MEMSET, NULL};

/* arg: not NULL for sizes, else durations. */
static int transfers_gather(struct gathering *g)
{
    const struct gpu_work *work;
    int r = analysis_gpu(g->analysis, g->rank, &work);

    for (size_t i = 0; r >= 0 && i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        if (!is_one_of(g->c, columns_get(g->c, COL_slice_category, e->slice), transfers))
            continue;
        int64_t value = g->arg ? columns_get(g->c, COL_gpu_bytes, e->row) : e->end - e->ts;
        struct text label = nsys_stats_label_of(columns_text(g->c, e->name));
        r = gathering_add(g, (struct group_key){{gathering_name(g, label)}}, &value, e->slice);
    }
    return r;
}

static const struct aggregation by_direction = {
    .n_values = 1, .by_rank = true, .n_order = 1, .then_by_text = true, .gather = transfers_gather};

/* -- The reports ----------------------------------------------------------------------------------------- */

#define CATEGORIES(...) ((const char *const[]){__VA_ARGS__, NULL})

#define REPORT(identifier, text, columns_of, aggregation_of, items)                                          \
    const struct report report_##identifier = {                                                              \
        .name = #identifier,                                                                                 \
        .title = text,                                                                                       \
        .method = "As defined by `nsys stats`; figures are rounded to full nanoseconds and bytes.",          \
        .is_detail = true,                                                                                   \
        .needs_rows = true,                                                                                  \
        .columns = columns_of,                                                                               \
        .n_columns = ARRAY_SIZE(columns_of),                                                                 \
        .aggregation = &aggregation_of,                                                                      \
        .aggregated = items}

REPORT(cuda_gpu_kern_sum, "nsys stats: kernels by name", time_columns, by_name, CATEGORIES(CATEGORY_KERNEL));
REPORT(cuda_gpu_mem_time_sum, "nsys stats: time of copies and memsets by direction", time_columns,
       by_direction, NULL);
REPORT(cuda_gpu_mem_size_sum, "nsys stats: bytes of copies and memsets by direction", size_columns,
       by_direction, transfers);
REPORT(cuda_api_sum, "nsys stats: calls of the CUDA runtime and driver by name", time_columns, by_name,
       CATEGORIES(CATEGORY_RUNTIME, "cuda_driver"));
REPORT(nvtx_sum, "nsys stats: NVTX ranges, or annotations, by name", time_columns, by_name,
       CATEGORIES("user_annotation"));
REPORT(osrt_sum, "nsys stats: calls of the operating system by name", time_columns, by_name,
       CATEGORIES("osrt"));

/* -- Nvtx ------------------------------------------------------------------------------------------------ */

/* Ranges in each other that a launch lies in; further ones are left out. */
#define RANGES_MAX 64

enum { DUR, KERNELS, SPAN, BUSY, _VALUE_MAX };

static const struct report_column nvtx_columns[] = {
    {"name", UNIT_TEXT, "name of the range", .figure = {FIGURE_TEXT}},
    {"count", UNIT_COUNT, "number of ranges", .figure = {FIGURE_COUNT}},
    {"sum_ns", UNIT_NS, "total duration on the host", .figure = {FIGURE_SUM}},
    {"mean_ns", UNIT_NS, "mean duration on the host", .figure = {FIGURE_MEAN}},
    {"median_ns", UNIT_NS, "median duration on the host", .figure = {FIGURE_MEDIAN}},
    {"min_ns", UNIT_NS, "shortest duration on the host", .figure = {FIGURE_MIN}},
    {"max_ns", UNIT_NS, "longest duration on the host", .figure = {FIGURE_MAX}},
    {"kernels", UNIT_COUNT, "number of kernels, copies and memsets launched within the ranges",
     .figure = {FIGURE_SUM, KERNELS}},
    {"gpu_span_ns", UNIT_NS,
     "time on the GPU from the first event to the end of the last, summed over the ranges",
     .figure = {FIGURE_SUM, SPAN}},
    {"gpu_busy_ns", UNIT_NS, "total duration of these GPU events", .figure = {FIGURE_SUM, BUSY}},
    RANK_FIGURE,
};

/* A GPU event that was launched in a range. */
struct nvtx_piece {
    uint64_t range; /* its slice */
    int64_t ts, end;
};

struct nvtx_pieces {
    struct nvtx_piece *items;
    size_t n, cap;
};

static void nvtx_pieces_done(struct nvtx_pieces *p)
{
    free(p->items);
}

static struct group_key nvtx_key(struct gathering *g, int64_t name)
{
    return (struct group_key){{gathering_name(g, range_name(columns_text(g->c, name)))}};
}

/* In every range around its launch, as the report op_tree has it: by time on the launching thread. */
static int nvtx_add_event(struct nvtx_pieces *p, const struct host_calls *host, uint32_t launcher,
                          const struct gpu_event *e)
{
    int n = 0;

    for (uint32_t at = launcher; at != HOST_CALL_NONE && n < RANGES_MAX; at = host->parent[at]) {
        if (slice_kind(host->slices, host->slice[at]) != HOST_ANNOTATION)
            continue;
        if (!ARRAY_RESERVE(p->items, p->cap, p->n + 1))
            return -ENOMEM;
        p->items[p->n++] = (struct nvtx_piece){host->slice[at], e->ts, e->end};
        n++;
    }
    return 0;
}

/* By range; those of a range are in order of their start already. */
static int nvtx_order(struct nvtx_pieces *p)
{
    _cleanup_(freep) struct sort_item *order = malloc((p->n + 1) * sizeof(*order));
    struct nvtx_piece *items = malloc((p->n + 1) * sizeof(*items));

    if (!order || !items) {
        free(items);
        return -ENOMEM;
    }
    for (size_t i = 0; i < p->n; i++)
        order[i] = (struct sort_item){(int64_t)p->items[i].range, i};
    sort_items(order, p->n);
    for (size_t i = 0; i < p->n; i++)
        items[i] = p->items[order[i].item];
    free(p->items);
    p->items = items;
    p->cap = p->n + 1;
    return 0;
}

/* One item for what was launched in each range. */
static int nvtx_gather_launched(struct gathering *g)
{
    _cleanup_(nvtx_pieces_done) struct nvtx_pieces p = {0};
    const struct gpu_work *work;
    const struct host_calls *host;
    int r = analysis_gpu(g->analysis, g->rank, &work);

    if (r >= 0)
        r = analysis_ops(g->analysis, g->rank, &host);
    for (size_t i = 0; r >= 0 && i < work->n; i++)
        r = nvtx_add_event(&p, host, host->launcher[i], &work->events[i]);
    if (r >= 0)
        r = nvtx_order(&p);
    for (size_t i = 0, to; i < p.n && r >= 0; i = to) {
        int64_t end = p.items[i].end, values[_VALUE_MAX] = {[DUR] = COLUMN_NULL};
        for (to = i; to < p.n && p.items[to].range == p.items[i].range; to++) {
            end = MAX(end, p.items[to].end);
            values[BUSY] += p.items[to].end - p.items[to].ts;
            values[KERNELS]++;
        }
        values[SPAN] = end - p.items[i].ts;
        r = gathering_add(g, nvtx_key(g, columns_get(g->c, COL_slice_name, p.items[i].range)), values,
                          p.items[i].range);
    }
    return r;
}

static int nvtx_gather(struct gathering *g)
{
    int64_t values[_VALUE_MAX] = {[KERNELS] = COLUMN_NULL, [SPAN] = COLUMN_NULL, [BUSY] = COLUMN_NULL};
    int r = 0;

    for (uint64_t row = 0; row < columns_rows(g->c, TABLE_name) && r >= 0; row++)
        if (is_one_of(g->c, columns_get(g->c, COL_name_category, row), CATEGORIES("user_annotation")))
            r = gather_row(g, row, nvtx_key(g, columns_get(g->c, COL_name_name, row)), values);
    return r < 0 ? r : nvtx_gather_launched(g);
}

static const struct aggregation nvtx = {
    .n_values = _VALUE_MAX, .by_rank = true, .n_order = 1, .then_by_text = true, .gather = nvtx_gather};

const struct report report_nvtx = {
    .name = "nvtx",
    .title = "NVTX ranges and annotations, on the host and projected to the GPU",
    .method = "Ranges by name, as nvtx_sum of `nsys stats`, but without the numbers that torch appends to "
              "names; with the GPU events launched within the range on its thread, as nvtx_gpu_proj_sum. "
              "Calls nest by time, as in op_tree.",
    .needs_rows = true,
    REPORT_COLUMNS(nvtx),
    .aggregation = &nvtx,
};
