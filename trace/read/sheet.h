/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table on their way to the writer, handed over by the block. */
#pragma once

#include "trace/columns/block.h"
#include "trace/columns/writer.h"

#define SHEET_COLUMNS_MAX 33

struct sheet {
    struct columns_writer *writer;
    unsigned width;
    enum column columns[SHEET_COLUMNS_MAX];
    uint64_t n, n_written;
    int64_t *values; /* width arrays of BLOCK_ROWS */
};

int sheet_init(struct sheet *s, struct columns_writer *w, const enum column *columns, unsigned width);
void sheet_done(struct sheet *s);
/* To be called once more when all rows are there. */
void sheet_flush(struct sheet *s);

/* The next row: its values by sheet_slot(), each column of it, and then sheet_next(). */
static inline int64_t *sheet_slot(struct sheet *s, unsigned column)
{
    return s->values + (size_t)column * BLOCK_ROWS + s->n % BLOCK_ROWS;
}

/* Rows since the last flush: they are at the beginning of each array. */
static inline size_t sheet_pending(const struct sheet *s)
{
    return (size_t)(s->n - s->n_written);
}

static inline void sheet_next(struct sheet *s)
{
    if (++s->n % BLOCK_ROWS == 0)
        sheet_flush(s);
}

/* A whole column of row numbers. */
void put_rows(struct columns_writer *w, enum column column, const uint32_t *rows, size_t n);
