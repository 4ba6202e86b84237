/* SPDX-License-Identifier: Apache-2.0 */
/* Where the host waits for the GPU. */
#include "base/array.h"
#include "trace/reports/grouping.h"
#include "trace/reports/host.h"
#include "trace/reports/ops.h"
#include "trace/reports/report.h"
#include <errno.h>

static const struct report_column syncs_columns[] = {
    {"name", UNIT_TEXT, "name of the waiting call"},
    {"op", UNIT_TEXT, "innermost operator or annotation around the call"},
    {"frame", UNIT_TEXT, "innermost Python frame around the call"},
    {"count", UNIT_COUNT, "number of calls"},
    {"sum_ns", UNIT_NS, "total duration"},
    {"max_ns", UNIT_NS, "longest duration"},
    {"max_slice", UNIT_ID, "slice number of the longest call", IMPORTANCE_EXTRA},
};

struct wait_sum {
    uint64_t count;
    int64_t sum, max, max_slice;
};

struct syncs_summing {
    struct name_table texts;
    struct groups groups; /* name, operator, frame; -1 for none */
    struct wait_sum *sums;
    size_t cap;
};

static void syncs_summing_done(struct syncs_summing *s)
{
    name_table_done(&s->texts);
    groups_done(&s->groups);
    free(s->sums);
}

static int64_t syncs_name_around(struct text_numbers *numbers, const struct host_calls *host, int64_t slice)
{
    uint32_t call = (uint64_t)slice < host->n_slices ? host->around[slice] : HOST_CALL_NONE;

    return call == HOST_CALL_NONE ? -1 : op_name_number(numbers, &host->calls[call]);
}

static int syncs_add(struct syncs_summing *s, struct group_key key, int64_t slice, int64_t ns)
{
    int64_t number = groups_number(&s->groups, key);

    if (number < 0)
        return (int)number;
    if (!ARRAY_RESERVE_ZEROED(s->sums, s->cap, s->groups.n))
        return -ENOMEM;
    struct wait_sum *sum = &s->sums[number];
    if (sum->count++ == 0 || ns > sum->max)
        sum->max = ns, sum->max_slice = slice;
    sum->sum += ns;
    return 0;
}

/* All calls of one name. */
static int syncs_add_name(struct analysis *a, size_t rank, uint64_t row, struct syncs_summing *s)
{
    const struct columns *c = a->ranks[rank].columns;
    _cleanup_(text_numbers_done) struct text_numbers numbers = {.c = c, .names = &s->texts};
    const struct host_calls *ops, *frames;
    const struct intervals *times;
    struct name_rows places = name_rows_of(c, row);
    int64_t name = text_numbers_get(&numbers, columns_get(c, COL_name_name, row));
    int r = name < 0 ? (int)name : analysis_ops(a, rank, &ops);

    if (r >= 0)
        r = analysis_frames(a, rank, &frames);
    if (r >= 0)
        r = analysis_times(a, rank, &times);
    for (uint64_t i = places.first; r >= 0 && i < places.end; i++) {
        int64_t slice = columns_get(c, COL_by_name_slice, i);
        if (slice == COLUMN_NULL)
            continue;
        int64_t ts = columns_get(c, COL_slice_ts, (uint64_t)slice),
                dur = columns_get(c, COL_slice_dur, (uint64_t)slice);
        if (dur < 0 || !intervals_find(times, ts))
            continue;
        int64_t op = syncs_name_around(&numbers, ops, slice),
                frame = syncs_name_around(&numbers, frames, slice);
        r = op == -ENOMEM || frame == -ENOMEM
                ? -ENOMEM
                : syncs_add(s, (struct group_key){{name, op, frame}}, slice, dur);
    }
    return r;
}

static int syncs_make_rank(struct analysis *a, size_t rank, struct syncs_summing *s)
{
    const struct columns *c = a->ranks[rank].columns;
    int r = 0;

    for (uint64_t row = 0; r >= 0 && row < columns_rows(c, TABLE_name); row++)
        if (host_kind_of(columns_text(c, columns_get(c, COL_name_category, row))) == HOST_RUNTIME &&
            sync_call_waits(sync_call_of(columns_text(c, columns_get(c, COL_name_name, row)))))
            r = syncs_add_name(a, rank, row, s);
    return r;
}

static void syncs_emit_name(const struct syncs_summing *s, int64_t number, struct report_rows *ret)
{
    if (number < 0)
        emit_null(ret);
    else
        emit_text(ret, s->texts.items[number]);
}

static int syncs_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(syncs_summing_done) struct syncs_summing s = {0};
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = syncs_make_rank(a, i, &s);
    for (size_t i = 0; i < s.groups.n && r >= 0; i++) {
        for (size_t part = 0; part < 3; part++)
            syncs_emit_name(&s, s.groups.items[i].part[part], ret);
        emit_int(ret, (int64_t)s.sums[i].count);
        emit_int(ret, s.sums[i].sum);
        emit_int(ret, s.sums[i].max);
        emit_int(ret, s.sums[i].max_slice);
    }
    return r;
}

const struct report report_syncs = {
    .name = "syncs",
    .title = "calls in which the host waits for the GPU, and their callers",
    .method = "Runtime calls that wait for an event, a stream or the device, blocking copies, and frees of "
              "memory, by the innermost operator and Python frame around them.",
    .is_detail = true,
    .sort_by = "sum_ns",
    .needs_rows = true,
    .columns = syncs_columns,
    .n_columns = ARRAY_SIZE(syncs_columns),
    .make = syncs_make,
};
