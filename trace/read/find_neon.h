/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of find.h with NEON, which every 64-bit ARM has. */
#pragma once

#include <arm_neon.h>

static inline uint8x16_t find_load(const char *p)
{
    return vld1q_u8((const uint8_t *)p);
}

/* Returns one bit for each of 64 bytes that are all ones or zero. */
static inline uint64_t find_bits_64(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d)
{
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t w = vld1q_u8(weights);
    uint8x16_t ab = vpaddq_u8(vandq_u8(a, w), vandq_u8(b, w));
    uint8x16_t cd = vpaddq_u8(vandq_u8(c, w), vandq_u8(d, w));
    uint8x16_t all = vpaddq_u8(ab, cd);

    all = vpaddq_u8(all, all);
    return vgetq_lane_u64(vreinterpretq_u64_u8(all), 0);
}

static inline uint32_t find_bits_32(uint8x16_t a, uint8x16_t b)
{
    return (uint32_t)find_bits_64(a, b, a, b);
}

static inline uint8x16_t find_special_16(uint8x16_t block)
{
    uint8x16_t quote = vceqq_u8(block, vdupq_n_u8('"'));
    uint8x16_t backslash = vceqq_u8(block, vdupq_n_u8('\\'));
    uint8x16_t below = vcltq_s8(vreinterpretq_s8_u8(block), vdupq_n_s8(' '));

    return vorrq_u8(vorrq_u8(quote, backslash), below);
}

/* Positions in 32 bytes at which a plain string ends. As signed numbers, bytes that are not ASCII are
 * below a space as well. */
static inline uint32_t find_special(const char *p)
{
    return find_bits_32(find_special_16(find_load(p)), find_special_16(find_load(p + 16)));
}

static inline uint32_t find_differences(const char *a, const char *b)
{
    return ~find_bits_32(vceqq_u8(find_load(a), find_load(b)),
                         vceqq_u8(find_load(a + 16), find_load(b + 16)));
}

static inline uint64_t find_byte(const uint8x16_t block[4], char byte)
{
    uint8x16_t c = vdupq_n_u8((uint8_t)byte);

    return find_bits_64(vceqq_u8(block[0], c), vceqq_u8(block[1], c), vceqq_u8(block[2], c),
                        vceqq_u8(block[3], c));
}

/* A bracket and the brace of the same side differ in one bit. */
static inline struct marks find_marks(const char *p)
{
    uint8x16_t block[4], folded[4], high[4];

    for (int i = 0; i < 4; i++) {
        block[i] = find_load(p + 16 * i);
        folded[i] = vorrq_u8(block[i], vdupq_n_u8(0x20));
        high[i] = vcgeq_u8(block[i], vdupq_n_u8(0x80));
    }
    return (struct marks){
        .quote = find_byte(block, '"'),
        .backslash = find_byte(block, '\\'),
        .open = find_byte(folded, '{'),
        .close = find_byte(folded, '}'),
        .high = find_bits_64(high[0], high[1], high[2], high[3]),
    };
}
