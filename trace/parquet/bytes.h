/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing buffer of bytes, into which the parts of a Parquet file are encoded. Without memory, further bytes are
 * dropped and `failed` is set for good: only the writer, which sends a buffer on, checks it.
 */
#pragma once

#include "base/array.h"

struct bytes {
    uint8_t *p;
    size_t n, cap;
    bool failed;
};

/* A zeroed struct is ready. */
static inline void bytes_done(struct bytes *b)
{
    free(b->p);
    *b = (struct bytes){0};
}

/* Room for n more bytes, which the caller sets and counts; NULL without memory. */
static inline uint8_t *bytes_room(struct bytes *b, size_t n)
{
    if (!b->failed && !ARRAY_RESERVE(b->p, b->cap, b->n + n))
        b->failed = true;
    return b->failed ? NULL : b->p + b->n;
}

static inline void bytes_put(struct bytes *b, const void *data, size_t n)
{
    uint8_t *room = n > 0 ? bytes_room(b, n) : NULL;

    if (!room)
        return;
    memcpy(room, data, n);
    b->n += n;
}

static inline void bytes_put_byte(struct bytes *b, uint8_t byte)
{
    bytes_put(b, &byte, 1);
}

/* Little endian, in the lowest n bytes. */
static inline void bytes_put_fixed(struct bytes *b, uint64_t value, size_t n)
{
    uint8_t le[8];

    for (size_t i = 0; i < sizeof(le); i++)
        le[i] = (uint8_t)(value >> (8 * i));
    bytes_put(b, le, n);
}

/* ULEB128 */
static inline void bytes_put_varint(struct bytes *b, uint64_t value)
{
    uint8_t out[10];
    size_t n = 0;

    for (; value >= 0x80; value >>= 7)
        out[n++] = (uint8_t)(value | 0x80);
    out[n++] = (uint8_t)value;
    bytes_put(b, out, n);
}

static inline uint64_t zigzag_of(int64_t value)
{
    return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}
