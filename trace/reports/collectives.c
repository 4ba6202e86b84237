/* SPDX-License-Identifier: Apache-2.0 */
/* Collective operations by name, size and group: time, how much of it is exposed, bandwidth. */
#include "base/array.h"
#include "trace/reports/collective.h"
#include "trace/reports/grouping.h"
#include "trace/reports/interval.h"
#include "trace/reports/report.h"
#include <errno.h>
#include <math.h>

static const struct report_column collectives_columns[] = {
    {"name", UNIT_TEXT, "name of the collective; name of the kernel if the trace has no metadata"},
    {"kind", UNIT_TEXT, "kind: all_reduce, all_gather, dispatch, ...", IMPORTANCE_EXTRA},
    {"dtype", UNIT_TEXT, "element type", IMPORTANCE_LOW},
    {"bytes", UNIT_BYTES, "size of one collective, as nccl-tests defines it", IMPORTANCE_HIGH},
    {"group", UNIT_TEXT, "process group"},
    {"group_size", UNIT_COUNT, "number of ranks in the group", IMPORTANCE_EXTRA},
    {"count", UNIT_COUNT, "number of collectives, over all selected ranks"},
    {"sum_ns", UNIT_NS, "total duration, including the wait for other ranks", IMPORTANCE_HIGH},
    {"mean_ns", UNIT_NS, "mean duration"},
    {"min_ns", UNIT_NS, "shortest duration", IMPORTANCE_EXTRA},
    {"max_ns", UNIT_NS, "longest duration", IMPORTANCE_EXTRA},
    {"exposed_ns", UNIT_NS, "part of sum_ns without computation on the rank", IMPORTANCE_HIGH},
    {"algbw", UNIT_BYTES_PER_S, "algorithm bandwidth: bytes divided by the mean duration", IMPORTANCE_EXTRA},
    {"busbw", UNIT_BYTES_PER_S, "bus bandwidth: algbw multiplied by the factor of nccl-tests",
     IMPORTANCE_HIGH},
    {"max_busbw", UNIT_BYTES_PER_S, "bus bandwidth of the shortest collective, which waited least",
     IMPORTANCE_LOW},
    {"ranks", UNIT_TEXT, "ranks of the group", IMPORTANCE_EXTRA},
};

struct collective {
    struct text name, dtype, group, ranks;
    enum collective_kind kind;
    int64_t bytes, group_size;
    uint64_t count;
    int64_t sum, min, max, exposed;
};

struct collectives_summing {
    struct name_table texts;
    struct groups groups; /* name, dtype, bytes, group, ranks */
    struct collective *items;
    size_t cap;
};

static void collectives_summing_done(struct collectives_summing *s)
{
    name_table_done(&s->texts);
    groups_done(&s->groups);
    free(s->items);
}

/* -- Metadata of one ----------------------------------------------------------------------- */

static uint64_t row_of_slice(const struct columns *c, uint64_t slice)
{
    uint64_t row = columns_lower_bound(c, COL_collective_slice, (int64_t)slice);

    return columns_get(c, COL_collective_slice, row) == (int64_t)slice ? row : SLICE_NONE;
}

/* Its row of arguments: of the kernel, else of a call around its launch (record_param_comms). */
static uint64_t row_of(const struct columns *c, const struct host_calls *host, const struct gpu_event *e,
                       size_t item)
{
    uint64_t row = columns_rows(c, TABLE_collective) == 0 ? SLICE_NONE : row_of_slice(c, e->slice);

    if (row != SLICE_NONE || e->kind != GPU_COMMUNICATION || columns_rows(c, TABLE_collective) == 0)
        return row;
    for (uint32_t at = host->launcher[item]; at != HOST_CALL_NONE && row == SLICE_NONE;
         at = host->calls[at].parent)
        row = row_of_slice(c, host->calls[at].slice);
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
    const struct text none = {"", 0};
    struct collective one = {.dtype = none,
                             .group = none,
                             .ranks = none,
                             .name = none,
                             .bytes = COLUMN_NULL,
                             .group_size = COLUMN_NULL};

    if (row != SLICE_NONE) {
        one.name = columns_text(c, columns_get(c, COL_collective_name, row));
        one.dtype = columns_text(c, columns_get(c, COL_collective_dtype, row));
        one.group = collectives_group_of(c, row);
        one.ranks = columns_text(c, columns_get(c, COL_collective_group_ranks, row));
        one.group_size = columns_get(c, COL_collective_group_size, row);
    }
    one.kind = one.name.size > 0 ? collective_kind_of(one.name) : COLLECTIVE_OTHER;
    if (one.name.size == 0)
        one.name = columns_text(c, e->name);
    if (one.kind == COLLECTIVE_OTHER)
        one.kind = e->collective;
    if (row != SLICE_NONE)
        one.bytes = collective_bytes(one.kind, columns_get(c, COL_collective_in_elements, row),
                                     columns_get(c, COL_collective_out_elements, row), dtype_bytes(one.dtype),
                                     one.group_size);
    return one;
}

/* ----------------------------------------------------------------------------------------------------- */

static int collectives_add(struct collectives_summing *s, const struct collective *one, int64_t ns,
                           int64_t exposed)
{
    int64_t name = name_table_number(&s->texts, one->name), dtype = name_table_number(&s->texts, one->dtype),
            group = name_table_number(&s->texts, one->group),
            ranks = name_table_number(&s->texts, one->ranks);

    if (name < 0 || dtype < 0 || group < 0 || ranks < 0)
        return -ENOMEM;
    int64_t number = groups_number(&s->groups, (struct group_key){{name, dtype, one->bytes, group, ranks}});
    if (number < 0)
        return (int)number;
    if (!ARRAY_RESERVE_ZEROED(s->items, s->cap, s->groups.n))
        return -ENOMEM;
    struct collective *sum = &s->items[number];
    if (sum->count == 0) {
        *sum = *one;
        sum->min = INT64_MAX;
    }
    sum->count++;
    sum->sum += ns;
    sum->min = MIN(sum->min, ns);
    sum->max = MAX(sum->max, ns);
    sum->exposed += exposed;
    return 0;
}

static int collectives_make_rank(struct analysis *a, size_t rank, struct collectives_summing *s)
{
    const struct columns *c = a->ranks[rank].columns;
    _cleanup_(intervals_done) struct intervals times = {0};
    _cleanup_(cover_done) struct cover computing = {0};
    const struct gpu_work *work, *all;
    const struct host_calls *host = NULL;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = analysis_all_gpu(a, rank, &all);
    if (r >= 0)
        r = analysis_ops(a, rank, &host);
    if (r >= 0)
        r = gpu_work_busy(all, 1 << GPU_COMPUTE, &times);
    if (r >= 0)
        r = cover_new(&times, &computing);
    for (size_t i = 0; r >= 0 && i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        uint64_t row = row_of(c, host, e, i);
        if (row == SLICE_NONE && e->kind != GPU_COMMUNICATION)
            continue;
        struct collective one = collectives_describe(c, e, row);
        int64_t ns = e->end - e->ts;
        r = collectives_add(s, &one, ns, ns - cover_length(&computing, e->ts, e->end));
    }
    return r;
}

static void emit_bandwidth(const struct collective *s, double ns, double factor, struct report_rows *ret)
{
    emit_real(ret, s->bytes == COLUMN_NULL || ns <= 0 ? NAN : (double)s->bytes * 1e9 / ns * factor);
}

static int collectives_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(collectives_summing_done) struct collectives_summing s = {0};
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = collectives_make_rank(a, i, &s);
    for (size_t i = 0; i < s.groups.n && r >= 0; i++) {
        const struct collective *one = &s.items[i];
        double mean = (double)one->sum / (double)one->count,
               factor = collective_bus_factor(one->kind, one->group_size);
        emit_text(ret, one->name);
        emit_str(ret, collective_kind_name(one->kind));
        emit_nonempty(ret, one->dtype);
        emit_int(ret, one->bytes);
        emit_nonempty(ret, one->group);
        emit_int(ret, one->group_size);
        emit_int(ret, (int64_t)one->count);
        emit_int(ret, one->sum);
        emit_int(ret, llround(mean));
        emit_int(ret, one->min);
        emit_int(ret, one->max);
        emit_int(ret, one->exposed);
        emit_bandwidth(one, mean, 1, ret);
        emit_bandwidth(one, mean, factor, ret);
        emit_bandwidth(one, (double)one->min, factor, ret);
        emit_nonempty(ret, one->ranks);
    }
    return r;
}

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
    .columns = collectives_columns,
    .n_columns = ARRAY_SIZE(collectives_columns),
    .make = collectives_make,
};
