/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/budget.h"

#include "base/hash_table.h"

/* -- Budget --------------------------------------------------------------------------------------------- */

#define FIRST_ITEMS 16

/* Returns -ENOMEM if `size` more bytes exceed the limit. */
static int budget_take(struct budget *b, uint64_t size)
{
    if (size <= b->max && atomic_fetch_add(&b->used, size) <= b->max - size)
        return 0;
    if (size <= b->max)
        b->used -= size;
    return -ENOMEM;
}

void *budget_new(struct budget *b, size_t n, size_t size)
{
    void *p;

    if (n > SIZE_MAX / size || budget_take(b, n * size) < 0)
        return NULL;
    p = calloc(MAX(n, (size_t)1), size);
    if (!p)
        b->used -= n * size;
    return p;
}

void budget_free_bytes(struct budget *b, void *p, size_t bytes)
{
    if (p)
        b->used -= bytes;
    free(p);
}

int budget_extend(struct budget *b, void *array, size_t *cap, size_t n, size_t size)
{
    size_t want = MAX(MAX(n, *cap + *cap / 2), (size_t)FIRST_ITEMS);
    void *p;
    int r;

    if (want > SIZE_MAX / size)
        return -ENOMEM;
    r = budget_take(b, (want - *cap) * size);
    if (r < 0)
        return r;
    p = realloc(*(void **)array, want * size);
    if (!p) {
        b->used -= (want - *cap) * size;
        return -ENOMEM;
    }
    memset((uint8_t *)p + *cap * size, 0, (want - *cap) * size);
    *(void **)array = p;
    *cap = want;
    return 0;
}

/* -- Number map ----------------------------------------------------------------------------------------- */

#define CAP_FIRST 64

/* Returns the entry of the key, or the free entry where it belongs. key: without its last bits. */
static struct number_map_entry *number_map_find(const struct number_map *m, uint64_t key, uint32_t sub)
{
    size_t at = (size_t)hash_words(key, sub) & (m->cap - 1);

    while (m->entries[at].sub != 0 && (m->entries[at].key != key || m->entries[at].sub != sub + 1))
        at = (at + 1) & (m->cap - 1);
    return &m->entries[at];
}

static int number_map_grow(struct number_map *m)
{
    struct number_map bigger = {.budget = m->budget, .cap = m->cap ? 2 * m->cap : CAP_FIRST, .n = m->n};

    bigger.entries = budget_new(m->budget, bigger.cap, sizeof(*bigger.entries));
    if (!bigger.entries)
        return -ENOMEM;
    for (size_t i = 0; i < m->cap; i++)
        if (m->entries[i].sub != 0)
            *number_map_find(&bigger, m->entries[i].key, m->entries[i].sub - 1) = m->entries[i];
    number_map_done(m);
    *m = bigger;
    return 0;
}

void number_map_done(struct number_map *m)
{
    BUDGET_FREE(m->budget, m->entries, m->cap);
    m->entries = NULL;
    m->cap = m->n = 0;
}

/* Returns the entry of the key, or the free entry where it belongs; m has entries. */
static struct number_map_entry *number_map_use(struct number_map *m, uint64_t key, uint32_t sub)
{
    struct number_map_entry *e = &m->entries[m->latest];

    if (e->key != key || e->sub != sub + 1) {
        e = number_map_find(m, key, sub);
        m->latest = (size_t)(e - m->entries);
    }
    return e;
}

uint32_t *number_map_get(struct number_map *m, uint64_t key, uint32_t sub)
{
    unsigned near = key & (NUMBER_MAP_NEAR - 1);
    struct number_map_entry *e = m->cap > 0 ? number_map_use(m, key >> NUMBER_MAP_NEAR_BITS, sub) : NULL;

    /* A free entry has no values. */
    return e && (e->present >> near & 1) ? &e->values[near] : NULL;
}

uint32_t *number_map_put(struct number_map *m, uint64_t key, uint32_t sub, uint32_t value)
{
    unsigned near = key & (NUMBER_MAP_NEAR - 1);
    struct number_map_entry *e;

    if (m->n + 1 > m->cap - m->cap / 4 && number_map_grow(m) < 0)
        return number_map_get(m, key, sub);
    e = number_map_use(m, key >> NUMBER_MAP_NEAR_BITS, sub);
    if (e->sub == 0) {
        e->key = key >> NUMBER_MAP_NEAR_BITS;
        e->sub = sub + 1;
        m->n++;
    }
    if (!(e->present >> near & 1)) {
        e->present |= 1u << near;
        e->values[near] = value;
    }
    return &e->values[near];
}
