/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes kept until the end of a reading: in memory up to a budget, beyond that in an unnamed file.
 *
 * Written once, in pieces, read back by offset. Safe for several threads.
 */
#pragma once

#include "base/util.h"
#include "trace/columns/block.h"
#include "trace/read/budget.h"

struct spill;

/* spill_fd: an empty file, or -1: then memory_max is a limit (-ENOMEM beyond it). The caller keeps
 * ownership. */
int spill_new(uint64_t memory_max, int spill_fd, struct spill **ret);
struct spill *spill_free(struct spill *s);
int spill_write(struct spill *s, const void *data, size_t size, uint64_t *ret_offset);
int spill_read(struct spill *s, uint64_t offset, void *data, size_t size);
uint64_t spill_memory(struct spill *s);

DEFINE_CLEANUP(struct spill *, spill_free)

/*
 * Rows of a few integers each in a spill, column by column in packed blocks of BLOCK_ROWS rows: the storage
 * of a reading for numerous items.
 *
 * A piece is one block of rows. A spill log is any number of rows, written and read front to back.
 */

#define PACKED_COLUMNS_MAX 32

/* columns: `width` arrays of BLOCK_ROWS values, of which the first n count. */
int packed_write(struct spill *s, const int64_t *columns, unsigned width, size_t n, uint64_t *ret_offset);
int packed_read(struct spill *s, uint64_t offset, unsigned width, size_t n, int64_t *ret_columns);

/* A piece that stays packed, for rows so wide that many unpacked pieces would exceed the memory. */
struct packed_rows {
    unsigned width;
    uint32_t offsets[PACKED_COLUMNS_MAX];
    struct block blocks[PACKED_COLUMNS_MAX];
    const uint8_t *bytes; /* in the spill, or the copy */
    uint8_t *copy;
    size_t cap;
};
/* The spill must outlive the rows. */
int packed_rows_load(struct packed_rows *p, struct spill *s, uint64_t offset, unsigned width, size_t n);
/* Values [first, first + n) of a column. */
void packed_rows_get(const struct packed_rows *p, unsigned column, size_t first, size_t n, int64_t *ret);
void packed_rows_done(struct packed_rows *p);

struct spill_log {
    struct spill *spill;
    struct budget *budget;
    unsigned width;
    uint64_t n;
    int64_t *columns; /* the block that is being filled: width arrays of BLOCK_ROWS */
    uint64_t *offsets;
    size_t n_offsets, offsets_cap;
};
int spill_log_init(struct spill_log *t, struct spill *spill, struct budget *budget, unsigned width);
void spill_log_done(struct spill_log *t);
/* Call it once after the last row. */
int spill_log_flush(struct spill_log *t);
/* Reads rows [first, first + BLOCK_ROWS) after everything was added; first is a multiple of BLOCK_ROWS.
 * Returns their number. */
int spill_log_read(struct spill_log *t, uint64_t first, int64_t *ret_columns, size_t *ret_n);

/* spill_log_slot() is the next row's value in a column; spill_log_next() takes the row. */
static inline int64_t *spill_log_slot(struct spill_log *t, unsigned column)
{
    return t->columns + (size_t)column * BLOCK_ROWS + t->n % BLOCK_ROWS;
}

static inline int spill_log_next(struct spill_log *t)
{
    return ++t->n % BLOCK_ROWS == 0 ? spill_log_flush(t) : 0;
}
