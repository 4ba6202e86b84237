/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is remembered of every slice until all of them are there: what its later orders are made from, and the
 * columns that can still change while it is open.
 */
#pragma once

#include "trace/read/packed.h"

enum {
    ROW_TS,
    ROW_TRACK,
    ROW_GROUP, /* of its category and name */
    _ROW_FIXED,
    ROW_DUR = _ROW_FIXED,
    ROW_CHILD,
    _ROW_MAX,
};

#define ROWS_MAX ((uint64_t)UINT32_MAX - 1)
#define ROW_NONE UINT32_MAX

struct open_page;

struct rows {
    struct spool *spool;
    struct budget *budget;
    struct tape fixed;
    /* dur and child: of each block of rows the page, while one of its slices is open, and then its place. */
    struct open_page **pages;
    uint64_t *places;
    size_t pages_cap, places_cap;
    struct open_page *spare;
};

int rows_init(struct rows *r, struct spool *spool, struct budget *budget);
void rows_done(struct rows *r);

/* Its row is the count of those before. -E2BIG where there are more than ROWS_MAX. */
int rows_add(struct rows *r, int64_t ts, uint32_t track, uint32_t group);
/* Once for each row, when they cannot change any more. */
int rows_finish(struct rows *r, uint32_t row, int64_t dur, int64_t child);

/* When every row is finished; then rows_read() gives _ROW_MAX columns, as tape_read() does. */
int rows_flush(struct rows *r);
int rows_read(struct rows *r, uint64_t first, int64_t *ret_columns, size_t *ret_n);

static inline uint64_t rows_count(const struct rows *r)
{
    return r->fixed.n;
}
