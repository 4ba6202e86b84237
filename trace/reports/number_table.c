/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/number_table.h"

#include <errno.h>

#define SLOTS_FIRST 256

struct number_slot {
    uint32_t hash;
    uint32_t number; /* + 1; 0: free */
};

/* Half of the slots stay free. */
static int grow(struct number_table *t)
{
    size_t n_slots = t->n_slots ? t->n_slots * 2 : SLOTS_FIRST;
    struct number_slot *slots = calloc(n_slots, sizeof(*slots));

    if (!slots || n_slots / 2 >= UINT32_MAX) {
        free(slots);
        return -ENOMEM;
    }
    for (size_t i = 0; i < t->n_slots; i++) {
        size_t at = t->slots[i].hash & (n_slots - 1);
        while (t->slots[i].number && slots[at].number)
            at = (at + 1) & (n_slots - 1);
        if (t->slots[i].number)
            slots[at] = t->slots[i];
    }
    free(t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    return 0;
}

int64_t number_table_find(struct number_table *t, uint64_t hash,
                          bool (*is_same)(const void *owner, size_t number, const void *thing),
                          const void *owner, const void *thing)
{
    uint32_t short_hash = (uint32_t)hash;

    if (t->n >= t->n_slots / 2 && grow(t) < 0)
        return -ENOMEM;
    size_t at = short_hash & (t->n_slots - 1);
    for (; t->slots[at].number; at = (at + 1) & (t->n_slots - 1))
        if (t->slots[at].hash == short_hash && is_same(owner, t->slots[at].number - 1, thing))
            return t->slots[at].number - 1;
    t->slots[at] = (struct number_slot){short_hash, (uint32_t)++t->n};
    return (int64_t)t->n - 1;
}

void number_table_done(struct number_table *t)
{
    free(t->slots);
    *t = (struct number_table){0};
}
