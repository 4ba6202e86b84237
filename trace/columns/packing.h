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

#define PACKING_LANES     8
#define PACKING_ALIGN     4
#define PACKING_SLACK     64
#define PACKING_BYTES_MAX (BLOCK_BYTES_MAX + 64)
/* Of steps: a value that can be read without those before it, for every so many. */
#define PACKING_ANCHOR_ROWS 64

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

/* Whether the members go together; nothing else may be passed to the functions below. */
bool packing_is_sound(struct packing p);
/* Bytes of n packed values. */
size_t packing_size(struct packing p, size_t n);
/* Packs n values; out has room for PACKING_BYTES_MAX. Returns the bytes used. */
size_t packing_pack(const int64_t *values, size_t n, struct packing_hints hints, struct packing *ret,
                    uint8_t *out);
/* The first n values of a block; ret has room for BLOCK_ROWS. */
void packing_unpack(struct packing p, const uint8_t *in, size_t n, int64_t *ret);
/* The same as numbers of 32 bits: UINT32_MAX for COLUMN_NULL and all that is below 0 or from `limit` on. */
void packing_unpack_codes(struct packing p, const uint8_t *in, size_t n, uint32_t limit, uint32_t *ret);
/* One value. */
int64_t packing_value(struct packing p, const uint8_t *in, size_t i);
/* The largest value that a block with any value can hold; false where that is no number. */
bool packing_max(struct packing p, int64_t *ret_max);
