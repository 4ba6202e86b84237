/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way from merging to the columns: rows that become blocks of a table, buffers that the writer's thread works off,
 * and the arguments, which are read in that thread alone.
 */
#pragma once

#include "trace/columns/block.h"
#include "trace/columns/writer.h"
#include "trace/read/budget.h"
#include "trace/read/sorted_run.h"
#include "trace/read/spill.h"

/* -- Tables (table_builder.c) */

/* Collects rows of a table and hands them to the writer in blocks. */

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

/* Rows since the last flush: they are at the beginning of each array. */
static inline size_t table_builder_pending(const struct table_builder *s)
{
    return (size_t)(s->n - s->n_written);
}

/* Adds a row: the values of all columns, in order. */
__attribute__((always_inline)) static inline void table_builder_add(struct table_builder *s,
                                                                    const int64_t *row, unsigned width)
{
    for (unsigned i = 0; i < width; i++)
        s->values[(size_t)i * BLOCK_ROWS + s->n % BLOCK_ROWS] = row[i];
    if (++s->n % BLOCK_ROWS == 0)
        table_builder_flush(s);
}
#define TABLE_BUILDER_ADD(s, ...)                                                                            \
    table_builder_add((s), (const int64_t[]){__VA_ARGS__}, ARRAY_SIZE(((const int64_t[]){__VA_ARGS__})))

/* Writes a complete column of row numbers. */
void table_builder_put_rows(struct columns_writer *w, enum column column, const uint32_t *rows, size_t n);

/* -- Work for the thread of the writer (handover.c) */

/*
 * Buffers that one thread fills and the thread of the columns' writer works off, in order: the merging thread does
 * what needs the events before, everything else is done there. Buffers are reused; the filling thread waits where
 * all are full.
 */

#define HANDOVER_BUFFERS 64

struct handover {
    struct columns_writer *writer;
    void (*take)(void *buffer); /* in the writer's thread */
    size_t size;                /* of a buffer */
    size_t at;                  /* the buffer that is being filled */
    size_t calls[HANDOVER_BUFFERS], last;
    uint8_t *buffers;
};

int handover_init(struct handover *h, struct columns_writer *w, size_t size, void (*take)(void *buffer));
/* Waits until all buffers are worked off. */
void handover_done(struct handover *h);
/* Returns the buffer to fill; its content is that of any buffer before. */
void *handover_buffer(const struct handover *h);
void handover_give(struct handover *h);

/* -- Launches and arguments (args.c) */

#define ROW_NONE UINT32_MAX

/* Links GPU work to the runtime call that launched it: the last call with the same correlation. */

struct links {
    struct number_map calls; /* correlation to row */
    struct spill_log gpu;    /* row and correlation, in order of rows */
};

/*
 * Moves rows of arguments into the columns, in the writer's thread. Consecutive rows of a run are copied column by
 * column, as late as possible: cursors must live until args_wait().
 */

/* An event with arguments; row: ROW_NONE if it did not become a slice. */
struct arg_entry {
    struct run_cursor *cursor;
    const uint32_t *strings; /* maps the numbers of strings to those of the columns; NULL: the same */
    uint32_t row, groups;
};

#define ARG_BLOCK_ENTRIES 512

struct arg_block {
    struct args *owner;
    size_t n;
    struct arg_entry entries[ARG_BLOCK_ENTRIES];
};

/* Rows of a piece that are still to be copied. */
struct arg_stretch {
    const struct run_cursor *cursor;
    const struct packed_rows *rows;
    const uint32_t *strings;
    size_t first, n;
};

struct args {
    struct columns_writer *writer;
    struct handover blocks;
    struct arg_block *block; /* being filled */
    size_t end;              /* the call of args_finish() */
    /* The writer's thread's. */
    struct links links;
    struct table_builder tables[ARG_GROUPS];
    struct arg_stretch stretches[ARG_GROUPS];
    uint32_t with_text[ARG_GROUPS]; /* a bit for each column that holds strings */
    int error;
};

int args_init(struct args *a, struct spill *spill, struct budget *budget, struct columns_writer *w);
void args_done(struct args *a);
/* Takes the next rows of the cursor in these groups (a bit for each), for the slice `row` or nobody. Called for
 * every event that has any, in order. */
void args_put(struct args *a, struct run_cursor *cursor, const uint32_t *strings, unsigned groups,
              uint32_t row);
/* Called after the last event; args_wait() returns when all is in the columns, with 0 or the first error. */
void args_finish(struct args *a);
int args_wait(struct args *a);
