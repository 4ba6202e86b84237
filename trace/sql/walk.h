/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the rows of a table that fit the terms of a query, one after the other, by the shortest way: the
 * row's number, time, track or name. Holds only numbers, and values that it examined.
 */
#pragma once

#include "trace/sql/plan.h"
#include "trace/sql/values.h"

enum way {
    WAY_ROWS,      /* from row to row */
    WAY_TRACK,     /* along by_track */
    WAY_GROUPS,    /* along by_name, group by group */
    WAY_ANCESTORS, /* from parent to parent */
};

struct walk {
    const struct sql_table *table;
    struct trace *trace;
    struct cells *cells;
    enum way way;
    uint64_t first, end; /* rows within the constraints */
    uint64_t at, stop;   /* of the rows, by_track or by_name */
    int64_t depth;       /* WAY_TRACK: ends before a slice of this depth or less; -1: no limit */
    int64_t track;       /* -1: any */
    struct numbers names, categories;
    /* WAY_GROUPS: the groups, the position in them, and the current group. */
    const uint32_t *groups;
    uint64_t group, groups_end;
    int64_t group_name, group_category;
    size_t name; /* index in the terms: its groups end at groups_end */
    bool one_of_each;
    uint64_t steps;
    bool over; /* the statement must end */
    const struct terms *terms;
};

/* Returns an SQLite result code. The terms must not change during the walk; cells are of the trace. */
int walk_start(struct walk *w, const struct sql_table *table, struct trace *trace, struct cells *cells,
               const struct terms *terms);
/* False at the end, and with w->over set if the statement must end. */
bool walk_next(struct walk *w, uint64_t *ret_row);
/* Values that are equal in all rows of the current group. */
bool walk_knows(const struct walk *w, const struct sql_column *column, int64_t *ret);
void walk_done(struct walk *w);
