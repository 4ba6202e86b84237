/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/grouping.h"

#include "base/array.h"
#include <errno.h>

/* -- Group ----------------------------------------------------------------------------------------------- */

static bool group_is_same(const void *owner, size_t number, const void *thing)
{
    const struct groups *groups = owner;

    return memcmp(&groups->items[number], thing, sizeof(struct group_key)) == 0;
}

int64_t groups_number(struct groups *groups, struct group_key key)
{
    if (!ARRAY_RESERVE(groups->items, groups->cap, groups->n + 1))
        return -ENOMEM;
    int64_t number = hash_table_number(&groups->numbers, hash_bytes(key.part, sizeof(key.part)),
                                       group_is_same, groups, &key);
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

/* -- Name table ------------------------------------------------------------------------------------------ */

static bool name_table_is_same(const void *owner, size_t number, const void *thing)
{
    const struct name_table *names = owner;
    const struct text *text = thing;

    return text_equal(names->items[number], *text);
}

int64_t name_table_number(struct name_table *names, struct text text)
{
    if (!ARRAY_RESERVE(names->items, names->cap, names->n + 1))
        return -ENOMEM;
    int64_t number =
        hash_table_number(&names->numbers, hash_bytes(text.p, text.size), name_table_is_same, names, &text);
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

/* -- Text numbers ---------------------------------------------------------------------------------------- */

int64_t text_numbers_get(struct text_numbers *numbers, int64_t text)
{
    uint32_t n_texts = columns_texts(numbers->c);

    if (!numbers->known) {
        numbers->known = calloc((size_t)n_texts + 1, sizeof(*numbers->known));
        if (!numbers->known)
            return -ENOMEM;
    }
    /* The last position is that of what has no text. */
    uint32_t *known = &numbers->known[text >= 0 && text < n_texts ? text : n_texts];
    if (*known == 0) {
        int64_t found = name_table_number(numbers->names, columns_text(numbers->c, text));
        if (found < 0)
            return found;
        *known = (uint32_t)found + 1;
    }
    return *known - 1;
}

void text_numbers_done(struct text_numbers *numbers)
{
    free(numbers->known);
    numbers->known = NULL;
}
