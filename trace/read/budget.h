/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that grow within a limit that they share: memory whose size a file decides.
 */
#pragma once

#include "base/util.h"
#include <errno.h>

struct budget {
    uint64_t used, max;
};

/* -ENOMEM where size more bytes are over the limit. */
static inline int budget_take(struct budget *b, uint64_t size)
{
    if (size > b->max - b->used)
        return -ENOMEM;
    b->used += size;
    return 0;
}

static inline void budget_give(struct budget *b, uint64_t size)
{
    b->used -= size;
}

/* n zeroed items; NULL over the limit or where there is no memory. To be freed with budget_free(). */
void *budget_new(struct budget *b, size_t n, size_t size);
void budget_free(struct budget *b, void *p, size_t n, size_t size);
int budget_extend(struct budget *b, void *array, size_t *cap, size_t n, size_t size);
/* Makes *array (a pointer to items of this size, *cap of them) hold n items; what is added is zero. */
static inline int budget_grow(struct budget *b, void *array, size_t *cap, size_t n, size_t size)
{
    return n <= *cap ? 0 : budget_extend(b, array, cap, n, size);
}

/*
 * A hash map from a pair of numbers to a number. Keys that follow one another lie together: ids that a
 * profiler counts upwards are found without leaving the cache.
 */

struct number_map_entry {
    uint64_t key;
    uint32_t sub; /* + 1, 0 in a free one */
    uint32_t value;
};
#define NUMBER_MAP_SUB_MAX (UINT32_MAX - 1)

struct number_map {
    struct budget *budget;
    struct number_map_entry *entries;
    size_t cap, n;
};

void number_map_done(struct number_map *m);
/* The value of a key, NULL without one. Valid until the next map_put(). */
uint32_t *number_map_get(const struct number_map *m, uint64_t key, uint32_t sub);
/* The same, made with this value where there is none; NULL where there is no memory. sub is at most
 * MAP_SUB_MAX. */
uint32_t *number_map_put(struct number_map *m, uint64_t key, uint32_t sub, uint32_t value);
