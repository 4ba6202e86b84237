/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of find.h in plain C, eight bytes at a time. */
#pragma once

#define FIND_LOW  UINT64_C(0x0101010101010101)
#define FIND_HIGH UINT64_C(0x8080808080808080)

static inline uint64_t find_load(const char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof(w));
    return w;
}

/* Returns the high bits of the bytes as consecutive bits. */
static inline uint64_t find_bits(uint64_t w)
{
    return ((w & FIND_HIGH) * UINT64_C(0x0002040810204081)) >> 56;
}

/* Sets the high bit of each zero byte, and of no other byte. */
static inline uint64_t find_zero(uint64_t w)
{
    return ~(((w & ~FIND_HIGH) + ~FIND_HIGH) | w | ~FIND_HIGH);
}

static inline uint64_t find_byte(uint64_t w, char c)
{
    return find_zero(w ^ FIND_LOW * (uint8_t)c);
}

/* Positions in 32 bytes at which a plain string ends. */
static inline uint32_t find_special(const char *p)
{
    uint32_t special = 0;

    for (int i = 0; i < 32; i += 8) {
        uint64_t w = find_load(p + i);
        uint64_t control = find_zero(w & FIND_LOW * 0xe0);
        special |= (uint32_t)find_bits(find_byte(w, '"') | find_byte(w, '\\') | control | w) << i;
    }
    return special;
}

static inline uint32_t find_differences(const char *a, const char *b)
{
    uint32_t same = 0;

    for (int i = 0; i < 32; i += 8)
        same |= (uint32_t)find_bits(find_zero(find_load(a + i) ^ find_load(b + i))) << i;
    return ~same;
}

/* A bracket and the brace of the same side differ in one bit. */
static inline struct marks find_marks(const char *p)
{
    struct marks m = {0};

    for (int i = 0; i < 64; i += 8) {
        uint64_t w = find_load(p + i), folded = w | FIND_LOW * 0x20;
        m.quote |= find_bits(find_byte(w, '"')) << i;
        m.backslash |= find_bits(find_byte(w, '\\')) << i;
        m.open |= find_bits(find_byte(folded, '{')) << i;
        m.close |= find_bits(find_byte(folded, '}')) << i;
        m.high |= find_bits(w) << i;
    }
    return m;
}
