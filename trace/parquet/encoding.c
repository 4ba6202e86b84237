/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/parquet/encoding.h"

/* Values of a bit-packed group. */
#define GROUP_VALUES 8
/* A block of DELTA_BINARY_PACKED has one least difference, each of its miniblocks a width. */
#define DELTA_BLOCK      128
#define DELTA_MINIBLOCKS 4
#define MINIBLOCK_VALUES (DELTA_BLOCK / DELTA_MINIBLOCKS)

/* -- Bits ------------------------------------------------------------------------------------------------- */

/* Collects bits from the lowest on, and writes 8 bytes whenever these are full. */
struct bit_packer {
    uint8_t *to;
    uint64_t bits;
    unsigned n;
};

static inline void bit_packer_store(struct bit_packer *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *b->to++ = (uint8_t)(b->bits >> (8 * i));
}

static inline void bit_packer_put(struct bit_packer *b, uint64_t value, unsigned width)
{
    b->bits |= value << b->n;
    b->n += width;
    if (b->n < 64)
        return;
    bit_packer_store(b, sizeof(b->bits));
    b->n -= 64;
    b->bits = b->n > 0 ? value >> (width - b->n) : 0;
}

static inline void bit_packer_end(struct bit_packer *b)
{
    bit_packer_store(b, (b->n + 7) / 8);
}

/* -- Hybrid ----------------------------------------------------------------------------------------------- */

void encoding_put_repeated(struct bytes *out, unsigned width, uint32_t value, size_t n)
{
    bytes_put_varint(out, (uint64_t)n << 1);
    bytes_put_fixed(out, value, (width + 7) / 8);
}

/* Only the last group of a page may be incomplete: it is filled up with zeros. */
static void encoding_put_packed(struct bytes *out, unsigned width, const uint32_t *values, size_t n)
{
    size_t groups = (n + GROUP_VALUES - 1) / GROUP_VALUES;

    if (n == 0)
        return;
    bytes_put_varint(out, (uint64_t)groups << 1 | 1);
    struct bit_packer b = {.to = bytes_room(out, groups * width)};
    if (!b.to)
        return;
    for (size_t i = 0; i < n; i++)
        bit_packer_put(&b, values[i], width);
    for (size_t i = n; i < groups * GROUP_VALUES; i++)
        bit_packer_put(&b, 0, width);
    bit_packer_end(&b);
    out->n += groups * width;
}

static size_t encoding_count_equal(const uint32_t *values, size_t n)
{
    size_t i = 1;

    while (i < n && values[i] == values[0])
        i++;
    return i;
}

void encoding_put_hybrid(struct bytes *out, unsigned width, const uint32_t *values, size_t n)
{
    size_t packed = 0; /* values from here to i are bit-packed */

    for (size_t i = 0; i < n;) {
        size_t equal = encoding_count_equal(&values[i], n - i);
        if (equal < GROUP_VALUES) {
            i += MIN((size_t)GROUP_VALUES, n - i);
            continue;
        }
        encoding_put_packed(out, width, &values[packed], i - packed);
        encoding_put_repeated(out, width, values[i], equal);
        i += equal;
        packed = i;
    }
    encoding_put_packed(out, width, &values[packed], n - packed);
}

/* -- Differences -------------------------------------------------------------------------------------------- */

/* differences: less the least one of the block. */
static void encoding_put_miniblock(struct bytes *out, unsigned width, const uint64_t *differences, size_t n)
{
    size_t size = (size_t)width * MINIBLOCK_VALUES / 8;
    struct bit_packer b = {.to = bytes_room(out, size)};

    if (!b.to || width == 0)
        return;
    for (size_t i = 0; i < MINIBLOCK_VALUES; i++)
        bit_packer_put(&b, i < n ? differences[i] : 0, width);
    bit_packer_end(&b);
    out->n += size;
}

static void encoding_put_block(struct bytes *out, uint64_t *differences, size_t n)
{
    uint8_t widths[DELTA_MINIBLOCKS] = {0};
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < n; i++)
        least = MIN(least, (int64_t)differences[i]);
    for (size_t i = 0; i < n; i++) {
        uint8_t *width = &widths[i / MINIBLOCK_VALUES];
        differences[i] -= (uint64_t)least;
        *width = (uint8_t)MAX(*width, encoding_width(differences[i]));
    }
    bytes_put_varint(out, zigzag_of(least));
    bytes_put(out, widths, sizeof(widths));
    for (size_t m = 0; m * MINIBLOCK_VALUES < n; m++)
        encoding_put_miniblock(out, widths[m], &differences[m * MINIBLOCK_VALUES],
                               MIN((size_t)MINIBLOCK_VALUES, n - m * MINIBLOCK_VALUES));
}

void encoding_put_delta(struct bytes *out, const int64_t *values, size_t n)
{
    uint64_t differences[DELTA_BLOCK];

    bytes_put_varint(out, DELTA_BLOCK);
    bytes_put_varint(out, DELTA_MINIBLOCKS);
    bytes_put_varint(out, n);
    bytes_put_varint(out, zigzag_of(n > 0 ? values[0] : 0));
    for (size_t first = 1; first < n; first += DELTA_BLOCK) {
        size_t count = MIN((size_t)DELTA_BLOCK, n - first);
        for (size_t i = 0; i < count; i++)
            differences[i] = (uint64_t)values[first + i] - (uint64_t)values[first + i - 1];
        encoding_put_block(out, differences, count);
    }
}

void encoding_put_numbers(struct bytes *out, const int64_t *values, size_t n)
{
    uint8_t *to = bytes_room(out, n * sizeof(*values));

    if (!to)
        return;
    for (size_t i = 0; i < n; i++, to += sizeof(*values)) {
        uint64_t value = (uint64_t)values[i];
        for (size_t k = 0; k < sizeof(value); k++)
            to[k] = (uint8_t)(value >> (8 * k));
    }
    out->n += n * sizeof(*values);
}
