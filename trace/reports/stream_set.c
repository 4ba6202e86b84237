/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/stream_set.h"

#include "base/array.h"
#include <errno.h>

static bool is_same(const void *owner, size_t number, const void *thing)
{
    const struct stream_set *set = owner;
    const struct gpu_stream *a = &set->items[number], *b = thing;

    return a->device == b->device && a->id == b->id;
}

int64_t stream_set_number(struct stream_set *set, int64_t device, int64_t id)
{
    struct gpu_stream stream = {device, id};

    /* Work comes in bursts of one stream. */
    if (set->last < set->n && is_same(set, set->last, &stream))
        return (int64_t)set->last;
    if (!ARRAY_RESERVE(set->items, set->cap, set->n + 1))
        return -ENOMEM;
    int64_t number =
        hash_table_number(&set->numbers, hash_words((uint64_t)device, (uint64_t)id), is_same, set, &stream);
    if (number == (int64_t)set->n)
        set->items[set->n++] = stream;
    if (number >= 0)
        set->last = (size_t)number;
    return number;
}

void stream_set_done(struct stream_set *set)
{
    free(set->items);
    hash_table_done(&set->numbers);
    *set = (struct stream_set){0};
}
