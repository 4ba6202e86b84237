/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/stream_set.h"

#include <errno.h>

static size_t slot_of(const struct stream_set *set, const struct gpu_stream *stream)
{
    uint64_t h = ((uint64_t)stream->device * 0x9e3779b97f4a7c15 ^ (uint64_t)stream->id) * 0xff51afd7ed558ccd;

    return (size_t)(h ^ h >> 32) & (set->n_slots - 1);
}

static bool is_same(const struct gpu_stream *a, const struct gpu_stream *b)
{
    return a->device == b->device && a->id == b->id;
}

static int grow(struct stream_set *set)
{
    size_t n_slots = set->n_slots ? set->n_slots * 2 : 64;
    uint32_t *slots = calloc(n_slots, sizeof(*slots));
    struct gpu_stream *items = reallocarray(set->items, n_slots / 2, sizeof(*items));

    if (items)
        set->items = items;
    if (!slots || !items) {
        free(slots);
        return -ENOMEM;
    }
    free(set->slots);
    set->slots = slots;
    set->n_slots = n_slots;
    set->cap = n_slots / 2;
    for (size_t i = 0; i < set->n; i++) {
        size_t at = slot_of(set, &items[i]);
        while (slots[at])
            at = (at + 1) & (n_slots - 1);
        slots[at] = (uint32_t)i + 1;
    }
    return 0;
}

int64_t stream_set_number(struct stream_set *set, int64_t device, int64_t id)
{
    struct gpu_stream stream = {device, id};

    /* Work comes in bursts of one stream. */
    if (set->last < set->n && is_same(&set->items[set->last], &stream))
        return (int64_t)set->last;
    if (set->n == set->cap && grow(set) < 0)
        return -ENOMEM;
    size_t at = slot_of(set, &stream);
    while (set->slots[at] && !is_same(&set->items[set->slots[at] - 1], &stream))
        at = (at + 1) & (set->n_slots - 1);
    if (!set->slots[at]) {
        set->items[set->n] = stream;
        set->slots[at] = (uint32_t)++set->n;
    }
    set->last = set->slots[at] - 1;
    return (int64_t)set->last;
}

void stream_set_done(struct stream_set *set)
{
    free(set->items);
    free(set->slots);
    *set = (struct stream_set){0};
}
