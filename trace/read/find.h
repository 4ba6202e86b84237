/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at text many bytes at a time. Each file that includes this is compiled for one kind of processor
 * and chooses it by one macro: FIND_AVX2, FIND_SSE2, FIND_NEON, or none for plain C. All of them answer
 * alike.
 *
 * Bit i of an answer stands for byte i. As many bytes as a function looks at must be readable.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Of 64 bytes: where they are what JSON's nesting depends on. */
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

/* True where the first `size` bytes are equal; reads whole blocks of 32. */
static inline int find_equal(const char *a, const char *b, size_t size)
{
    for (; size > 32; size -= 32, a += 32, b += 32)
        if (find_differences(a, b))
            return 0;
    return size == 0 || find_differences(a, b) << (32 - size) == 0;
}
