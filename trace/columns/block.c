/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/block.h"

#include "trace/columns/block_bounds.h"

typedef uint16_t u16_unaligned __attribute__((aligned(1), may_alias));
typedef uint32_t u32_unaligned __attribute__((aligned(1), may_alias));
typedef uint64_t u64_unaligned __attribute__((aligned(1), may_alias));

static uint64_t block_code(int64_t value, struct block b)
{
    if (b.nulls && value == COLUMN_NULL)
        return 0;
    return (uint64_t)value - (uint64_t)b.base + b.nulls;
}

#define PACK_AS(type, shift)                                                                                 \
    for (size_t i = 0; i < n; i++)                                                                           \
    ((type *)out)[i] = (type)(nulls && values[i] == COLUMN_NULL ? 0 : (uint64_t)values[i] - (shift))

/* The codes of all values; nulls is a constant in each of its callers, and so n is for full blocks. */
INLINE void block_pack_as(const int64_t *restrict values, size_t n, struct block b, bool nulls,
                          uint8_t *restrict out)
{
    uint64_t shift = (uint64_t)b.base - nulls;

    switch (b.width) {
    case 0:
        break;
    case 1:
        PACK_AS(uint8_t, shift);
        break;
    case 2:
        PACK_AS(u16_unaligned, shift);
        break;
    case 4:
        PACK_AS(u32_unaligned, shift);
        break;
    case 8:
        PACK_AS(u64_unaligned, shift);
        break;
    default:
        /* Each store reaches past its code, where the next one will be; out has room for the last. */
        for (size_t i = 0; i < n; i++)
            *(u64_unaligned *)(out + i * b.width) = block_code(values[i], b);
    }
}

INLINE size_t block_pack_any(const int64_t *values, size_t n, struct block *ret, uint8_t *out)
{
    int64_t min = block_min(values, n), max = block_max(values, n);
    struct block b = {.base = min, .nulls = min == COLUMN_NULL};

    if (b.nulls)
        b.base = block_min_known(values, n);
    /* Fits with nulls as well: a value that is not COLUMN_NULL is at least INT64_MIN + 1. */
    uint64_t code_max = max == COLUMN_NULL ? 0 : (uint64_t)max - (uint64_t)b.base + b.nulls;
    b.width = code_max == 0 ? 0 : (uint8_t)((71 - __builtin_clzll(code_max)) / 8);
    if (b.nulls)
        block_pack_as(values, n, b, true, out);
    else
        block_pack_as(values, n, b, false, out);
    *ret = b;
    return n * b.width;
}

FOR_EACH_PROCESSOR
size_t block_pack(const int64_t *values, size_t n, struct block *ret, uint8_t *out)
{
    /* A constant number of rows is what a compiler makes vectors of. */
    return n == BLOCK_ROWS ? block_pack_any(values, BLOCK_ROWS, ret, out)
                           : block_pack_any(values, n, ret, out);
}

#define UNPACK_AS(type)                                                                                      \
    for (size_t i = 0; i < n; i++) {                                                                         \
        uint64_t code = ((const type *)in)[i];                                                               \
        ret[i] = nulls && code == 0 ? COLUMN_NULL : (int64_t)(code + shift);                                 \
    }

INLINE void block_unpack_as(struct block b, bool nulls, const uint8_t *restrict in, size_t n,
                            int64_t *restrict ret)
{
    uint64_t shift = (uint64_t)b.base - nulls;

    switch (b.width) {
    case 0:
        for (size_t i = 0; i < n; i++)
            ret[i] = nulls ? COLUMN_NULL : b.base;
        break;
    case 1:
        UNPACK_AS(uint8_t);
        break;
    case 2:
        UNPACK_AS(u16_unaligned);
        break;
    case 4:
        UNPACK_AS(u32_unaligned);
        break;
    case 8:
        UNPACK_AS(u64_unaligned);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            ret[i] = block_value(b, in, i);
    }
}

INLINE void block_unpack_any(struct block b, const uint8_t *in, size_t n, int64_t *ret)
{
    if (b.nulls)
        block_unpack_as(b, true, in, n, ret);
    else
        block_unpack_as(b, false, in, n, ret);
}

FOR_EACH_PROCESSOR
void block_unpack(struct block b, const uint8_t *in, size_t n, int64_t *ret)
{
    if (n == BLOCK_ROWS)
        block_unpack_any(b, in, BLOCK_ROWS, ret);
    else
        block_unpack_any(b, in, n, ret);
}
