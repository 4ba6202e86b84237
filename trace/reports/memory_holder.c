/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/memory_holder.h"

#include <errno.h>

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
 * and the innermost frame, which is where. A module's frame tells more than that of a function. */
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
static struct memory_holder hold(const struct columns *c, const struct kinds *kinds,
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

static size_t unite(struct memory_holder *items, size_t n)
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
        struct memory_holder h = hold(c, &kinds, use, &use->items[i]);
        known[h.device] = memory_sum(known[h.device], h.peak_bytes);
        if (h.peak_count > 0 || h.unfreed_count > 0)
            ret->items[ret->n++] = h;
    }
    if (ret->n > 0)
        ret->n = unite(ret->items, ret->n);
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
