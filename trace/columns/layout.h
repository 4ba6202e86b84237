/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a columnar file, for its writer and its reader alone; docs/columns.md describes it.
 *
 *     head | payload: packed blocks, strings, windows | blocks of each column | columns | page sums | trailer
 *
 * Everything is little endian. The page sums cover all that lies before them, the trailer's sum covers them
 * and the trailer, so that no byte of the file is unprotected.
 */
#pragma once

#include "base/util.h"
#include "trace/columns/packing.h"

#include <isa-l/crc.h>

#define LAYOUT_END_MAGIC "PROFDEND"
#define LAYOUT_PAGE      (64 << 10)
#define LAYOUT_ALIGN     16
#define LAYOUT_NAME      40

struct layout_head {
    char magic[14];
    uint16_t version;
};

/* One for each block of a column: how it is packed, and where. */
struct layout_block {
    int64_t base;
    uint64_t packing; /* see layout_packing() */
};

/* Members of layout_block.packing: bits from the lowest on. The offset is counted in PACKING_ALIGN. */
enum {
    LAYOUT_WIDTH_SHIFT = 40,
    LAYOUT_RANGE_SHIFT = LAYOUT_WIDTH_SHIFT + 7,
    LAYOUT_NULLS_SHIFT = LAYOUT_RANGE_SHIFT + 7,
    LAYOUT_THOUSANDS_SHIFT,
    LAYOUT_FORM_SHIFT,
};
#define LAYOUT_OFFSET_MAX ((UINT64_C(1) << LAYOUT_WIDTH_SHIFT) * PACKING_ALIGN - 1)

struct layout_column {
    char name[LAYOUT_NAME]; /* "table.column", padded with zeros */
    uint32_t kind;          /* enum column_kind */
    uint32_t reserved;
    uint64_t rows;
    uint64_t blocks; /* offset of its struct layout_block, of which there are rows / BLOCK_ROWS, rounded up */
};

struct layout_trailer {
    uint64_t payload_end;
    uint64_t columns; /* offset */
    uint64_t sums; /* offset; uint32_t for each LAYOUT_PAGE bytes before it, the last page may be shorter */
    uint32_t n_columns;
    uint32_t n_sums;
    uint32_t version;
    uint32_t reserved[4];
    uint32_t sum; /* of the page sums and the trailer up to magic, with this one as 0 */
    char magic[8];
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are mapped as they lie in the file");
_Static_assert(sizeof(struct layout_head) == 16 && sizeof(struct layout_block) == 16, "no padding");
_Static_assert(sizeof(struct layout_column) == 64 && sizeof(struct layout_trailer) == 64, "no padding");

static inline uint64_t layout_packing_of(struct packing p, uint64_t offset)
{
    return offset / PACKING_ALIGN | (uint64_t)p.width << LAYOUT_WIDTH_SHIFT |
           (uint64_t)p.range << LAYOUT_RANGE_SHIFT | (uint64_t)p.nulls << LAYOUT_NULLS_SHIFT |
           (uint64_t)p.thousands << LAYOUT_THOUSANDS_SHIFT | (uint64_t)p.form << LAYOUT_FORM_SHIFT;
}

static inline struct packing layout_packing(const struct layout_block *b, uint64_t *ret_offset)
{
    *ret_offset = (b->packing & ((UINT64_C(1) << LAYOUT_WIDTH_SHIFT) - 1)) * PACKING_ALIGN;
    return (struct packing){
        .base = b->base,
        .width = b->packing >> LAYOUT_WIDTH_SHIFT & 0x7f,
        .range = b->packing >> LAYOUT_RANGE_SHIFT & 0x7f,
        .nulls = b->packing >> LAYOUT_NULLS_SHIFT & 1,
        .thousands = b->packing >> LAYOUT_THOUSANDS_SHIFT & 1,
        .form = (uint8_t)(b->packing >> LAYOUT_FORM_SHIFT),
    };
}

/* The dictionary is packed like any table: where each string lies, and its size. */
enum {
    LAYOUT_TEXT_OFFSET = _COLUMN_MAX,
    LAYOUT_TEXT_SIZE,
    _LAYOUT_COLUMN_MAX,
};

/* A column's table and name, which its name in the file has with a dot between them. */
static inline const char *layout_table_of(unsigned column)
{
    return column >= _COLUMN_MAX ? "text" : column_table_names[column_specs[column].table];
}

static inline const char *layout_name_of(unsigned column)
{
    static const char *const texts[] = {"offset", "size"};

    return column >= _COLUMN_MAX ? texts[column - _COLUMN_MAX] : column_specs[column].name;
}

/* CRC-32C, also of a text in pieces: begin with 0. */
static inline uint32_t layout_sum(uint32_t sum, const void *data, size_t size)
{
    /* ISA-L takes the length as an int; pages and pieces are far smaller. */
    return ~crc32_iscsi((unsigned char *)data, (int)size, ~sum);
}
