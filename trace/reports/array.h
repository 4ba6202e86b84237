/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that grow, of what a trace has as many of as it likes: running out of memory is an error that is
 * passed up, unlike with VEC_GROW() of base/alloc.h.
 */
#pragma once

#include "base/util.h"

/* Whether there is room for n: ARRAY_ROOM(gaps->items, gaps->cap, gaps->n + 1). */
#define ARRAY_ROOM(items, cap, n) ((n) <= (cap) || array_grow(&(items), &(cap), (n), sizeof(*(items)), false))
/* The same where what is added is to be zero, as it is beside things that get numbers (group.h,
 * name_table.h): ARRAY_BESIDE(s->sums, s->cap, s->groups.n). There is an array then, also of none. */
#define ARRAY_BESIDE(items, cap, n)                                                                          \
    (((items) && (n) <= (cap)) || array_grow(&(items), &(cap), (n), sizeof(*(items)), true))

/* items: the address of the array. False without memory; then nothing has changed. */
bool array_grow(void *items, size_t *cap, size_t n, size_t size, bool is_zeroed);
