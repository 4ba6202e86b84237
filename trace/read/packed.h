/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a few integers each in a spool, column by column in packed blocks of BLOCK_ROWS rows: what a
 * reading keeps of anything that there are many of.
 *
 * A piece is one block of rows. A tape is any number of rows, written and read front to back.
 */
#pragma once

#include "trace/columns/block.h"
#include "trace/read/budget.h"
#include "trace/read/spool.h"

#define PACKED_COLUMNS_MAX 32

/* columns: `width` arrays of BLOCK_ROWS values, of which the first n count. */
int packed_write(struct spool *s, const int64_t *columns, unsigned width, size_t n, uint64_t *ret_place);
int packed_read(struct spool *s, uint64_t place, unsigned width, size_t n, int64_t *ret_columns);

/* A piece that stays packed, for rows so wide that unpacking them all would cost more memory than there is
 * for many pieces at a time. */
struct packed_rows {
    unsigned width;
    uint32_t offsets[PACKED_COLUMNS_MAX];
    struct block blocks[PACKED_COLUMNS_MAX];
    uint8_t *bytes;
    size_t cap;
};
int packed_rows_load(struct packed_rows *p, struct spool *s, uint64_t place, unsigned width, size_t n);
/* Values [first, first + n) of a column. */
void packed_rows_get(const struct packed_rows *p, unsigned column, size_t first, size_t n, int64_t *ret);
void packed_rows_done(struct packed_rows *p);

struct tape {
    struct spool *spool;
    struct budget *budget;
    unsigned width;
    uint64_t n;
    int64_t *columns; /* the block that is being filled: width arrays of BLOCK_ROWS */
    uint64_t *places;
    size_t n_places, places_cap;
};
int tape_init(struct tape *t, struct spool *spool, struct budget *budget, unsigned width);
void tape_done(struct tape *t);
/* To be called once more when all rows are there. */
int tape_flush(struct tape *t);
/* Once everything was added: rows [first, first + BLOCK_ROWS), first a multiple of it. Returns how many. */
int tape_read(struct tape *t, uint64_t first, int64_t *ret_columns, size_t *ret_n);

/* The next row's value in a column is tape_slot(); tape_next() takes the row. */
static inline int64_t *tape_slot(struct tape *t, unsigned column)
{
    return t->columns + (size_t)column * BLOCK_ROWS + t->n % BLOCK_ROWS;
}

static inline int tape_next(struct tape *t)
{
    return ++t->n % BLOCK_ROWS == 0 ? tape_flush(t) : 0;
}
