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

/* Each variant defines a block of bytes, comparisons that mark bytes of a block, and find_bits_32(), which
 * collects the marks of 32 bytes. A mark is the highest bit of its byte at least. */

#if defined(FIND_AVX2) || defined(FIND_SSE2) || defined(FIND_NEON)

#if defined(FIND_AVX2)
#include <immintrin.h>
#define FIND_BYTES 32
#elif defined(FIND_SSE2)
#include <emmintrin.h>
#define FIND_BYTES 16
#else
#include <arm_neon.h>
#define FIND_BYTES 16
#endif

typedef int8_t find_block __attribute__((vector_size(FIND_BYTES)));

static inline find_block find_byte(find_block block, char c)
{
    return block == (int8_t)c;
}

/* Marks what ends a plain string. As signed numbers, bytes that are not ASCII are below a space as well. */
static inline find_block find_end_of_plain(find_block block)
{
    return (block == '"') | (block == '\\') | (block < ' ');
}

static inline find_block find_same(find_block a, find_block b)
{
    return a == b;
}

static inline find_block find_fold(find_block block)
{
    return block | 0x20;
}

#if defined(FIND_AVX2)

static inline uint32_t find_bits_32(const find_block *marks)
{
    return (uint32_t)_mm256_movemask_epi8((__m256i)marks[0]);
}

#elif defined(FIND_SSE2)

static inline uint32_t find_bits_32(const find_block *marks)
{
    return (uint32_t)_mm_movemask_epi8((__m128i)marks[0]) | (uint32_t)_mm_movemask_epi8((__m128i)marks[1])
                                                                << 16;
}

#else

/* Adds neighbours until the bits of eight bytes are one byte; NEON has nothing that collects them at once. */
static inline uint64_t find_bits_neon(find_block a, find_block b, find_block c, find_block d)
{
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t w = vld1q_u8(weights);
    uint8x16_t ab = vpaddq_u8(vandq_u8((uint8x16_t)(a < 0), w), vandq_u8((uint8x16_t)(b < 0), w));
    uint8x16_t cd = vpaddq_u8(vandq_u8((uint8x16_t)(c < 0), w), vandq_u8((uint8x16_t)(d < 0), w));
    uint8x16_t all = vpaddq_u8(ab, cd);

    all = vpaddq_u8(all, all);
    return vgetq_lane_u64(vreinterpretq_u64_u8(all), 0);
}

static inline uint32_t find_bits_32(const find_block *marks)
{
    return (uint32_t)find_bits_neon(marks[0], marks[1], marks[0], marks[1]);
}

#define find_bits_64(marks) find_bits_neon((marks)[0], (marks)[1], (marks)[2], (marks)[3])

#endif

#else

#define FIND_BYTES 8
#define FIND_LOW   UINT64_C(0x0101010101010101)
#define FIND_HIGH  UINT64_C(0x8080808080808080)

typedef uint64_t find_block;

/* Marks each zero byte, and no other byte. */
static inline find_block find_zero(find_block block)
{
    return ~(((block & ~FIND_HIGH) + ~FIND_HIGH) | block | ~FIND_HIGH);
}

static inline find_block find_byte(find_block block, char c)
{
    return find_zero(block ^ FIND_LOW * (uint8_t)c);
}

static inline find_block find_end_of_plain(find_block block)
{
    return find_byte(block, '"') | find_byte(block, '\\') | find_zero(block & FIND_LOW * 0xe0) | block;
}

static inline find_block find_same(find_block a, find_block b)
{
    return find_zero(a ^ b);
}

static inline find_block find_fold(find_block block)
{
    return block | FIND_LOW * 0x20;
}

static inline uint32_t find_bits_32(const find_block *marks)
{
    uint32_t bits = 0;

    for (int i = 0; i < 4; i++)
        bits |= (uint32_t)(((marks[i] & FIND_HIGH) * UINT64_C(0x0002040810204081)) >> 56) << 8 * i;
    return bits;
}

#endif

#ifndef find_bits_64
static inline uint64_t find_bits_64(const find_block *marks)
{
    return find_bits_32(marks) | (uint64_t)find_bits_32(marks + 32 / FIND_BYTES) << 32;
}
#endif

static inline find_block find_load(const char *p)
{
    find_block block;

    memcpy(&block, p, sizeof(block));
    return block;
}

/* Positions in 64 bytes at which a plain string ends. */
static inline uint64_t find_special(const char *p)
{
    find_block special[64 / FIND_BYTES];

    for (int i = 0; i < 64 / FIND_BYTES; i++)
        special[i] = find_end_of_plain(find_load(p + i * FIND_BYTES));
    return find_bits_64(special);
}

/* Positions at which two texts of 32 bytes differ. */
static inline uint32_t find_differences(const char *a, const char *b)
{
    find_block same[32 / FIND_BYTES];

    for (int i = 0; i < 32 / FIND_BYTES; i++)
        same[i] = find_same(find_load(a + i * FIND_BYTES), find_load(b + i * FIND_BYTES));
    return ~find_bits_32(same);
}

/* Positions of the bytes that determine the nesting of JSON, in 64 bytes. */
struct marks {
    uint64_t quote, backslash;
    uint64_t open, close; /* of arrays and objects alike */
    uint64_t high;        /* not ASCII */
};

static inline struct marks find_marks(const char *p)
{
    find_block block[64 / FIND_BYTES], quote[64 / FIND_BYTES], backslash[64 / FIND_BYTES],
        open[64 / FIND_BYTES], close[64 / FIND_BYTES];

    for (int i = 0; i < 64 / FIND_BYTES; i++) {
        block[i] = find_load(p + i * FIND_BYTES);
        quote[i] = find_byte(block[i], '"');
        backslash[i] = find_byte(block[i], '\\');
        /* A bracket and the brace of the same side differ in one bit. */
        open[i] = find_byte(find_fold(block[i]), '{');
        close[i] = find_byte(find_fold(block[i]), '}');
    }
    return (struct marks){
        .quote = find_bits_64(quote),
        .backslash = find_bits_64(backslash),
        .open = find_bits_64(open),
        .close = find_bits_64(close),
        .high = find_bits_64(block),
    };
}

/* Returns true if the first `size` bytes are equal; reads complete blocks of 32. */
static inline int find_equal(const char *a, const char *b, size_t size)
{
    for (; size > 32; size -= 32, a += 32, b += 32)
        if (find_differences(a, b))
            return 0;
    return size == 0 || find_differences(a, b) << (32 - size) == 0;
}
