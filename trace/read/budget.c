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

#define SLOTS_FIRST 64
/* Entries whose keys differ only in these bits have slots in one cache line, unless these are taken. */
#define LINE_BITS 4

/* Returns the slot of the key, or the free slot where it belongs. key: without its last bits. */
static uint32_t *number_map_slot(const struct number_map *m, uint64_t key, uint32_t sub)
{
    uint64_t line = hash_words(key >> LINE_BITS, sub);
    size_t at = (size_t)(line << LINE_BITS | (key & ((1 << LINE_BITS) - 1))) & (m->n_slots - 1);

    for (; m->slots[at] != 0; at = (at + 1) & (m->n_slots - 1)) {
        const struct number_map_entry *e = &m->entries[m->slots[at] - 1];

        if (e->key == key && e->sub == sub)
            break;
    }
    return &m->slots[at];
}

static int number_map_grow(struct number_map *m)
{
    size_t before = m->n_slots, n_slots = before ? 2 * before : SLOTS_FIRST;
    uint32_t *slots = n_slots / 2 < UINT32_MAX ? budget_new(m->budget, n_slots, sizeof(*slots)) : NULL;

    if (!slots)
        return -ENOMEM;
    BUDGET_FREE(m->budget, m->slots, before);
    m->slots = slots;
    m->n_slots = n_slots;
    for (size_t i = 0; i < m->n; i++)
        *number_map_slot(m, m->entries[i].key, m->entries[i].sub) = (uint32_t)i + 1;
    return 0;
}

void number_map_done(struct number_map *m)
{
    BUDGET_FREE(m->budget, m->slots, m->n_slots);
    BUDGET_FREE(m->budget, m->entries, m->cap);
    *m = (struct number_map){.budget = m->budget};
}

/* Returns the entry of the key; NULL if it is absent. */
static struct number_map_entry *number_map_find(struct number_map *m, uint64_t key, uint32_t sub)
{
    if (m->n == 0)
        return NULL;
    if (m->entries[m->latest].key != key || m->entries[m->latest].sub != sub) {
        uint32_t number = *number_map_slot(m, key, sub);

        if (number == 0)
            return NULL;
        m->latest = number - 1;
    }
    return &m->entries[m->latest];
}

static struct number_map_entry *number_map_add(struct number_map *m, uint64_t key, uint32_t sub)
{
    if (2 * (m->n + 1) > m->n_slots && number_map_grow(m) < 0)
        return NULL;
    if (BUDGET_RESERVE(m->budget, m->entries, m->cap, m->n + 1) < 0)
        return NULL;
    m->latest = m->n++;
    m->entries[m->latest] = (struct number_map_entry){.key = key, .sub = sub};
    *number_map_slot(m, key, sub) = (uint32_t)m->n;
    return &m->entries[m->latest];
}

uint32_t *number_map_get(struct number_map *m, uint64_t key, uint32_t sub)
{
    unsigned near = key & (NUMBER_MAP_NEAR - 1);
    struct number_map_entry *e = number_map_find(m, key >> NUMBER_MAP_NEAR_BITS, sub);

    return e && (e->present >> near & 1) ? &e->values[near] : NULL;
}

uint32_t *number_map_put(struct number_map *m, uint64_t key, uint32_t sub, uint32_t value)
{
    unsigned near = key & (NUMBER_MAP_NEAR - 1);
    struct number_map_entry *e = number_map_find(m, key >> NUMBER_MAP_NEAR_BITS, sub);

    if (!e)
        e = number_map_add(m, key >> NUMBER_MAP_NEAR_BITS, sub);
    if (!e)
        return NULL;
    if (!(e->present >> near & 1)) {
        e->present |= 1u << near;
        e->values[near] = value;
    }
    return &e->values[near];
}
