/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/group.h"

#include "base/array.h"
#include <errno.h>

static bool is_same(const void *owner, size_t number, const void *thing)
{
    const struct groups *groups = owner;

    return memcmp(&groups->items[number], thing, sizeof(struct group_key)) == 0;
}

int64_t groups_number(struct groups *groups, struct group_key key)
{
    if (!ARRAY_RESERVE(groups->items, groups->cap, groups->n + 1))
        return -ENOMEM;
    int64_t number =
        hash_table_number(&groups->numbers, hash_bytes(key.part, sizeof(key.part)), is_same, groups, &key);
    if (number == (int64_t)groups->n)
        groups->items[groups->n++] = key;
    return number;
}

void groups_done(struct groups *groups)
{
    free(groups->items);
    hash_table_done(&groups->numbers);
    *groups = (struct groups){0};
}
