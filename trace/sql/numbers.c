/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/numbers.h"

/* Numbers that are compared one by one rather than searched for. */
#define FEW_NUMBERS 8

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void sort_numbers(struct numbers *set)
{
    if (set->n > 1)
        qsort(set->items, set->n, sizeof(set->items[0]), compare_numbers);
}

bool numbers_have(const struct numbers *set, int64_t number)
{
    if (set->any)
        return true;
    if (set->n > FEW_NUMBERS)
        return bsearch(&number, set->items, set->n, sizeof(number), compare_numbers) != NULL;
    for (size_t i = 0; i < set->n; i++) {
        if (set->items[i] == number)
            return true;
    }
    return false;
}

static int numbers_room(struct numbers *set, size_t n)
{
    int64_t *items = n > set->cap ? realloc(set->items, n * sizeof(*items)) : set->items;

    if (n > set->cap) {
        if (!items)
            return SQLITE_NOMEM;
        set->items = items;
        set->cap = n;
    }
    set->n = 0;
    return SQLITE_OK;
}

int numbers_of_texts(struct numbers *set, const struct columns *c, const struct texts *texts)
{
    set->any = texts->any;
    if (numbers_room(set, texts->n) != SQLITE_OK)
        return SQLITE_NOMEM;
    for (size_t i = 0; i < texts->n; i++) {
        int64_t number = columns_find_text(c, texts->text + texts->items[i].at, texts->items[i].size);

        if (number >= 0)
            set->items[set->n++] = number;
    }
    sort_numbers(set);
    return SQLITE_OK;
}

int numbers_narrow(struct numbers *set, const struct columns *c, const char *const *names)
{
    int64_t of_table[FEW_NUMBERS];
    size_t n = 0, kept = 0;

    if (!names)
        return SQLITE_OK;
    for (; *names && n < ARRAY_SIZE(of_table); names++) {
        int64_t number = columns_find_text(c, *names, strlen(*names));

        if (number >= 0)
            of_table[n++] = number;
    }
    if (set->any) {
        set->any = false;
        if (numbers_room(set, n) != SQLITE_OK)
            return SQLITE_NOMEM;
        for (size_t i = 0; i < n; i++)
            set->items[set->n++] = of_table[i];
        sort_numbers(set);
        return SQLITE_OK;
    }
    for (size_t i = 0; i < set->n; i++) {
        if (numbers_have(&(struct numbers){.n = n, .items = of_table}, set->items[i]))
            set->items[kept++] = set->items[i];
    }
    set->n = kept;
    return SQLITE_OK;
}
