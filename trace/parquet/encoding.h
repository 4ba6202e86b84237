/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodings of Parquet (apache/parquet-format, Encodings.md) that are more than values one after another. Pure
 * functions over values, which append to a buffer.
 */
#pragma once

#include "trace/parquet/bytes.h"

/* Bits that the value needs; 0 for 0. */
static inline unsigned encoding_width(uint64_t value)
{
    return value > 0 ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

/* RLE and bit packing mixed, without the length of it all: definition levels and numbers of dictionary entries. Each
 * value is below 1 << width; width is at most 32. */
void encoding_put_hybrid(struct bytes *out, unsigned width, const uint32_t *values, size_t n);
/* The same, of n equal values. */
void encoding_put_repeated(struct bytes *out, unsigned width, uint32_t value, size_t n);
/* DELTA_BINARY_PACKED, for any values: differences wrap. */
void encoding_put_delta(struct bytes *out, const int64_t *values, size_t n);
/* PLAIN: little endian. */
void encoding_put_numbers(struct bytes *out, const int64_t *values, size_t n);
