/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/group.h"

#include "trace/reports/array.h"
#include <errno.h>

static bool is_same(const void *owner, size_t number, const void *thing)
{
    const struct groups *groups = owner;

    return memcmp(&groups->items[number], thing, sizeof(struct group_key)) == 0;
}

int64_t groups_number(struct groups *groups, struct group_key key)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < GROUP_PARTS; i++)
        hash = hash_number(hash, (uint64_t)key.part[i]);
    if (!ARRAY_ROOM(groups->items, groups->cap, groups->n + 1))
        return -ENOMEM;
    int64_t number = number_table_find(&groups->numbers, hash, is_same, groups, &key);
    if (number == (int64_t)groups->n)
        groups->items[groups->n++] = key;
    return number;
}

void groups_done(struct groups *groups)
{
    free(groups->items);
    number_table_done(&groups->numbers);
    *groups = (struct groups){0};
}
