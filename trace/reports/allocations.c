/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/allocations.h"

#include <errno.h>
#include <inttypes.h>

/* -- Memory use ------------------------------------------------------------------------------------------ */

struct allocations_reader {
    struct memory_use *use;
    const struct intervals *times;
    uint32_t *slots; /* by device and address, position of the last allocation there + 1 */
    size_t n_slots;
};

struct allocations_event {
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

static uint32_t *allocations_find_slot(const struct allocations_reader *r, const struct allocations_event *e)
{
    uint64_t h = ((uint64_t)e->address ^ (uint64_t)e->device << 56) * 0x9e3779b97f4a7c15;

    for (size_t at = h >> 32 & (r->n_slots - 1);; at = (at + 1) & (r->n_slots - 1)) {
        uint32_t *slot = &r->slots[at];
        const struct allocation *last = *slot ? &r->use->items[*slot - 1] : NULL;
        if (!last || (last->address == e->address && last->device == e->device))
            return slot;
    }
}

static void take_allocation(struct allocations_reader *r, const struct allocations_event *e)
{
    struct memory_device *device = &r->use->devices[e->device];
    uint32_t *slot = allocations_find_slot(r, e);

    /* Its end was lost. */
    if (*slot && r->use->items[*slot - 1].freed == MEMORY_LIVES)
        r->use->items[*slot - 1].freed = e->ts;
    r->use->items[r->use->n++] =
        (struct allocation){e->ts, MEMORY_LIVES, e->address, e->bytes, e->slice, e->device};
    *slot = (uint32_t)r->use->n;
    device->allocations++;
    device->allocated = memory_sum(device->allocated, e->bytes);
}

static void allocations_take_free(struct allocations_reader *r, const struct allocations_event *e)
{
    struct memory_device *device = &r->use->devices[e->device];
    uint32_t *slot = allocations_find_slot(r, e);

    device->frees++;
    if (*slot && r->use->items[*slot - 1].freed == MEMORY_LIVES)
        r->use->items[*slot - 1].freed = e->ts;
    else
        device->unknown_frees++;
}

static void take_totals(struct allocations_reader *r, const struct allocations_event *e)
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

static int allocations_read_events(struct allocations_reader *r, const struct columns *c)
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
            struct allocations_event e = {.address = addresses[i],
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
                allocations_take_free(r, &e);
            take_totals(r, &e);
        }
    }
    return 0;
}

int memory_use_read(struct analysis *a, size_t rank, struct memory_use *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    struct allocations_reader r = {.use = ret, .n_slots = 64};
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
    return allocations_read_events(&r, c);
}

void memory_use_done(struct memory_use *use)
{
    free(use->items);
    *use = (struct memory_use){0};
}

/* -- Memory holder --------------------------------------------------------------------------------------- */

/* How far up a caller is looked for; parents of a damaged trace may form a circle. */
#define PARENTS_MAX 512
#define QUARTERS    4

bool memory_holder_leaks(const struct memory_holder *holder)
{
    return (holder->unfreed_in & 7) == 7;
}

/* Categories of the trace, looked at once. */
struct kinds {
    int64_t op, old_op, python;
};

static struct kinds kinds_of(const struct columns *c)
{
    return (struct kinds){columns_find_text(c, "cpu_op", 6), columns_find_text(c, "Operator", 8),
                          columns_find_text(c, "python_function", 15)};
}

/* The outermost of the operators around the event that follow each other, which is what the program called;
 * and the innermost frame, which is where. A module's frame is more specific than that of a function. */
static void find_callers(const struct columns *c, const struct kinds *kinds, uint64_t slice,
                         struct memory_holder *ret)
{
    static const char module[] = "nn.Module: ";
    int64_t at = columns_get(c, COL_slice_parent, slice);
    bool has_module = false;

    for (size_t i = 0; i < PARENTS_MAX && at != COLUMN_NULL; i++) {
        int64_t category = columns_get(c, COL_slice_category, (uint64_t)at),
                name = columns_get(c, COL_slice_name, (uint64_t)at);
        struct text text = columns_text(c, name);
        if (category != COLUMN_NULL && (category == kinds->op || category == kinds->old_op)) {
            if (ret->frame == COLUMN_NULL)
                ret->op = name;
        } else if (category != COLUMN_NULL && category == kinds->python && !has_module) {
            has_module = text.size >= sizeof(module) - 1 && memcmp(text.p, module, sizeof(module) - 1) == 0;
            if (ret->frame == COLUMN_NULL || has_module)
                ret->frame = name;
        }
        at = columns_get(c, COL_slice_parent, (uint64_t)at);
    }
}

static int compare_owners(const void *x, const void *y)
{
    const struct memory_holder *a = x, *b = y;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->op != b->op)
        return a->op < b->op ? -1 : 1;
    return (a->frame > b->frame) - (a->frame < b->frame);
}

static int compare_peaks(const void *x, const void *y)
{
    const struct memory_holder *a = x, *b = y;

    if (a->peak_bytes != b->peak_bytes)
        return a->peak_bytes > b->peak_bytes ? -1 : 1;
    if (a->unfreed_bytes != b->unfreed_bytes)
        return a->unfreed_bytes > b->unfreed_bytes ? -1 : 1;
    return compare_owners(x, y);
}

/* The share of one allocation. */
static struct memory_holder memory_holder_hold(const struct columns *c, const struct kinds *kinds,
                                               const struct memory_use *use, const struct allocation *one)
{
    const struct memory_device *device = &use->devices[one->device];
    struct memory_holder h = {.device = one->device, .op = COLUMN_NULL, .frame = COLUMN_NULL};
    int64_t first = columns_meta(c, META_first_ns), last = columns_meta(c, META_last_ns);

    if (device->peak_ts != COLUMN_NULL && one->ts <= device->peak_ts && one->freed > device->peak_ts) {
        h.peak_bytes = one->bytes;
        h.peak_count = 1;
    }
    if (one->freed == MEMORY_LIVES) {
        double part = last > first ? ((double)one->ts - (double)first) / ((double)last - (double)first) : 0;
        h.unfreed_bytes = one->bytes;
        h.unfreed_count = 1;
        h.unfreed_in = 1u << (part < 0 ? 0 : part >= 1 ? QUARTERS - 1 : (unsigned)(part * QUARTERS));
    }
    if (h.peak_count > 0 || h.unfreed_count > 0)
        find_callers(c, kinds, one->slice, &h);
    return h;
}

static size_t memory_holder_unite(struct memory_holder *items, size_t n)
{
    size_t kept = 0;

    qsort(items, n, sizeof(*items), compare_owners);
    for (size_t i = 0; i < n; i++) {
        struct memory_holder *last = kept > 0 ? &items[kept - 1] : NULL;
        if (!last || compare_owners(last, &items[i]) != 0) {
            items[kept++] = items[i];
            continue;
        }
        last->peak_bytes = memory_sum(last->peak_bytes, items[i].peak_bytes);
        last->peak_count += items[i].peak_count;
        last->unfreed_bytes = memory_sum(last->unfreed_bytes, items[i].unfreed_bytes);
        last->unfreed_count += items[i].unfreed_count;
        last->unfreed_in |= items[i].unfreed_in;
    }
    return kept;
}

int memory_holders_read(const struct columns *c, const struct memory_use *use, struct memory_holders *ret)
{
    struct kinds kinds = kinds_of(c);
    int64_t known[MEMORY_DEVICES_MAX] = {0};

    *ret = (struct memory_holders){
        .items = calloc(use->n + MEMORY_DEVICES_MAX + 1, sizeof(*ret->items)),
    };
    if (!ret->items)
        return -ENOMEM;
    for (size_t i = 0; i < use->n; i++) {
        struct memory_holder h = memory_holder_hold(c, &kinds, use, &use->items[i]);
        known[h.device] = memory_sum(known[h.device], h.peak_bytes);
        if (h.peak_count > 0 || h.unfreed_count > 0)
            ret->items[ret->n++] = h;
    }
    if (ret->n > 0)
        ret->n = memory_holder_unite(ret->items, ret->n);
    for (uint32_t i = 0; i < use->n_devices; i++)
        if (use->devices[i].peak > known[i])
            ret->items[ret->n++] = (struct memory_holder){.device = i,
                                                          .op = COLUMN_NULL,
                                                          .frame = COLUMN_NULL,
                                                          .peak_bytes = use->devices[i].peak - known[i]};
    if (ret->n > 0)
        qsort(ret->items, ret->n, sizeof(*ret->items), compare_peaks);
    return 0;
}

void memory_holders_done(struct memory_holders *holders)
{
    free(holders->items);
    *holders = (struct memory_holders){0};
}
