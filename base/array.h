/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that grow: items, their number, and the capacity, three variables of the owner, who frees the items.
 *
 * Where a file or a peer decides how many there are, running out of memory is an error: ARRAY_RESERVE(). For small
 * control data it ends the process, as base/alloc.h does: VEC_GROW().
 */
#pragma once

#include "base/util.h"

/* Whether there is capacity for n items: ARRAY_RESERVE(gaps->items, gaps->cap, gaps->n + 1). */
#define ARRAY_RESERVE(items, cap, n)                                                                         \
    ((n) <= (cap) || array_grow(&(items), &(cap), (n), sizeof(*(items)), false))
/* The same with new items zeroed, for sums of things that have numbers: ARRAY_RESERVE_ZEROED(s->sums, s->cap,
 * s->groups.n). The array is allocated even for n = 0. */
#define ARRAY_RESERVE_ZEROED(items, cap, n)                                                                  \
    (((items) && (n) <= (cap)) || array_grow(&(items), &(cap), (n), sizeof(*(items)), true))
/* Capacity for one more item, or the end of the process: VEC_GROW(v->items, v->n, v->cap). The capacity may have
 * any integer type. */
#define VEC_GROW(items, n, cap)                                                                              \
    do {                                                                                                     \
        if ((n) == (cap)) {                                                                                  \
            size_t _cap = (cap);                                                                             \
            if (!array_grow(&(items), &_cap, (size_t)(n) + 1, sizeof(*(items)), false))                      \
                out_of_memory();                                                                             \
            (cap) = (__typeof__(cap))_cap;                                                                   \
        }                                                                                                    \
    } while (0)

/* items: the address of the array. The capacity at least doubles. False without memory; then nothing changed. */
bool array_grow(void *items, size_t *cap, size_t n, size_t size, bool is_zeroed);
/* Ends the process with a message. */
_Noreturn void out_of_memory(void);
/* Uninitialized memory for random access, to be freed with free(); on large pages where the size is large: a
 * lookup in a large table is a page walk as well, which takes as long. */
void *array_alloc_pages(size_t size);
/* The same, all zero. */
void *array_calloc_pages(size_t size);
