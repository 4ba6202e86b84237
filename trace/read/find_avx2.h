/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of find.h with AVX2. */
#pragma once

#include <immintrin.h>

static inline __m256i find_load(const char *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

static inline uint32_t find_bits(__m256i bytes)
{
    return (uint32_t)_mm256_movemask_epi8(bytes);
}

static inline uint32_t find_byte(__m256i block, char c)
{
    return find_bits(_mm256_cmpeq_epi8(block, _mm256_set1_epi8(c)));
}

/* Positions in 32 bytes at which a plain string ends. As signed numbers, bytes that are not ASCII are
 * below a space as well. */
static inline uint32_t find_special(const char *p)
{
    __m256i block = find_load(p);
    __m256i quote = _mm256_cmpeq_epi8(block, _mm256_set1_epi8('"'));
    __m256i backslash = _mm256_cmpeq_epi8(block, _mm256_set1_epi8('\\'));
    __m256i below = _mm256_cmpgt_epi8(_mm256_set1_epi8(' '), block);

    return find_bits(_mm256_or_si256(_mm256_or_si256(quote, backslash), below));
}

static inline uint32_t find_differences(const char *a, const char *b)
{
    return ~find_bits(_mm256_cmpeq_epi8(find_load(a), find_load(b)));
}

static inline uint64_t find_pair(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

/* A bracket and the brace of the same side differ in one bit. */
static inline struct marks find_marks(const char *p)
{
    __m256i a = find_load(p), b = find_load(p + 32);
    __m256i bit = _mm256_set1_epi8(0x20);
    __m256i folded_a = _mm256_or_si256(a, bit), folded_b = _mm256_or_si256(b, bit);

    return (struct marks){
        .quote = find_pair(find_byte(a, '"'), find_byte(b, '"')),
        .backslash = find_pair(find_byte(a, '\\'), find_byte(b, '\\')),
        .open = find_pair(find_byte(folded_a, '{'), find_byte(folded_b, '{')),
        .close = find_pair(find_byte(folded_a, '}'), find_byte(folded_b, '}')),
        .high = find_pair(find_bits(a), find_bits(b)),
    };
}
