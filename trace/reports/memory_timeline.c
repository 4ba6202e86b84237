/* SPDX-License-Identifier: Apache-2.0 */
/* Memory over time: every change. */
#include "trace/reports/memory_use.h"
#include "trace/reports/reports.h"

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"device", UNIT_TEXT, "whose memory"},
    {"start_ns", UNIT_NS, "when, counted from the rank's first slice"},
    {"bytes", UNIT_BYTES, "allocated; below 0: freed"},
    {"allocated_bytes", UNIT_BYTES, "in all, from then on"},
    {"reserved_bytes", UNIT_BYTES, "by the allocator"},
    {"slice", UNIT_ID, "the event"},
};

static void put_event(struct analysis *a, size_t rank, uint64_t row, int64_t slice, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    struct memory_device device = {.type = columns_get(c, COL_memory_device_type, row),
                                   .number = columns_get(c, COL_memory_device, row)};
    char name[MEMORY_DEVICE_NAME_MAX];

    put_int(ret, a->ranks[rank].number);
    put_str(ret, memory_device_name(&device, name));
    put_int(ret, analysis_since_first(a, rank, columns_get(c, COL_slice_ts, (uint64_t)slice)));
    put_int(ret, columns_get(c, COL_memory_bytes, row));
    put_int(ret, columns_get(c, COL_memory_allocated, row));
    put_int(ret, columns_get(c, COL_memory_reserved, row));
    put_int(ret, slice);
}

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    const struct intervals *times;
    int r = analysis_times(a, rank, &times);

    for (uint64_t row = 0; r >= 0 && row < columns_rows(c, TABLE_memory); row++) {
        int64_t slice = columns_get(c, COL_memory_slice, row);
        if (slice != COLUMN_NULL && intervals_find(times, columns_get(c, COL_slice_ts, (uint64_t)slice)))
            put_event(a, rank, row, slice, ret);
    }
    return r;
}

const struct report report_memory_timeline = {
    .name = "memory_timeline",
    .title = "memory over time, every change",
    .how = "torch's [memory] events as they are.",
    .needs = NEEDS_MEMORY,
    .is_detail = true,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make_rank = add_rank,
};
