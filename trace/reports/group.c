/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/group.h"

#include <errno.h>

static uint64_t hash(const struct group_key *key)
{
    uint64_t h = 0;

    for (size_t i = 0; i < GROUP_PARTS; i++) {
        h = (h ^ (uint64_t)key->part[i]) * 0x9e3779b97f4a7c15;
        h ^= h >> 32;
    }
    return h;
}

static int grow(struct groups *groups)
{
    size_t n_slots = groups->n_slots ? groups->n_slots * 2 : 256;
    uint32_t *slots = calloc(n_slots, sizeof(*slots));
    struct group_key *items = reallocarray(groups->items, n_slots / 2, sizeof(*items));

    if (items)
        groups->items = items;
    if (!slots || !items) {
        free(slots);
        return -ENOMEM;
    }
    for (size_t i = 0; i < groups->n; i++) {
        size_t at = hash(&items[i]) & (n_slots - 1);
        while (slots[at])
            at = (at + 1) & (n_slots - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(groups->slots);
    groups->slots = slots;
    groups->n_slots = n_slots;
    groups->cap = n_slots / 2;
    return 0;
}

int64_t groups_number(struct groups *groups, struct group_key key)
{
    if (groups->n == groups->cap && grow(groups) < 0)
        return -ENOMEM;
    size_t at = hash(&key) & (groups->n_slots - 1);
    for (; groups->slots[at]; at = (at + 1) & (groups->n_slots - 1))
        if (memcmp(&groups->items[groups->slots[at] - 1], &key, sizeof(key)) == 0)
            return groups->slots[at] - 1;
    groups->items[groups->n] = key;
    groups->slots[at] = (uint32_t)++groups->n;
    return (int64_t)groups->n - 1;
}

void groups_done(struct groups *groups)
{
    free(groups->items);
    free(groups->slots);
    *groups = (struct groups){0};
}
