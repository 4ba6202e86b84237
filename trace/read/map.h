/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash map from a pair of numbers to a number. Keys that follow one another lie together: ids that a
 * profiler counts upwards are found without leaving the cache.
 */
#pragma once

#include "trace/read/budget.h"

struct map_entry {
    uint64_t key;
    uint32_t sub; /* + 1, 0 in a free one */
    uint32_t value;
};
#define MAP_SUB_MAX (UINT32_MAX - 1)

struct map {
    struct budget *budget;
    struct map_entry *entries;
    size_t cap, n;
};

void map_done(struct map *m);
/* The value of a key, NULL without one. Valid until the next map_put(). */
uint32_t *map_get(const struct map *m, uint64_t key, uint32_t sub);
/* The same, made with this value where there is none; NULL where there is no memory. sub is at most
 * MAP_SUB_MAX. */
uint32_t *map_put(struct map *m, uint64_t key, uint32_t sub, uint32_t value);
