/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of each device: how much was allocated and reserved at most, when, and who held most of it. */
#include "trace/reports/memory_holder.h"
#include "trace/reports/reports.h"

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"device", UNIT_TEXT, "whose memory"},
    {"peak_bytes", UNIT_BYTES, "allocated at most"},
    {"peak_at_ns", UNIT_NS, "when that was, counted from the rank's first slice"},
    {"peak_reserved_bytes", UNIT_BYTES, "reserved by the allocator at most"},
    {"peak_cached_bytes", UNIT_BYTES, "reserved and not allocated at most"},
    {"first_bytes", UNIT_BYTES, "allocated when the trace began"},
    {"last_bytes", UNIT_BYTES, "allocated when it ended"},
    {"allocations", UNIT_COUNT, "while the trace ran"},
    {"frees", UNIT_COUNT, "while the trace ran"},
    {"allocated_bytes", UNIT_BYTES, "sum of the allocations"},
    {"unfreed_bytes", UNIT_BYTES, "of these, what was not freed when the trace ended"},
    {"leaking_bytes", UNIT_BYTES, "of these, what those allocated who did so all along (memory_holders)"},
    {"holder", UNIT_TEXT, "the operator that held most at the peak, of those that the trace saw"},
    {"holder_frame", UNIT_TEXT, "the Python frame or module that called it"},
    {"holder_bytes", UNIT_BYTES, "how much"},
};

static void put_device(struct analysis *a, size_t rank, const struct memory_use *use, uint32_t place,
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
    put_int(ret, a->ranks[rank].number);
    put_str(ret, memory_device_name(device, name));
    put_int(ret, device->peak);
    put_int(ret, analysis_since_first(a, rank, device->peak_ts));
    put_int(ret, device->peak_reserved);
    put_int(ret, device->peak_cached);
    put_int(ret, device->first);
    put_int(ret, device->last);
    put_int(ret, (int64_t)device->allocations);
    put_int(ret, (int64_t)device->frees);
    put_int(ret, device->allocated);
    put_int(ret, unfreed);
    put_int(ret, leaking);
    put_text_or_null(ret, c, most ? most->op : COLUMN_NULL);
    put_text_or_null(ret, c, most ? most->frame : COLUMN_NULL);
    put_int(ret, most ? most->peak_bytes : COLUMN_NULL);
}

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(memory_use_done) struct memory_use use = {0};
    _cleanup_(memory_holders_done) struct memory_holders holders = {0};
    int r = memory_use_read(a, rank, &use);

    if (r >= 0)
        r = memory_holders_read(a->ranks[rank].columns, &use, &holders);
    for (size_t i = 0; r >= 0 && i < use.n_devices; i++)
        put_device(a, rank, &use, (uint32_t)i, &holders, ret);
    return r;
}

const struct report report_memory = {
    .name = "memory",
    .title = "memory allocated and reserved, its peak and who held it",
    .how =
        "By torch's [memory] events (profile_memory): the totals are the allocator's own. What an operator "
        "holds is what it allocated and nobody freed by then; what was allocated before the trace began "
        "has no holder.",
    .needs = NEEDS_MEMORY,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make_rank = add_rank,
};
