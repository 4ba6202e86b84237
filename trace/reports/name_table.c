/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/name_table.h"

#include <errno.h>

static uint64_t hash(struct text text)
{
    uint64_t h = 0xcbf29ce484222325; /* FNV-1a */

    for (size_t i = 0; i < text.size; i++)
        h = (h ^ (uint8_t)text.p[i]) * 0x100000001b3;
    return h ^ h >> 29;
}

static int grow(struct name_table *names)
{
    size_t n_slots = names->n_slots ? names->n_slots * 2 : 1024;
    uint32_t *slots = calloc(n_slots, sizeof(*slots));
    struct text *items = reallocarray(names->items, n_slots / 2, sizeof(*items));

    if (items)
        names->items = items;
    if (!slots || !items) {
        free(slots);
        return -ENOMEM;
    }
    for (size_t i = 0; i < names->n; i++) {
        size_t at = hash(items[i]) & (n_slots - 1);
        while (slots[at])
            at = (at + 1) & (n_slots - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(names->slots);
    names->slots = slots;
    names->n_slots = n_slots;
    names->cap = n_slots / 2;
    return 0;
}

int64_t name_table_number(struct name_table *names, struct text text)
{
    if (names->n == names->cap && grow(names) < 0)
        return -ENOMEM;
    size_t at = hash(text) & (names->n_slots - 1);
    for (; names->slots[at]; at = (at + 1) & (names->n_slots - 1))
        if (text_equal(names->items[names->slots[at] - 1], text))
            return names->slots[at] - 1;
    names->items[names->n] = text;
    names->slots[at] = (uint32_t)++names->n;
    return (int64_t)names->n - 1;
}

void name_table_done(struct name_table *names)
{
    free(names->items);
    free(names->slots);
}
