/* SPDX-License-Identifier: Apache-2.0 */
/* Who held a device's memory at its peak, and who never freed what it allocated. */
#include "trace/reports/memory_holder.h"
#include "trace/reports/reports.h"

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"device", UNIT_TEXT, "whose memory"},
    {"operator", UNIT_TEXT, "what allocated it: the outermost operator in the frame"},
    {"frame", UNIT_TEXT, "the module, else the innermost Python frame, around the operator"},
    {"peak_bytes", UNIT_BYTES, "theirs at the peak; without operator and frame: of before the trace"},
    {"peak_count", UNIT_COUNT, "allocations, at the peak"},
    {"share", UNIT_SHARE, "of what was allocated at the peak"},
    {"unfreed_bytes", UNIT_BYTES, "theirs when the trace ended"},
    {"unfreed_count", UNIT_COUNT, "allocations, when the trace ended"},
    {"leak", UNIT_TEXT,
     "candidate: it allocated what was not freed in each of the trace's first three quarters"},
};

static void put_holder(const struct analysis *a, size_t rank, const struct memory_use *use,
                       const struct memory_holder *h, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    const struct memory_device *device = &use->devices[h->device];
    char name[MEMORY_DEVICE_NAME_MAX];

    put_int(ret, a->ranks[rank].number);
    put_str(ret, memory_device_name(device, name));
    put_text_or_null(ret, c, h->op);
    put_text_or_null(ret, c, h->frame);
    put_int(ret, h->peak_bytes);
    put_int(ret, (int64_t)h->peak_count);
    put_share(ret, h->peak_bytes, MAX(device->peak, INT64_C(0)));
    put_int(ret, h->unfreed_bytes);
    put_int(ret, (int64_t)h->unfreed_count);
    put_str(ret, memory_holder_leaks(h) ? "candidate" : NULL);
}

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(memory_use_done) struct memory_use use = {0};
    _cleanup_(memory_holders_done) struct memory_holders holders = {0};
    int r = memory_use_read(a, rank, &use);

    if (r >= 0)
        r = memory_holders_read(a->ranks[rank].columns, &use, &holders);
    for (size_t i = 0; r >= 0 && i < holders.n; i++)
        put_holder(a, rank, &use, &holders.items[i], ret);
    return r;
}

const struct report report_memory_holders = {
    .name = "memory_holders",
    .title = "who held the memory at its peak, and who never freed it",
    .how =
        "Allocations that were alive at the device's peak, or when the trace ended, by the operator and the "
        "Python frame that made them.",
    .needs = NEEDS_MEMORY,
    .is_detail = true,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make_rank = add_rank,
};
