/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers from 0 for things that differ, in order of appearance: the one hash table beneath groups, names,
 * streams and frames. The things themselves are their owner's, who keeps them by number.
 */
#pragma once

#include "base/util.h"

struct number_table {
    struct number_slot *slots; /* private */
    size_t n_slots, n;
};

/* The number of a thing, of which the owner knows the hash and whether it is the one with a number. One that
 * is met first gets the next number, which the owner must have room for. -ENOMEM. */
int64_t number_table_find(struct number_table *numbers, uint64_t hash,
                          bool (*is_same)(const void *owner, size_t number, const void *thing),
                          const void *owner, const void *thing);
void number_table_done(struct number_table *numbers);

/* A hash of one more number beside those before. */
static inline uint64_t hash_number(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 32;
}
