/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a few numbers, each with a number from 0 in order of appearance: what rows are grouped by. */
#pragma once

#include "base/hash_table.h"

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
