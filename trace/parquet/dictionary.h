/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dictionary of one column in one row group: distinct values in order of appearance, and the number of each in the
 * column. Numbers are found by their hash, texts by the number that the caller gave them. Private to the writer.
 */
#pragma once

#include "base/util.h"

/* With more distinct numbers than this, or with less than three values for each, numbers are smaller without a
 * dictionary. */
#define DICTIONARY_NUMBERS_MAX 16384
#define DICTIONARY_REPEATS_MIN 3

struct dictionary_slot {
    int64_t value;
    uint32_t code; /* + 1; 0: free */
};

struct column_dictionary {
    struct dictionary_slot *slots; /* of numbers */
    uint32_t *used;                /* slot or text of each entry */
    size_t used_cap;
    uint32_t n;          /* entries */
    uint32_t *text_code; /* of each text, its entry + 1 */
    size_t text_cap;
    int64_t *values; /* of numbers: the entries */
};

/* A zeroed struct is ready. */
void column_dictionary_done(struct column_dictionary *d);
/* ret_codes: the entry of each value. 1: done; 0: without a dictionary it is smaller; -ENOMEM. */
int column_dictionary_numbers(struct column_dictionary *d, const int64_t *values, uint32_t n,
                              uint32_t *ret_codes);
/* numbers: below n_texts each. ret_codes may be numbers. 0, -ENOMEM. The entries are d->used. */
int column_dictionary_texts(struct column_dictionary *d, const uint32_t *numbers, uint32_t n,
                            uint32_t n_texts, uint32_t *ret_codes);
