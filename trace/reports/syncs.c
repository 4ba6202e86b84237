/* SPDX-License-Identifier: Apache-2.0 */
/* Where the host waits for the GPU. */
#include "base/array.h"
#include "trace/reports/group.h"
#include "trace/reports/name_rows.h"
#include "trace/reports/op_sums.h"
#include "trace/reports/reports.h"
#include "trace/reports/sync_call.h"
#include <errno.h>

static const struct report_column columns[] = {
    {"name", UNIT_TEXT, "the call that waits"},
    {"op", UNIT_TEXT, "the innermost operator or annotation around it"},
    {"frame", UNIT_TEXT, "the innermost Python frame around it"},
    {"count", UNIT_COUNT, "how often"},
    {"sum_ns", UNIT_NS, "time of all of them"},
    {"max_ns", UNIT_NS, "of the longest"},
    {"max_slice", UNIT_ID, "the longest one's slice", IMPORTANCE_EXTRA},
};
#define COLUMN_SUM 4

struct wait_sum {
    uint64_t count;
    int64_t sum, max, max_slice;
};

struct summing {
    struct name_table texts;
    struct groups groups; /* name, operator, frame; -1 for none */
    struct wait_sum *sums;
    size_t cap;
};

static void summing_done(struct summing *s)
{
    name_table_done(&s->texts);
    groups_done(&s->groups);
    free(s->sums);
}

static int64_t name_around(struct text_numbers *numbers, const struct host_calls *host, int64_t slice)
{
    uint32_t call = (uint64_t)slice < host->n_slices ? host->around[slice] : HOST_CALL_NONE;

    return call == HOST_CALL_NONE ? -1 : op_name_number(numbers, &host->calls[call]);
}

static int add(struct summing *s, struct group_key key, int64_t slice, int64_t ns)
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
static int add_name(struct analysis *a, size_t rank, uint64_t row, struct summing *s)
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
        int64_t op = name_around(&numbers, ops, slice), frame = name_around(&numbers, frames, slice);
        r = op == -ENOMEM || frame == -ENOMEM ? -ENOMEM
                                              : add(s, (struct group_key){{name, op, frame}}, slice, dur);
    }
    return r;
}

static int add_rank(struct analysis *a, size_t rank, struct summing *s)
{
    const struct columns *c = a->ranks[rank].columns;
    int r = 0;

    for (uint64_t row = 0; r >= 0 && row < columns_rows(c, TABLE_name); row++)
        if (host_kind_of(columns_text(c, columns_get(c, COL_name_category, row))) == HOST_RUNTIME &&
            sync_call_waits(sync_call_of(columns_text(c, columns_get(c, COL_name_name, row)))))
            r = add_name(a, rank, row, s);
    return r;
}

static void put_name(const struct summing *s, int64_t number, struct report_rows *ret)
{
    if (number < 0)
        put_null(ret);
    else
        put_text(ret, s->texts.items[number]);
}

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(summing_done) struct summing s = {0};
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, &s);
    for (size_t i = 0; i < s.groups.n && r >= 0; i++) {
        for (size_t part = 0; part < 3; part++)
            put_name(&s, s.groups.items[i].part[part], ret);
        put_int(ret, (int64_t)s.sums[i].count);
        put_int(ret, s.sums[i].sum);
        put_int(ret, s.sums[i].max);
        put_int(ret, s.sums[i].max_slice);
    }
    return r < 0 ? r : s.groups.n == 0 ? -ENODATA : report_rows_sort(ret, COLUMN_SUM, true);
}

const struct report report_syncs = {
    .name = "syncs",
    .title = "calls in which the host waits for the GPU, and who called them",
    .how =
        "Calls of the runtime that wait for an event, a stream or the device, copies that return when they "
        "are done, and memory that is given back, by the innermost operator and Python frame around them.",
    .is_detail = true,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
