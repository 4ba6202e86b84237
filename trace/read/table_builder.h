/* SPDX-License-Identifier: Apache-2.0 */
/* Collects rows of a table and hands them to the writer in blocks. */
#pragma once

#include "trace/columns/block.h"
#include "trace/columns/writer.h"
#include "trace/read/budget.h"
#include "trace/read/run.h"
#include "trace/read/spill.h"

#define TABLE_BUILDER_COLUMNS_MAX 33

struct table_builder {
    struct columns_writer *writer;
    unsigned width;
    enum column columns[TABLE_BUILDER_COLUMNS_MAX];
    uint64_t n, n_written;
    int64_t *values; /* width arrays of BLOCK_ROWS */
};

int table_builder_init(struct table_builder *s, struct columns_writer *w, const enum column *columns,
                       unsigned width);
void table_builder_done(struct table_builder *s);
/* Call it once after the last row. */
void table_builder_flush(struct table_builder *s);

/* Set each column of the next row through table_builder_slot(), then call table_builder_next(). */
static inline int64_t *table_builder_slot(struct table_builder *s, unsigned column)
{
    return s->values + (size_t)column * BLOCK_ROWS + s->n % BLOCK_ROWS;
}

/* Rows since the last flush: they are at the beginning of each array. */
static inline size_t table_builder_pending(const struct table_builder *s)
{
    return (size_t)(s->n - s->n_written);
}

static inline void table_builder_next(struct table_builder *s)
{
    if (++s->n % BLOCK_ROWS == 0)
        table_builder_flush(s);
}

/* Writes a complete column of row numbers. */
void table_builder_put_rows(struct columns_writer *w, enum column column, const uint32_t *rows, size_t n);

/* Links GPU work to the runtime call that launched it: the last call with the same correlation. */

struct columns_writer;

struct links {
    struct number_map calls; /* correlation to row */
    struct spill_log gpu;    /* row and correlation, in order of rows */
};

int links_init(struct links *l, struct spill *spill, struct budget *budget);
void links_done(struct links *l);
int links_call(struct links *l, uint32_t row, int64_t correlation);
int links_gpu(struct links *l, uint32_t row, int64_t correlation);
/* Called after the last row. */
int links_write(struct links *l, struct columns_writer *w);

/*
 * Moves rows of arguments into the columns. Consecutive rows of a run are copied column by column, as late
 * as possible: cursors must live until args_finish().
 */

/* Rows of a piece that are still to be copied. */
struct arg_stretch {
    const struct run_cursor *cursor;
    const struct packed_rows *rows;
    const uint32_t *strings; /* maps the piece's strings to those of the columns; NULL: the same */
    size_t first, n;
};

struct args {
    struct links *links;
    struct table_builder tables[ARG_GROUPS];
    struct arg_stretch stretches[ARG_GROUPS];
    uint32_t with_text[ARG_GROUPS]; /* a bit for each column that holds strings */
};

int args_init(struct args *a, struct links *links, struct columns_writer *w);
void args_done(struct args *a);
/* Adds the arguments of the cursor's event, which became the slice `row`. */
int args_put(struct args *a, struct run_cursor *cursor, const uint32_t *strings, uint32_t row);
int args_finish(struct args *a);
