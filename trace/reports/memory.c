/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of each device: how much was allocated and reserved at most, when, and who held most of it. */
#include "trace/reports/allocations.h"
#include "trace/reports/report.h"

/* -- Memory ---------------------------------------------------------------------------------------------- */

static const struct report_column memory_columns[] = {
    RANK_COLUMN,
    {"device", UNIT_TEXT, "device of the memory"},
    {"peak_bytes", UNIT_BYTES, "maximum allocated bytes"},
    {"peak_at_ns", UNIT_NS, "time of the maximum, relative to the first slice of the rank"},
    {"peak_reserved_bytes", UNIT_BYTES, "maximum bytes reserved by the allocator"},
    {"peak_cached_bytes", UNIT_BYTES, "maximum bytes reserved and not allocated"},
    {"first_bytes", UNIT_BYTES, "allocated bytes at the start of the trace"},
    {"last_bytes", UNIT_BYTES, "allocated bytes at the end of the trace"},
    {"allocations", UNIT_COUNT, "number of allocations in the trace"},
    {"frees", UNIT_COUNT, "number of frees in the trace"},
    {"allocated_bytes", UNIT_BYTES, "total bytes of these allocations"},
    {"unfreed_bytes", UNIT_BYTES, "part of allocated_bytes not freed at the end of the trace"},
    {"leaking_bytes", UNIT_BYTES, "part of unfreed_bytes held by leak candidates (memory_holders)"},
    {"holder", UNIT_TEXT, "operator that held the most at the peak, among the recorded allocations"},
    {"holder_frame", UNIT_TEXT, "Python frame or module that called the operator"},
    {"holder_bytes", UNIT_BYTES, "bytes held by that operator at the peak"},
};

static void emit_device(struct analysis *a, size_t rank, const struct memory_use *use, uint32_t place,
                        const struct memory_holders *holders, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    const struct memory_device *device = &use->devices[place];
    const struct memory_holder *most = NULL;
    int64_t unfreed = 0, leaking = 0;
    char name[MEMORY_DEVICE_NAME_MAX];

    for (size_t i = 0; i < holders->n; i++) {
        const struct memory_holder *h = &holders->items[i];
        if (h->device != place)
            continue;
        unfreed = memory_sum(unfreed, h->unfreed_bytes);
        leaking = memory_sum(leaking, memory_holder_leaks(h) ? h->unfreed_bytes : 0);
        if (!most && h->peak_count > 0)
            most = h;
    }
    emit_int(ret, a->ranks[rank].number);
    emit_str(ret, memory_device_name(device, name));
    emit_int(ret, device->peak);
    emit_int(ret, analysis_since_first(a, rank, device->peak_ts));
    emit_int(ret, device->peak_reserved);
    emit_int(ret, device->peak_cached);
    emit_int(ret, device->first);
    emit_int(ret, device->last);
    emit_int(ret, (int64_t)device->allocations);
    emit_int(ret, (int64_t)device->frees);
    emit_int(ret, device->allocated);
    emit_int(ret, unfreed);
    emit_int(ret, leaking);
    emit_text_by_number(ret, c, most ? most->op : COLUMN_NULL);
    emit_text_by_number(ret, c, most ? most->frame : COLUMN_NULL);
    emit_int(ret, most ? most->peak_bytes : COLUMN_NULL);
}

static int memory_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(memory_use_done) struct memory_use use = {0};
    _cleanup_(memory_holders_done) struct memory_holders holders = {0};
    int r = memory_use_read(a, rank, &use);

    if (r >= 0)
        r = memory_holders_read(a->ranks[rank].columns, &use, &holders);
    for (size_t i = 0; r >= 0 && i < use.n_devices; i++)
        emit_device(a, rank, &use, (uint32_t)i, &holders, ret);
    return r;
}

const struct report report_memory = {
    .name = "memory",
    .title = "allocated and reserved memory, its peak and its holders",
    .method = "From the [memory] events of torch (profile_memory): the totals are those of the allocator. "
              "An operator holds the memory that it allocated and that is not yet freed; memory allocated "
              "before the trace has no holder.",
    .needs = NEEDS_MEMORY,
    .columns = memory_columns,
    .n_columns = ARRAY_SIZE(memory_columns),
    .make_rank = memory_make_rank,
};

/* -- Memory holders -------------------------------------------------------------------------------------- */

/* Who held a device's memory at its peak, and who never freed what it allocated. */

static const struct report_column memory_holders_columns[] = {
    RANK_COLUMN,
    {"device", UNIT_TEXT, "device of the memory"},
    {"operator", UNIT_TEXT, "operator that allocated it: the outermost one within the frame"},
    {"frame", UNIT_TEXT, "module, or innermost Python frame, around the operator"},
    {"peak_bytes", UNIT_BYTES,
     "bytes held at the peak; without operator and frame: allocated before the trace"},
    {"peak_count", UNIT_COUNT, "number of allocations held at the peak"},
    {"share", UNIT_SHARE, "peak_bytes divided by all allocated bytes at the peak"},
    {"unfreed_bytes", UNIT_BYTES, "bytes not freed at the end of the trace"},
    {"unfreed_count", UNIT_COUNT, "number of allocations not freed at the end of the trace"},
    {"leak", UNIT_TEXT,
     "candidate: it left allocations unfreed in each of the first three quarters of the trace"},
};

static void emit_holder(const struct analysis *a, size_t rank, const struct memory_use *use,
                        const struct memory_holder *h, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    const struct memory_device *device = &use->devices[h->device];
    char name[MEMORY_DEVICE_NAME_MAX];

    emit_int(ret, a->ranks[rank].number);
    emit_str(ret, memory_device_name(device, name));
    emit_text_by_number(ret, c, h->op);
    emit_text_by_number(ret, c, h->frame);
    emit_int(ret, h->peak_bytes);
    emit_int(ret, (int64_t)h->peak_count);
    emit_share(ret, h->peak_bytes, MAX(device->peak, INT64_C(0)));
    emit_int(ret, h->unfreed_bytes);
    emit_int(ret, (int64_t)h->unfreed_count);
    emit_str(ret, memory_holder_leaks(h) ? "candidate" : NULL);
}

static int memory_holders_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(memory_use_done) struct memory_use use = {0};
    _cleanup_(memory_holders_done) struct memory_holders holders = {0};
    int r = memory_use_read(a, rank, &use);

    if (r >= 0)
        r = memory_holders_read(a->ranks[rank].columns, &use, &holders);
    for (size_t i = 0; r >= 0 && i < holders.n; i++)
        emit_holder(a, rank, &use, &holders.items[i], ret);
    return r;
}

const struct report report_memory_holders = {
    .name = "memory_holders",
    .title = "holders of the memory at its peak, and of unfreed memory",
    .method = "Allocations that were live at the peak of the device, or at the end of the trace, by the "
              "operator and the Python frame that made them.",
    .needs = NEEDS_MEMORY,
    .is_detail = true,
    .columns = memory_holders_columns,
    .n_columns = ARRAY_SIZE(memory_holders_columns),
    .make_rank = memory_holders_make_rank,
};

/* -- Memory timeline ------------------------------------------------------------------------------------- */

/* Memory over time: every change. */

static const struct report_column memory_timeline_columns[] = {
    RANK_COLUMN,
    {"device", UNIT_TEXT, "device of the memory"},
    {"start_ns", UNIT_NS, "time of the event, relative to the first slice of the rank"},
    {"bytes", UNIT_BYTES, "allocated bytes; negative for a free"},
    {"allocated_bytes", UNIT_BYTES, "total allocated bytes after the event"},
    {"reserved_bytes", UNIT_BYTES, "bytes reserved by the allocator"},
    {"slice", UNIT_ID, "slice number of the event"},
};

static void memory_timeline_emit_event(struct analysis *a, size_t rank, uint64_t row, int64_t slice,
                                       struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    struct memory_device device = {.type = columns_get(c, COL_memory_device_type, row),
                                   .number = columns_get(c, COL_memory_device, row)};
    char name[MEMORY_DEVICE_NAME_MAX];

    emit_int(ret, a->ranks[rank].number);
    emit_str(ret, memory_device_name(&device, name));
    emit_int(ret, analysis_since_first(a, rank, columns_get(c, COL_slice_ts, (uint64_t)slice)));
    emit_int(ret, columns_get(c, COL_memory_bytes, row));
    emit_int(ret, columns_get(c, COL_memory_allocated, row));
    emit_int(ret, columns_get(c, COL_memory_reserved, row));
    emit_int(ret, slice);
}

static int memory_timeline_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    const struct intervals *times;
    int r = analysis_times(a, rank, &times);

    for (uint64_t row = 0; r >= 0 && row < columns_rows(c, TABLE_memory); row++) {
        int64_t slice = columns_get(c, COL_memory_slice, row);
        if (slice != COLUMN_NULL && intervals_find(times, columns_get(c, COL_slice_ts, (uint64_t)slice)))
            memory_timeline_emit_event(a, rank, row, slice, ret);
    }
    return r;
}

const struct report report_memory_timeline = {
    .name = "memory_timeline",
    .title = "memory over time, every change",
    .method = "The [memory] events of torch.",
    .needs = NEEDS_MEMORY,
    .is_detail = true,
    .columns = memory_timeline_columns,
    .n_columns = ARRAY_SIZE(memory_timeline_columns),
    .make_rank = memory_timeline_make_rank,
};
