/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of each device: how much was allocated and reserved at most, when, and who held most of it. */
#include "trace/reports/allocations.h"
#include "trace/reports/report.h"

/* -- Memory ---------------------------------------------------------------------------------------------- */

#define MEMORY_COLUMNS(C)                                                                                    \
    RANK_COLUMN(C)                                                                                           \
    C(device, TEXT, "device of the memory")                                                                  \
    C(peak_bytes, BYTES, "maximum allocated bytes")                                                          \
    C(peak_at_ns, NS, "time of the maximum, relative to the first slice of the rank")                        \
    C(peak_reserved_bytes, BYTES, "maximum bytes reserved by the allocator")                                 \
    C(peak_cached_bytes, BYTES, "maximum bytes reserved and not allocated")                                  \
    C(first_bytes, BYTES, "allocated bytes at the start of the trace")                                       \
    C(last_bytes, BYTES, "allocated bytes at the end of the trace")                                          \
    C(allocations, COUNT, "number of allocations in the trace")                                              \
    C(frees, COUNT, "number of frees in the trace")                                                          \
    C(allocated_bytes, BYTES, "total bytes of these allocations")                                            \
    C(unfreed_bytes, BYTES, "part of allocated_bytes not freed at the end of the trace")                     \
    C(leaking_bytes, BYTES, "part of unfreed_bytes held by leak candidates (memory_holders)")                \
    C(holder, TEXT, "operator that held the most at the peak, among the recorded allocations")               \
    C(holder_frame, TEXT, "Python frame or module that called the operator")                                 \
    C(holder_bytes, BYTES, "bytes held by that operator at the peak")
REPORT_ROW(memory, MEMORY_COLUMNS);

static void emit_device(struct analysis *a, size_t rank, const struct memory_use *use, uint32_t position,
                        const struct memory_holders *holders, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    const struct memory_device *device = &use->devices[position];
    const struct memory_holder *most = NULL;
    int64_t unfreed = 0, leaking = 0;
    char name[MEMORY_DEVICE_NAME_MAX];

    for (size_t i = 0; i < holders->n; i++) {
        const struct memory_holder *h = &holders->items[i];
        if (h->device != position)
            continue;
        unfreed = memory_sum(unfreed, h->unfreed_bytes);
        leaking = memory_sum(leaking, memory_holder_leaks(h) ? h->unfreed_bytes : 0);
        if (!most && h->peak_count > 0)
            most = h;
    }
    EMIT_ROW(memory, ret, .rank = a->ranks[rank].number, .device = row_str(memory_device_name(device, name)),
             .peak_bytes = device->peak, .peak_at_ns = analysis_since_first(a, rank, device->peak_ts),
             .peak_reserved_bytes = device->peak_reserved, .peak_cached_bytes = device->peak_cached,
             .first_bytes = device->first, .last_bytes = device->last,
             .allocations = (int64_t)device->allocations, .frees = (int64_t)device->frees,
             .allocated_bytes = device->allocated, .unfreed_bytes = unfreed, .leaking_bytes = leaking,
             .holder = row_text(c, most ? most->op : COLUMN_NULL),
             .holder_frame = row_text(c, most ? most->frame : COLUMN_NULL),
             .holder_bytes = most ? most->peak_bytes : COLUMN_NULL);
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
    REPORT_COLUMNS(memory),
    .make_rank = memory_make_rank,
};

/* -- Memory holders -------------------------------------------------------------------------------------- */

#define MEMORY_HOLDERS_COLUMNS(C)                                                                            \
    RANK_COLUMN(C)                                                                                           \
    C(device, TEXT, "device of the memory")                                                                  \
    C(operator, TEXT, "operator that allocated it: the outermost one within the frame")                      \
    C(frame, TEXT, "module, or innermost Python frame, around the operator")                                 \
    C(peak_bytes, BYTES, "bytes held at the peak; without operator and frame: allocated before the trace")   \
    C(peak_count, COUNT, "number of allocations held at the peak")                                           \
    C(share, SHARE, "peak_bytes divided by all allocated bytes at the peak")                                 \
    C(unfreed_bytes, BYTES, "bytes not freed at the end of the trace")                                       \
    C(unfreed_count, COUNT, "number of allocations not freed at the end of the trace")                       \
    C(leak, TEXT, "candidate: it left allocations unfreed in each of the first three quarters of the trace")
REPORT_ROW(memory_holders, MEMORY_HOLDERS_COLUMNS);

static void emit_holder(const struct analysis *a, size_t rank, const struct memory_use *use,
                        const struct memory_holder *h, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    const struct memory_device *device = &use->devices[h->device];
    char name[MEMORY_DEVICE_NAME_MAX];

    EMIT_ROW(memory_holders, ret, .rank = a->ranks[rank].number,
             .device = row_str(memory_device_name(device, name)), .operator= row_text(c, h->op),
             .frame = row_text(c, h->frame), .peak_bytes = h->peak_bytes,
             .peak_count = (int64_t)h->peak_count,
             .share = row_share(h->peak_bytes, MAX(device->peak, INT64_C(0))),
             .unfreed_bytes = h->unfreed_bytes, .unfreed_count = (int64_t)h->unfreed_count,
             .leak = row_str(memory_holder_leaks(h) ? "candidate" : NULL));
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
    REPORT_COLUMNS(memory_holders),
    .make_rank = memory_holders_make_rank,
};

/* -- Memory timeline ------------------------------------------------------------------------------------- */

#define MEMORY_TIMELINE_COLUMNS(C)                                                                           \
    RANK_COLUMN(C)                                                                                           \
    C(device, TEXT, "device of the memory")                                                                  \
    C(start_ns, NS, "time of the event, relative to the first slice of the rank")                            \
    C(bytes, BYTES, "allocated bytes; negative for a free")                                                  \
    C(allocated_bytes, BYTES, "total allocated bytes after the event")                                       \
    C(reserved_bytes, BYTES, "bytes reserved by the allocator")                                              \
    C(slice, ID, "slice number of the event")
REPORT_ROW(memory_timeline, MEMORY_TIMELINE_COLUMNS);

static void memory_timeline_emit_event(struct analysis *a, size_t rank, uint64_t row, int64_t slice,
                                       struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    struct memory_device device = {.type = columns_get(c, COL_memory_device_type, row),
                                   .number = columns_get(c, COL_memory_device, row)};
    char name[MEMORY_DEVICE_NAME_MAX];

    EMIT_ROW(memory_timeline, ret, .rank = a->ranks[rank].number,
             .device = row_str(memory_device_name(&device, name)),
             .start_ns = analysis_since_first(a, rank, columns_get(c, COL_slice_ts, (uint64_t)slice)),
             .bytes = columns_get(c, COL_memory_bytes, row),
             .allocated_bytes = columns_get(c, COL_memory_allocated, row),
             .reserved_bytes = columns_get(c, COL_memory_reserved, row), .slice = slice);
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
    REPORT_COLUMNS(memory_timeline),
    .make_rank = memory_timeline_make_rank,
};
