/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of find.h with SSE2, which every x86-64 has. */
#pragma once

#include <emmintrin.h>

static inline __m128i find_load(const char *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

static inline uint32_t find_bits(__m128i bytes)
{
    return (uint32_t)_mm_movemask_epi8(bytes);
}

static inline uint32_t find_byte(__m128i block, char c)
{
    return find_bits(_mm_cmpeq_epi8(block, _mm_set1_epi8(c)));
}

static inline uint32_t find_special_16(const char *p)
{
    __m128i block = find_load(p);
    __m128i quote = _mm_cmpeq_epi8(block, _mm_set1_epi8('"'));
    __m128i backslash = _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'));
    __m128i below = _mm_cmpgt_epi8(_mm_set1_epi8(' '), block);

    return find_bits(_mm_or_si128(_mm_or_si128(quote, backslash), below));
}

/* Positions in 32 bytes at which a plain string ends. As signed numbers, bytes that are not ASCII are
 * below a space as well. */
static inline uint32_t find_special(const char *p)
{
    return find_special_16(p) | find_special_16(p + 16) << 16;
}

static inline uint32_t find_differences(const char *a, const char *b)
{
    uint32_t low = find_bits(_mm_cmpeq_epi8(find_load(a), find_load(b)));
    uint32_t high = find_bits(_mm_cmpeq_epi8(find_load(a + 16), find_load(b + 16)));

    return ~(low | high << 16);
}

/* A bracket and the brace of the same side differ in one bit. */
static inline struct marks find_marks(const char *p)
{
    struct marks m = {0};

    for (int i = 0; i < 64; i += 16) {
        __m128i block = find_load(p + i);
        __m128i folded = _mm_or_si128(block, _mm_set1_epi8(0x20));
        m.quote |= (uint64_t)find_byte(block, '"') << i;
        m.backslash |= (uint64_t)find_byte(block, '\\') << i;
        m.open |= (uint64_t)find_byte(folded, '{') << i;
        m.close |= (uint64_t)find_byte(folded, '}') << i;
        m.high |= (uint64_t)find_bits(block) << i;
    }
    return m;
}
