/* SPDX-License-Identifier: Apache-2.0 */
/* Collective operations by name, size and group: time, how much of it is exposed, bandwidth. */
#include "trace/columns/column_cursor.h"
#include "trace/reports/aggregation.h"
#include "trace/reports/collective.h"
#include "trace/reports/host.h"
#include "trace/reports/interval.h"
#include <errno.h>
#include <math.h>

enum { NAME, DTYPE, BYTES, GROUP, RANKS }; /* keys */
enum { NS, EXPOSED, KIND, GROUP_SIZE, _VALUE_MAX };

static void emit_kind(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    emit_str(ret, collective_kind_name((enum collective_kind)g->values[KIND].first));
}

static void collectives_emit_bandwidth(const struct group *g, double ns, double factor,
                                       struct report_rows *ret)
{
    int64_t bytes = g->key.part[BYTES];

    emit_real(ret, bytes == COLUMN_NULL || ns <= 0 ? NAN : (double)bytes * 1e9 / ns * factor);
}

static double mean_of(const struct group *g)
{
    return (double)g->values[NS].sum / (double)g->values[NS].n;
}

static double bus_factor_of(const struct group *g)
{
    const struct group_value *size = &g->values[GROUP_SIZE];

    return collective_bus_factor((enum collective_kind)g->values[KIND].first,
                                 size->n > 0 ? size->first : COLUMN_NULL);
}

static void emit_algbw(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    collectives_emit_bandwidth(g, mean_of(g), 1, ret);
}

static void emit_busbw(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    collectives_emit_bandwidth(g, mean_of(g), bus_factor_of(g), ret);
}

static void emit_max_busbw(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    collectives_emit_bandwidth(g, (double)g->values[NS].min, bus_factor_of(g), ret);
}

static const struct report_column collectives_columns[] = {
    {"name", UNIT_TEXT, "name of the collective; name of the kernel if the trace has no metadata",
     .figure = {FIGURE_TEXT, NAME}},
    {"kind", UNIT_TEXT, "kind: all_reduce, all_gather, dispatch, ...", IMPORTANCE_EXTRA,
     .figure = {FIGURE_OTHER, .emit = emit_kind}},
    {"dtype", UNIT_TEXT, "element type", IMPORTANCE_LOW, .figure = {FIGURE_TEXT, DTYPE}},
    {"bytes", UNIT_BYTES, "size of one collective, as nccl-tests defines it", IMPORTANCE_HIGH,
     .figure = {FIGURE_KEY, BYTES}},
    {"group", UNIT_TEXT, "process group", .figure = {FIGURE_TEXT, GROUP}},
    {"group_size", UNIT_COUNT, "number of ranks in the group", IMPORTANCE_EXTRA,
     .figure = {FIGURE_FIRST, GROUP_SIZE}},
    {"count", UNIT_COUNT, "number of collectives, over all selected ranks", .figure = {FIGURE_COUNT}},
    {"sum_ns", UNIT_NS, "total duration, including the wait for other ranks", IMPORTANCE_HIGH,
     .figure = {FIGURE_SUM, NS}},
    {"mean_ns", UNIT_NS, "mean duration", .figure = {FIGURE_MEAN, NS}},
    {"min_ns", UNIT_NS, "shortest duration", IMPORTANCE_EXTRA, .figure = {FIGURE_MIN, NS}},
    {"max_ns", UNIT_NS, "longest duration", IMPORTANCE_EXTRA, .figure = {FIGURE_MAX, NS}},
    {"exposed_ns", UNIT_NS, "part of sum_ns without computation on the rank", IMPORTANCE_HIGH,
     .figure = {FIGURE_SUM, EXPOSED}},
    {"algbw", UNIT_BYTES_PER_S, "algorithm bandwidth: bytes divided by the mean duration", IMPORTANCE_EXTRA,
     .figure = {FIGURE_OTHER, .emit = emit_algbw}},
    {"busbw", UNIT_BYTES_PER_S, "bus bandwidth: algbw multiplied by the factor of nccl-tests",
     IMPORTANCE_HIGH, .figure = {FIGURE_OTHER, .emit = emit_busbw}},
    {"max_busbw", UNIT_BYTES_PER_S, "bus bandwidth of the shortest collective, which waited least",
     IMPORTANCE_LOW, .figure = {FIGURE_OTHER, .emit = emit_max_busbw}},
    {"ranks", UNIT_TEXT, "ranks of the group", IMPORTANCE_EXTRA, .figure = {FIGURE_TEXT, RANKS}},
};

struct collective {
    struct text name, dtype, group, ranks;
    enum collective_kind kind;
    int64_t bytes, group_size;
};

/* -- Metadata of one ----------------------------------------------------------------------- */

/* Which slices have a row of arguments: most have none. A bit each; NULL without memory. */
static uint8_t *find_described(const struct columns *c)
{
    struct column_cursor slices = {.c = c, .column = COL_collective_slice};
    uint8_t *ret = calloc(columns_rows(c, TABLE_slice) / 8 + 1, 1);

    for (uint64_t row = 0; ret && row < columns_rows(c, TABLE_collective); row++) {
        int64_t slice = column_cursor_get(&slices, row);
        if (slice != COLUMN_NULL)
            ret[slice / 8] |= (uint8_t)(1 << slice % 8);
    }
    return ret;
}

static uint64_t row_of_slice(const struct columns *c, const uint8_t *described, uint64_t slice)
{
    return described[slice / 8] >> slice % 8 & 1 ? collective_row(c, slice) : SLICE_NONE;
}

/* Its row of arguments: of the kernel, else of a call around its launch (record_param_comms). */
static uint64_t row_of(const struct columns *c, const uint8_t *described, const struct host_calls *host,
                       const struct gpu_event *e, size_t item)
{
    uint64_t row = row_of_slice(c, described, e->slice);

    if (e->kind != GPU_COMMUNICATION || columns_rows(c, TABLE_collective) == 0)
        return row;
    for (uint32_t at = host->launcher[item]; at != HOST_CALL_NONE && row == SLICE_NONE; at = host->parent[at])
        row = row_of_slice(c, described, host->slice[at]);
    return row;
}

static struct text collectives_group_of(const struct columns *c, uint64_t row)
{
    struct text text = columns_text(c, columns_get(c, COL_collective_group_desc, row));

    if (text.size > 0 && !text_is(text, "undefined"))
        return text;
    return columns_text(c, columns_get(c, COL_collective_group_name, row));
}

static struct collective collectives_describe(const struct columns *c, const struct gpu_event *e,
                                              uint64_t row)
{
    struct collective one = {.name = columns_text(c, columns_get(c, COL_collective_name, row)),
                             .dtype = columns_text(c, columns_get(c, COL_collective_dtype, row)),
                             .group = collectives_group_of(c, row),
                             .ranks = columns_text(c, columns_get(c, COL_collective_group_ranks, row)),
                             .group_size = columns_get(c, COL_collective_group_size, row)};

    one.kind = one.name.size > 0 ? collective_kind_of(one.name) : COLLECTIVE_OTHER;
    if (one.name.size == 0)
        one.name = columns_text(c, e->name);
    if (one.kind == COLLECTIVE_OTHER)
        one.kind = e->collective;
    one.bytes = collective_bytes(one.kind, columns_get(c, COL_collective_in_elements, row),
                                 columns_get(c, COL_collective_out_elements, row), dtype_bytes(one.dtype),
                                 one.group_size);
    return one;
}

/* -- The report --------------------------------------------------------------------------------------- */

static int collectives_gather(struct gathering *g)
{
    const struct intervals *times;
    _cleanup_(cover_done) struct cover computing = {0};
    const struct gpu_work *work, *all;
    const struct host_calls *host = NULL;
    _cleanup_(freep) uint8_t *described = find_described(g->c);
    int r = described ? analysis_gpu(g->analysis, g->rank, &work) : -ENOMEM;

    if (r >= 0)
        r = analysis_all_gpu(g->analysis, g->rank, &all);
    if (r >= 0)
        r = analysis_ops(g->analysis, g->rank, &host);
    if (r >= 0)
        r = gpu_work_busy(all, 1 << GPU_COMPUTE, &times);
    if (r >= 0)
        r = cover_new(times, &computing);
    for (size_t i = 0; r >= 0 && i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        uint64_t row = row_of(g->c, described, host, e, i);
        if (row == SLICE_NONE && e->kind != GPU_COMMUNICATION)
            continue;
        struct collective one = collectives_describe(g->c, e, row);
        struct group_key key = {{[NAME] = gathering_name(g, one.name),
                                 [DTYPE] = gathering_nonempty(g, one.dtype),
                                 [BYTES] = one.bytes,
                                 [GROUP] = gathering_nonempty(g, one.group),
                                 [RANKS] = gathering_nonempty(g, one.ranks)}};
        int64_t ns = e->end - e->ts, values[] = {[NS] = ns,
                                                 [EXPOSED] = ns - cover_length(&computing, e->ts, e->end),
                                                 [KIND] = one.kind,
                                                 [GROUP_SIZE] = one.group_size};
        r = gathering_add(g, key, values, e->slice);
    }
    return r;
}

static const struct aggregation collectives = {.n_values = _VALUE_MAX, .gather = collectives_gather};

const struct report report_collectives = {
    .name = "collectives",
    .title = "collectives by size and group: time, exposed time, bandwidth",
    .method = "Communication kernels with their metadata (Collective name, In msg nelems, ...), from the "
              "kernel or from record_param_comms around its launch. Sizes and bus bandwidth as in "
              "nccl-tests: all_reduce 2(n-1)/n, all_gather, reduce_scatter and all_to_all (n-1)/n, others "
              "1. The duration of a kernel includes the wait for other ranks. Collectives without metadata "
              "(DeepEP, all-reduce of vLLM and SGLang) have no size.",
    .needs = NEEDS_GPU,
    .sort_by = "sum_ns",
    .needs_rows = true,
    REPORT_COLUMNS(collectives),
    .aggregation = &collectives,
};
