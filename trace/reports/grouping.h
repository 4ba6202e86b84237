/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a few numbers, each with a number from 0 in order of appearance: what rows are grouped by. */
#pragma once

#include "base/hash_table.h"
#include "trace/columns/columns.h"

#define GROUP_PARTS 5

struct group_key {
    int64_t part[GROUP_PARTS];
};

struct groups {
    struct group_key *items; /* by number */
    size_t n, cap;
    struct hash_table numbers; /* private */
};

/* The key's number, which it gets where it is new; -ENOMEM. */
int64_t groups_number(struct groups *groups, struct group_key key);
void groups_done(struct groups *groups);

/*
 * Numbers for names that come from several traces, each of which numbers its texts by itself. Names are not
 * copied: the traces must stay open.
 */
struct name_table {
    struct text *items; /* by number */
    size_t n, cap;
    struct hash_table numbers; /* private */
};

/* The name's number, counted from 0 in order of appearance; -ENOMEM. */
int64_t name_table_number(struct name_table *names, struct text text);
void name_table_done(struct name_table *names);

/* Numbers in a name table for the texts of one trace, each looked for once. */
/* Zero-initialise, with the first two. */
struct text_numbers {
    const struct columns *c;
    struct name_table *names;
    uint32_t *known; /* private */
};

/* Of the text with that number in the trace; what is no text's number is the empty text. -ENOMEM. */
int64_t text_numbers_get(struct text_numbers *numbers, int64_t text);
void text_numbers_done(struct text_numbers *numbers);
