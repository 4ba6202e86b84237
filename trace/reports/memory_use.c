/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/memory_use.h"

#include <errno.h>
#include <inttypes.h>

struct reader {
    struct memory_use *use;
    const struct intervals *times;
    uint32_t *slots; /* by device and address, place of the last allocation there + 1 */
    size_t n_slots;
};

struct event {
    int64_t ts, address, bytes, allocated, reserved;
    uint64_t slice;
    uint32_t device;
};

/* c10's numbers. */
static const char *const device_types[] = {
    [0] = "cpu", [1] = "cuda", [6] = "hip", [9] = "xla", [12] = "xpu", [13] = "mps", [14] = "meta",
};

const char *memory_device_name(const struct memory_device *device, char buf[MEMORY_DEVICE_NAME_MAX])
{
    bool is_known =
        device->type >= 0 && device->type < (int64_t)ARRAY_SIZE(device_types) && device_types[device->type];
    const char *type = is_known ? device_types[device->type] : "device";

    if (device->number >= 0)
        snprintf(buf, MEMORY_DEVICE_NAME_MAX, "%s:%" PRId64, type, device->number);
    else
        snprintf(buf, MEMORY_DEVICE_NAME_MAX, "%s", type);
    return buf;
}

static uint32_t find_device(struct memory_use *use, int64_t type, int64_t number)
{
    for (size_t i = 0; i < use->n_devices; i++)
        if (use->devices[i].type == type && use->devices[i].number == number)
            return (uint32_t)i;
    if (use->n_devices == MEMORY_DEVICES_MAX)
        return MEMORY_DEVICES_MAX;
    use->devices[use->n_devices] = (struct memory_device){.type = type,
                                                          .number = number,
                                                          .first = COLUMN_NULL,
                                                          .last = COLUMN_NULL,
                                                          .peak = COLUMN_NULL,
                                                          .peak_ts = COLUMN_NULL,
                                                          .peak_reserved = COLUMN_NULL,
                                                          .peak_cached = COLUMN_NULL};
    return (uint32_t)use->n_devices++;
}

static uint32_t *find_slot(const struct reader *r, const struct event *e)
{
    uint64_t h = ((uint64_t)e->address ^ (uint64_t)e->device << 56) * 0x9e3779b97f4a7c15;

    for (size_t at = h >> 32 & (r->n_slots - 1);; at = (at + 1) & (r->n_slots - 1)) {
        uint32_t *slot = &r->slots[at];
        const struct allocation *last = *slot ? &r->use->items[*slot - 1] : NULL;
        if (!last || (last->address == e->address && last->device == e->device))
            return slot;
    }
}

static void take_allocation(struct reader *r, const struct event *e)
{
    struct memory_device *device = &r->use->devices[e->device];
    uint32_t *slot = find_slot(r, e);

    /* Its end was lost. */
    if (*slot && r->use->items[*slot - 1].freed == MEMORY_LIVES)
        r->use->items[*slot - 1].freed = e->ts;
    r->use->items[r->use->n++] =
        (struct allocation){e->ts, MEMORY_LIVES, e->address, e->bytes, e->slice, e->device};
    *slot = (uint32_t)r->use->n;
    device->allocations++;
    device->allocated = memory_sum(device->allocated, e->bytes);
}

static void take_free(struct reader *r, const struct event *e)
{
    struct memory_device *device = &r->use->devices[e->device];
    uint32_t *slot = find_slot(r, e);

    device->frees++;
    if (*slot && r->use->items[*slot - 1].freed == MEMORY_LIVES)
        r->use->items[*slot - 1].freed = e->ts;
    else
        device->unknown_frees++;
}

static void take_totals(struct reader *r, const struct event *e)
{
    struct memory_device *device = &r->use->devices[e->device];
    int64_t cached;

    if (device->first == COLUMN_NULL && e->allocated != COLUMN_NULL &&
        __builtin_sub_overflow(e->allocated, e->bytes, &device->first))
        device->first = COLUMN_NULL;
    device->last = e->allocated == COLUMN_NULL ? device->last : e->allocated;
    if (!intervals_find(r->times, e->ts))
        return;
    if (e->allocated > device->peak) {
        device->peak = e->allocated;
        device->peak_ts = e->ts;
    }
    device->peak_reserved = MAX(device->peak_reserved, e->reserved);
    if (e->allocated >= 0 && e->reserved >= 0 && !__builtin_sub_overflow(e->reserved, e->allocated, &cached))
        device->peak_cached = MAX(device->peak_cached, cached);
}

static int read_events(struct reader *r, const struct columns *c)
{
    int64_t slices[BLOCK_ROWS], addresses[BLOCK_ROWS], bytes[BLOCK_ROWS], allocated[BLOCK_ROWS],
        reserved[BLOCK_ROWS], types[BLOCK_ROWS], numbers[BLOCK_ROWS];

    for (uint64_t first = 0, rows = columns_rows(c, TABLE_memory); first < rows; first += BLOCK_ROWS) {
        size_t n = columns_block(c, COL_memory_slice, first, BLOCK_ROWS, slices);
        columns_block(c, COL_memory_address, first, BLOCK_ROWS, addresses);
        columns_block(c, COL_memory_bytes, first, BLOCK_ROWS, bytes);
        columns_block(c, COL_memory_allocated, first, BLOCK_ROWS, allocated);
        columns_block(c, COL_memory_reserved, first, BLOCK_ROWS, reserved);
        columns_block(c, COL_memory_device_type, first, BLOCK_ROWS, types);
        columns_block(c, COL_memory_device, first, BLOCK_ROWS, numbers);
        for (size_t i = 0; i < n; i++) {
            struct event e = {.address = addresses[i],
                              .bytes = bytes[i],
                              .allocated = allocated[i],
                              .reserved = reserved[i],
                              .slice = (uint64_t)slices[i],
                              .ts = slices[i] == COLUMN_NULL
                                        ? COLUMN_NULL
                                        : columns_get(c, COL_slice_ts, (uint64_t)slices[i])};
            e.device = e.ts == COLUMN_NULL || e.bytes == COLUMN_NULL || e.bytes == 0
                           ? MEMORY_DEVICES_MAX
                           : find_device(r->use, types[i], numbers[i]);
            if (e.device == MEMORY_DEVICES_MAX)
                continue;
            if (e.bytes > 0)
                take_allocation(r, &e);
            else
                take_free(r, &e);
            take_totals(r, &e);
        }
    }
    return 0;
}

int memory_use_read(struct analysis *a, size_t rank, struct memory_use *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    struct reader r = {.use = ret, .n_slots = 64};
    int err = analysis_times(a, rank, &r.times);

    *ret = (struct memory_use){0};
    if (err < 0)
        return err;
    uint64_t rows = columns_rows(c, TABLE_memory);
    while (r.n_slots < rows * 2)
        r.n_slots *= 2;
    ret->items = calloc(rows + 1, sizeof(*ret->items));
    _cleanup_(freep) uint32_t *slots = calloc(r.n_slots, sizeof(*slots));
    if (!ret->items || !slots || rows >= UINT32_MAX)
        return -ENOMEM;
    r.slots = slots;
    return read_events(&r, c);
}

void memory_use_done(struct memory_use *use)
{
    free(use->items);
    *use = (struct memory_use){0};
}
