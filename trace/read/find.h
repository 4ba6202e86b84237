/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches text many bytes at a time. Each file that includes this header is compiled for one kind of
 * processor and selects it by one macro: FIND_AVX2, FIND_SSE2, FIND_NEON, or none for plain C. All variants
 * return the same results.
 *
 * Bit i of a result represents byte i. All bytes that a function examines must be readable.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Positions of the bytes that determine the nesting of JSON, in 64 bytes. */
struct marks {
    uint64_t quote, backslash;
    uint64_t open, close; /* of arrays and objects alike */
    uint64_t high;        /* not ASCII */
};

#if defined(FIND_AVX2)
#include "trace/read/find_avx2.h"
#elif defined(FIND_SSE2)
#include "trace/read/find_sse2.h"
#elif defined(FIND_NEON)
#include "trace/read/find_neon.h"
#else
#include "trace/read/find_plain.h"
#endif

/* Returns true if the first `size` bytes are equal; reads complete blocks of 32. */
static inline int find_equal(const char *a, const char *b, size_t size)
{
    for (; size > 32; size -= 32, a += 32, b += 32)
        if (find_differences(a, b))
            return 0;
    return size == 0 || find_differences(a, b) << (32 - size) == 0;
}
