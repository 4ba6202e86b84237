/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/map.h"

#include "base/hash_table.h"

#define CAP_FIRST 64
/* Keys that differ in these bits only are neighbours, where nobody else is. */
#define NEAR_BITS 5

/* Where the key is, or the free entry where it would be. */
static struct map_entry *find(const struct map *m, uint64_t key, uint32_t sub)
{
    uint64_t hash = hash_words(key >> NEAR_BITS, sub), near = key & ((1 << NEAR_BITS) - 1);
    size_t at = (size_t)(hash << NEAR_BITS | near) & (m->cap - 1);

    /* By steps that differ from key to key: whole neighbourhoods collide, and would push each other on. */
    while (m->entries[at].sub != 0 && (m->entries[at].key != key || m->entries[at].sub != sub + 1))
        at = (at + (size_t)((hash ^ near) >> 7 | 1)) & (m->cap - 1);
    return &m->entries[at];
}

static int grow(struct map *m)
{
    struct map bigger = {.budget = m->budget, .cap = m->cap ? 2 * m->cap : CAP_FIRST, .n = m->n};

    bigger.entries = budget_new(m->budget, bigger.cap, sizeof(*bigger.entries));
    if (!bigger.entries)
        return -ENOMEM;
    for (size_t i = 0; i < m->cap; i++)
        if (m->entries[i].sub != 0)
            *find(&bigger, m->entries[i].key, m->entries[i].sub - 1) = m->entries[i];
    map_done(m);
    *m = bigger;
    return 0;
}

void map_done(struct map *m)
{
    budget_free(m->budget, m->entries, m->cap, sizeof(*m->entries));
    m->entries = NULL;
    m->cap = m->n = 0;
}

uint32_t *map_get(const struct map *m, uint64_t key, uint32_t sub)
{
    struct map_entry *e = m->cap > 0 ? find(m, key, sub) : NULL;

    return e && e->sub != 0 ? &e->value : NULL;
}

uint32_t *map_put(struct map *m, uint64_t key, uint32_t sub, uint32_t value)
{
    struct map_entry *e;

    if (m->n + 1 > m->cap - m->cap / 4 && grow(m) < 0)
        return map_get(m, key, sub);
    e = find(m, key, sub);
    if (e->sub == 0) {
        *e = (struct map_entry){key, sub + 1, value};
        m->n++;
    }
    return &e->value;
}
