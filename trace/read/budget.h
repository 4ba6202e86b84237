/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that grow within a shared limit: memory whose size is decided by the input file.
 */
#pragma once

#include "base/util.h"
#include <errno.h>

struct budget {
    uint64_t used, max;
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
 * A hash map from a pair of numbers to a number. Consecutive keys are stored next to each other, so that
 * ids that a profiler counts upwards are found without leaving the cache.
 */

struct number_map_entry {
    uint64_t key;
    uint32_t sub; /* sub + 1; 0 in a free entry */
    uint32_t value;
};
#define NUMBER_MAP_SUB_MAX (UINT32_MAX - 1)

struct number_map {
    struct budget *budget;
    struct number_map_entry *entries;
    size_t cap, n;
};

void number_map_done(struct number_map *m);
/* Returns the value of a key; NULL if the key is absent. Valid until the next number_map_put(). */
uint32_t *number_map_get(const struct number_map *m, uint64_t key, uint32_t sub);
/* Like number_map_get(), but adds an absent key with this value; NULL if memory is exhausted. sub is at
 * most NUMBER_MAP_SUB_MAX. */
uint32_t *number_map_put(struct number_map *m, uint64_t key, uint32_t sub, uint32_t value);
