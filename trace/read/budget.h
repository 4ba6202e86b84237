/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that grow within a shared limit: memory whose size is decided by the input file. Several threads may
 * use one budget, each for arrays of its own.
 */
#pragma once

#include "base/util.h"
#include <errno.h>
#include <stdatomic.h>

struct budget {
    _Atomic uint64_t used;
    uint64_t max;
};

/* Returns n zeroed items; NULL over the limit or if memory is exhausted. Free them with BUDGET_FREE(). */
void *budget_new(struct budget *b, size_t n, size_t size);
/* p: n items, or NULL. */
#define BUDGET_FREE(b, p, n) budget_free_bytes((b), (p), (n) * sizeof(*(p)))
void budget_free_bytes(struct budget *b, void *p, size_t bytes);
/* Makes the array hold n items, like ARRAY_RESERVE(); new items are zeroed. 0 or -ENOMEM. */
#define BUDGET_RESERVE(b, items, cap, n)                                                                     \
    ((n) <= (cap) ? 0 : budget_extend((b), &(items), &(cap), (n), sizeof(*(items))))
int budget_extend(struct budget *b, void *array, size_t *cap, size_t n, size_t size);

/*
 * A hash map from a pair of numbers to a number. Consecutive keys share an entry, and entries are in order of
 * appearance, so that ids that a profiler counts upwards are added and found without leaving the cache.
 */

#define NUMBER_MAP_NEAR_BITS 3
#define NUMBER_MAP_NEAR      (1 << NUMBER_MAP_NEAR_BITS)

struct number_map_entry {
    uint64_t key; /* without its last NUMBER_MAP_NEAR_BITS bits */
    uint32_t sub;
    uint32_t present; /* a bit for each of the values */
    uint32_t values[NUMBER_MAP_NEAR];
};
#define NUMBER_MAP_SUB_MAX UINT32_MAX

struct number_map {
    struct budget *budget;
    uint32_t *
        slots; /* number of an entry + 1, 0: free; a power of two of them, at least twice as many as entries */
    size_t n_slots;
    struct number_map_entry *entries;
    size_t n, cap;
    size_t latest; /* the entry that was used last */
};

void number_map_done(struct number_map *m);
/* Returns the value of a key; NULL if the key is absent. Valid until the next number_map_put(). */
uint32_t *number_map_get(struct number_map *m, uint64_t key, uint32_t sub);
/* Like number_map_get(), but adds an absent key with this value; NULL if memory is exhausted. */
uint32_t *number_map_put(struct number_map *m, uint64_t key, uint32_t sub, uint32_t value);
