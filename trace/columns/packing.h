/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How up to BLOCK_ROWS values of a column are packed: as differences from their smallest, in the number of
 * bits that the largest needs. What is written instead of the differences, if that is shorter: the steps from
 * value to value where they are sorted, or the numbers of the few different ones in a dictionary. Times that
 * are whole microseconds are counted in them.
 *
 * Codes lie in PACKING_LANES lanes, so that as many are unpacked at once: value i is in lane i % PACKING_LANES
 * and follows value i - PACKING_LANES there. docs/columns.md describes it all.
 *
 * Pure functions. Packed bytes are little endian, aligned to PACKING_ALIGN, and may be read up to
 * PACKING_SLACK bytes past their end.
 */
#pragma once

#include "trace/columns/block.h"

#define PACKING_LANES       8
#define PACKING_LANES_BYTES 32
#define PACKING_ALIGN       4
#define PACKING_SLACK       64
#define PACKING_BYTES_MAX   (BLOCK_BYTES_MAX + 64)
#define PACKING_THOUSAND    1000
/* Codes of at most this number of bits are in lanes of 32 bits, others in half as many of 64 bits. Steps, and the
 * codes of dictionaries and thousands, are of the former. */
#define PACKING_SHORT_BITS       32
#define PACKING_DICTIONARY_WIDTH 8
/* Steps: the rows from one code that can be read without those before it to the next. The smallest step and these
 * codes, but for the first one, precede what is packed. */
#define PACKING_ANCHOR_ROWS 64
#define PACKING_STEPS_HEAD  (BLOCK_ROWS / PACKING_ANCHOR_ROWS)

/* How the codes are to be read: with this many entries, by a dictionary. */
enum {
    PACKING_PLAIN,
    PACKING_STEPS,
    PACKING_DICTIONARY_MIN,
    PACKING_DICTIONARY_MAX = 255,
};

struct packing {
    int64_t base;  /* the smallest value */
    uint8_t width; /* bits of what is packed */
    uint8_t range; /* bits of the largest code: the difference from the base, counted in the unit */
    uint8_t form;
    bool nulls;     /* code 0 is COLUMN_NULL, and the base has code 1 */
    bool thousands; /* the unit is 1000, otherwise 1 */
};

/* What may be tried for the values of a column. */
struct packing_hints {
    bool steps, dictionary, thousands;
};

/* Packs n values; out has room for PACKING_BYTES_MAX. Returns the bytes used. */
size_t packing_pack(const int64_t *values, size_t n, struct packing_hints hints, struct packing *ret,
                    uint8_t *out);
/* The first n values of a block; ret has room for BLOCK_ROWS. */
void packing_unpack(struct packing p, const uint8_t *in, size_t n, int64_t *ret);
/* n values from row `first` on, a multiple of PACKING_ANCHOR_ROWS; at most as many as that. ret has room for them. */
void packing_unpack_part(struct packing p, const uint8_t *in, size_t first, size_t n, int64_t *ret);
/* The first n values as numbers of 32 bits: UINT32_MAX for COLUMN_NULL and all that is below 0 or from `limit` on. */
void packing_unpack_codes(struct packing p, const uint8_t *in, size_t n, uint32_t limit, uint32_t *ret);
/* The largest value that a block with any value can hold; false where that is no number. */
bool packing_max(struct packing p, int64_t *ret_max);
/* Of steps, the code of a row, beyond the range perhaps. */
uint32_t packing_sum_steps(struct packing p, const uint8_t *in, size_t i);

typedef uint64_t u64_of_file __attribute__((aligned(4), may_alias));
typedef uint32_t u32_of_file __attribute__((aligned(4), may_alias));
typedef uint16_t u16_of_file __attribute__((aligned(4), may_alias));

/* Whether the members go together; nothing else may be passed to the other functions. */
static inline bool packing_is_sound(struct packing p)
{
    if (p.form == PACKING_PLAIN)
        return p.width == p.range && (p.range <= PACKING_SHORT_BITS || (p.range <= 64 && !p.thousands));
    return p.range <= PACKING_SHORT_BITS &&
           p.width <= (p.form == PACKING_STEPS ? PACKING_SHORT_BITS : PACKING_DICTIONARY_WIDTH);
}

static inline uint64_t packing_code_max(struct packing p)
{
    return p.range == 0 ? 0 : UINT64_MAX >> (64 - p.range);
}

/* Bytes before the codes. Entries of a dictionary have 2 bytes where that is enough. */
static inline size_t packing_head_size(struct packing p)
{
    if (p.form == PACKING_PLAIN)
        return 0;
    if (p.form == PACKING_STEPS)
        return PACKING_STEPS_HEAD * sizeof(uint32_t);
    return p.range <= 16 ? (p.form + 1U) / 2 * 4 : p.form * sizeof(uint32_t);
}

/* Bytes of n codes. */
static inline size_t packing_codes_size(unsigned width, size_t n)
{
    if (width <= PACKING_SHORT_BITS)
        return ((n + 7) / 8 * width + 31) / 32 * PACKING_LANES_BYTES;
    return ((n + 3) / 4 * width + 63) / 64 * PACKING_LANES_BYTES;
}

/* Bytes of n packed values. */
static inline size_t packing_size(struct packing p, size_t n)
{
    return packing_head_size(p) + packing_codes_size(p.width, n);
}

static inline uint64_t packing_code(const uint8_t *in, unsigned width, size_t i)
{
    size_t bit = i / (width <= PACKING_SHORT_BITS ? 8 : 4) * width;

    if (width <= PACKING_SHORT_BITS) {
        const u32_of_file *word = (const u32_of_file *)(in + bit / 32 * PACKING_LANES_BYTES) + i % 8;

        return (word[0] | (uint64_t)word[8] << 32) >> bit % 32 & ((UINT64_C(1) << width) - 1);
    }
    const u64_of_file *word = (const u64_of_file *)(in + bit / 64 * PACKING_LANES_BYTES) + i % 4;

    return (word[0] >> bit % 64 | word[4] << 1 << (63 - bit % 64)) & UINT64_MAX >> (64 - width);
}

/* Numbers of an untrusted file may be larger than there are entries, and these larger than the range. */
static inline uint64_t packing_entry(struct packing p, const uint8_t *in, uint64_t number)
{
    size_t i = number < p.form ? number : p.form - UINT64_C(1);

    return (p.range <= 16 ? ((const u16_of_file *)in)[i] : ((const u32_of_file *)in)[i]) &
           packing_code_max(p);
}

/* One value. */
static inline int64_t packing_value(struct packing p, const uint8_t *in, size_t i)
{
    uint64_t code;

    if (p.form == PACKING_PLAIN)
        code = packing_code(in, p.width, i);
    else if (p.form == PACKING_STEPS && i % PACKING_ANCHOR_ROWS == 0)
        code = i == 0 ? 0 : ((const u32_of_file *)in)[i / PACKING_ANCHOR_ROWS] & packing_code_max(p);
    else if (p.form == PACKING_STEPS)
        code = packing_sum_steps(p, in, i) & packing_code_max(p);
    else
        code = packing_entry(p, in, packing_code(in + packing_head_size(p), p.width, i));
    if (p.nulls && code == 0)
        return COLUMN_NULL;
    return (int64_t)((uint64_t)p.base + (code - p.nulls) * (p.thousands ? PACKING_THOUSAND : 1));
}
