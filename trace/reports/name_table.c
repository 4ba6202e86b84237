/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/name_table.h"

#include "trace/reports/array.h"
#include <errno.h>

static bool is_same(const void *owner, size_t number, const void *thing)
{
    const struct name_table *names = owner;
    const struct text *text = thing;

    return text_equal(names->items[number], *text);
}

int64_t name_table_number(struct name_table *names, struct text text)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

    for (size_t i = 0; i < text.size; i++)
        hash = (hash ^ (uint8_t)text.p[i]) * 0x100000001b3;
    if (!ARRAY_ROOM(names->items, names->cap, names->n + 1))
        return -ENOMEM;
    int64_t number = number_table_find(&names->numbers, hash ^ hash >> 29, is_same, names, &text);
    if (number == (int64_t)names->n)
        names->items[names->n++] = text;
    return number;
}

void name_table_done(struct name_table *names)
{
    free(names->items);
    number_table_done(&names->numbers);
    *names = (struct name_table){0};
}
