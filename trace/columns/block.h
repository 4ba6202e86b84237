/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block is the unit in which values are packed: those of a column by packing.h, and by this file those that a
 * reading keeps until its end (trace/read/spill.h), which are written and read once and so are packed fast rather
 * than small: up to BLOCK_ROWS values as differences from a base, in the number of bytes (0 to 8) that the largest
 * needs. If values are missing, the code 0 represents COLUMN_NULL.
 *
 * Pure functions. Packed bytes are little endian and may be read up to BLOCK_SLACK bytes past their end.
 */
#pragma once

#include "trace/columns/schema.h"

#include <stdbool.h>

#define BLOCK_ROWS      256
#define BLOCK_BYTES_MAX (BLOCK_ROWS * 8)
#define BLOCK_SLACK     8

struct block {
    int64_t base;    /* of code 0, or of code 1 where nulls is set; the sum may wrap */
    uint8_t width;   /* bytes of a code */
    uint8_t nulls;   /* code 0 is COLUMN_NULL */
    uint8_t zero[6]; /* instead of padding, whose bytes are undefined */
};

/* Packs n values; out has room for BLOCK_BYTES_MAX. Returns the bytes used: n * width. */
size_t block_pack(const int64_t *values, size_t n, struct block *ret, uint8_t *out);
/* All n values of a block. */
void block_unpack(struct block b, const uint8_t *in, size_t n, int64_t *ret);

/* One value. */
static inline int64_t block_value(struct block b, const uint8_t *in, size_t i)
{
    uint64_t code = 0;

    if (b.width > 0) {
        __builtin_memcpy(&code, in + i * b.width, 8);
        code &= UINT64_MAX >> (64 - 8 * b.width);
    }
    if (b.nulls && code == 0)
        return COLUMN_NULL;
    return (int64_t)((uint64_t)b.base + code - b.nulls);
}
