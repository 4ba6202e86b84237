/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What block.c and packing.c have in common, and only they: the smallest and the largest value of a block, and how their
 * functions are compiled.
 */
#pragma once

#include "trace/columns/schema.h"

#define INLINE static inline __attribute__((always_inline))

/* Packing and unpacking cost the most of writing and scanning columns: worth a second copy for processors with
 * AVX2. The sanitizers' runtime cannot be asked before it is set up, which choosing a copy would do. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define FOR_EACH_PROCESSOR
#endif

INLINE int64_t block_min(const int64_t *values, size_t n)
{
    int64_t min = INT64_MAX;

    for (size_t i = 0; i < n; i++)
        min = values[i] < min ? values[i] : min;
    return min;
}

INLINE int64_t block_max(const int64_t *values, size_t n)
{
    int64_t max = INT64_MIN;

    for (size_t i = 0; i < n; i++)
        max = values[i] > max ? values[i] : max;
    return max;
}

/* The smallest that is not COLUMN_NULL; where there is none, COLUMN_NULL. */
INLINE int64_t block_min_known(const int64_t *values, size_t n)
{
    uint64_t min = UINT64_MAX;

    /* Seen from COLUMN_NULL, the smallest number, all others are positive; less one it is the largest. */
    for (size_t i = 0; i < n; i++) {
        uint64_t above = (uint64_t)values[i] - (uint64_t)COLUMN_NULL - 1;

        min = above < min ? above : min;
    }
    return (int64_t)(min + 1 + (uint64_t)COLUMN_NULL);
}
