/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/name_table.h"

#include "base/array.h"
#include <errno.h>

static bool is_same(const void *owner, size_t number, const void *thing)
{
    const struct name_table *names = owner;
    const struct text *text = thing;

    return text_equal(names->items[number], *text);
}

int64_t name_table_number(struct name_table *names, struct text text)
{
    if (!ARRAY_RESERVE(names->items, names->cap, names->n + 1))
        return -ENOMEM;
    int64_t number = hash_table_number(&names->numbers, hash_bytes(text.p, text.size), is_same, names, &text);
    if (number == (int64_t)names->n)
        names->items[names->n++] = text;
    return number;
}

void name_table_done(struct name_table *names)
{
    free(names->items);
    hash_table_done(&names->numbers);
    *names = (struct name_table){0};
}
