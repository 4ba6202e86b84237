/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lanes of a trace and their levels of detail (docs/columns.md): those of its columns, or, where columns of an
 * earlier program have none, made in memory from the slices: 24 bytes a slice. Lanes are in the order of their tracks,
 * and of depth. Once it is open, safe to read from several threads.
 */
#pragma once

#include "trace/columns/column_cursor.h"

struct lane_memory;

/* Rows [first, end) of by_lane, in order of time. */
struct lane_rows {
    int64_t track, depth; /* COLUMN_NULL where unknown */
    uint64_t first, end;
    int64_t mip; /* its first row of lanemip; COLUMN_NULL where it has none */
};

/* Not to be changed. */
struct lane_table {
    const struct columns *c; /* the caller's */
    uint64_t n;              /* lanes */
    struct lane_rows *lanes;
    struct lane_memory *made; /* NULL: they are in the columns */
    /* Of what was made, by row of by_lane. */
    const int64_t *ts, *dur;
    /* Of the columns: the smallest time of each block of by_lane, where that is its first. */
    int64_t *begins;
};

/* -ENOMEM. */
int lane_table_open(const struct columns *c, struct lane_table *ret);
void lane_table_done(struct lane_table *t);

/* Empty for a lane that does not exist. */
static inline struct lane_rows lane_table_rows(const struct lane_table *t, uint64_t lane)
{
    return lane < t->n ? t->lanes[lane] : (struct lane_rows){.track = COLUMN_NULL, .depth = COLUMN_NULL};
}
/* The slice of a row of by_lane, or COLUMN_NULL. */
int64_t lane_table_slice(const struct lane_table *t, uint64_t at);
/* Times of a row of by_lane, as a cursor reads them: for rows far from each other. */
int64_t lane_table_ts(const struct lane_table *t, uint64_t at);
int64_t lane_table_dur(const struct lane_table *t, uint64_t at);

/* Reads times of rows near each other. Zero-initialise, with t. */
struct lane_cursor {
    const struct lane_table *t;
    struct column_part_cursor ts, dur; /* private */
};

static inline struct lane_cursor lane_cursor_of(const struct lane_table *t)
{
    return (struct lane_cursor){
        .t = t, .ts = {.c = t->c, .column = COL_by_lane_ts}, .dur = {.c = t->c, .column = COL_by_lane_dur}};
}

/* at is a row of a lane. */
static inline int64_t lane_cursor_ts(struct lane_cursor *cursor, uint64_t at)
{
    return cursor->t->ts ? cursor->t->ts[at] : column_part_cursor_get(&cursor->ts, at);
}

/* -1: unfinished. */
static inline int64_t lane_cursor_dur(struct lane_cursor *cursor, uint64_t at)
{
    return cursor->t->dur ? cursor->t->dur[at] : column_part_cursor_get(&cursor->dur, at);
}

/* Durations from a row on, until row `end` at most, and how many they are: at least one. */
static inline const int64_t *lane_cursor_durs(struct lane_cursor *cursor, uint64_t at, uint64_t end,
                                              size_t *ret_n)
{
    if (!cursor->t->dur)
        return column_part_cursor_span(&cursor->dur, at, end, ret_n);
    *ret_n = (size_t)(end - at);
    return cursor->t->dur + at;
}

/* Reads rows of lanemip near each other. */
struct lane_group_cursor {
    const struct lane_table *t;
    struct column_part_cursor longest, busy; /* private */
};

static inline struct lane_group_cursor lane_group_cursor_of(const struct lane_table *t)
{
    return (struct lane_group_cursor){.t = t,
                                      .longest = {.c = t->c, .column = COL_lanemip_longest},
                                      .busy = {.c = t->c, .column = COL_lanemip_busy}};
}

/* The row of by_lane with the longest slice, COLUMN_NULL where the row has none. */
int64_t lane_group_cursor_longest(struct lane_group_cursor *cursor, uint64_t row);
/* Sums of durations from a row on, until row `end` at most, and how many they are: at least one. */
const int64_t *lane_group_cursor_busy(struct lane_group_cursor *cursor, uint64_t row, uint64_t end,
                                      size_t *ret_n);

/* The first row of [at, end) that begins at `ns` or later, end if there is none; fastest where it is near `at`. */
uint64_t lane_cursor_find(struct lane_cursor *cursor, uint64_t at, uint64_t end, int64_t ns);
