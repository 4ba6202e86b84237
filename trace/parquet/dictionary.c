/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/parquet/dictionary.h"

#include "base/array.h"
#include "base/hash_table.h"
#include <errno.h>

/* At least half of the slots are free. */
#define SLOTS (2 * DICTIONARY_NUMBERS_MAX)
/* Values after which the number of distinct ones decides early. */
#define SAMPLE_VALUES 8192

void column_dictionary_done(struct column_dictionary *d)
{
    free(d->slots);
    free(d->used);
    free(d->text_code);
    free(d->values);
    *d = (struct column_dictionary){0};
}

static void column_dictionary_clear_numbers(struct column_dictionary *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        d->slots[d->used[i]].code = 0;
}

static int column_dictionary_prepare_numbers(struct column_dictionary *d)
{
    if (!ARRAY_RESERVE(d->used, d->used_cap, DICTIONARY_NUMBERS_MAX))
        return -ENOMEM;
    d->slots = d->slots ? d->slots : calloc(SLOTS, sizeof(*d->slots));
    d->values = d->values ? d->values : calloc(DICTIONARY_NUMBERS_MAX, sizeof(*d->values));
    d->n = 0;
    return d->slots && d->values ? 0 : -ENOMEM;
}

/* The slot of the value, or a free one. */
static uint32_t column_dictionary_find(const struct column_dictionary *d, int64_t value)
{
    uint32_t slot = (uint32_t)hash_words((uint64_t)value, HASH_MULTIPLY) % SLOTS;

    while (d->slots[slot].code > 0 && d->slots[slot].value != value)
        slot = (slot + 1) % SLOTS;
    return slot;
}

/* Whether the first `n` values have too many distinct ones. */
static bool column_dictionary_is_useless(const struct column_dictionary *d, uint32_t n)
{
    return d->n == DICTIONARY_NUMBERS_MAX ||
           (n >= SAMPLE_VALUES && (uint64_t)d->n * DICTIONARY_REPEATS_MIN > n);
}

int column_dictionary_numbers(struct column_dictionary *d, const int64_t *values, uint32_t n,
                              uint32_t *ret_codes)
{
    int r = column_dictionary_prepare_numbers(d);
    bool is_useless = false;

    for (uint32_t i = 0; i < n && r == 0 && !is_useless; i++) {
        if (i > 0 && values[i] == values[i - 1]) {
            ret_codes[i] = ret_codes[i - 1];
            continue;
        }
        uint32_t slot = column_dictionary_find(d, values[i]);
        if (d->slots[slot].code == 0) {
            is_useless = column_dictionary_is_useless(d, i);
            if (is_useless)
                break;
            d->values[d->n] = values[i];
            d->used[d->n] = slot;
            d->slots[slot] = (struct dictionary_slot){values[i], ++d->n};
        }
        ret_codes[i] = d->slots[slot].code - 1;
    }
    if (r == 0)
        column_dictionary_clear_numbers(d);
    return r < 0 ? r : !is_useless;
}

int column_dictionary_texts(struct column_dictionary *d, const uint32_t *numbers, uint32_t n,
                            uint32_t n_texts, uint32_t *ret_codes)
{
    if (!ARRAY_RESERVE_ZEROED(d->text_code, d->text_cap, n_texts) ||
        !ARRAY_RESERVE(d->used, d->used_cap, MIN(n, n_texts)))
        return -ENOMEM;
    d->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *code = &d->text_code[numbers[i]];
        if (*code == 0) {
            d->used[d->n] = numbers[i];
            *code = ++d->n;
        }
        ret_codes[i] = *code - 1;
    }
    for (uint32_t i = 0; i < d->n; i++)
        d->text_code[d->used[i]] = 0;
    return 0;
}
