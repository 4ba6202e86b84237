/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a query wants of a table: a plan is agreed with SQLite's planner once for each statement and written
 * into a string; each time the table is walked (in a join once for each row of another table) it is filled
 * with values and becomes terms: ranges of numbers, lists of texts, an order. Terms are independent of the
 * trace, in which texts are then looked up as numbers. Nothing is allocated again for a further walk.
 */
#pragma once

#include "trace/sql/tables.h"

enum order {
    ORDER_NONE,
    ORDER_ROWS,     /* rows as they stand: by time */
    ORDER_NAME,     /* by name and category */
    ORDER_CATEGORY, /* by category and name */
};

struct range {
    int64_t min, max;
};

struct texts {
    bool any; /* nothing is asked; otherwise one of these n */
    size_t n, cap, bytes, bytes_cap;
    struct {
        size_t at, size;
    } * items;
    char *text;
};

/* The values; independent of the trace. */
struct terms {
    enum order order;
    bool descending;  /* the order the other way round */
    bool one_of_each; /* one row of each name and category will do */
    struct range numbers[_SEEK_NUMBER_MAX];
    bool given[_SEEK_NUMBER_MAX];
    struct texts names, categories;
};

/* Nothing is asked for. */
void terms_reset(struct terms *terms);
void terms_done(struct terms *terms);
/* Narrows a range by `value OP`, OP being one of the SQLITE_INDEX_CONSTRAINT_ that compare. */
void range_narrow(struct range *range, int op, sqlite3_value *value);
/* The same for a trace's number, which may be written as profctl writes it: t12. */
void range_narrow_trace(struct range *range, int op, sqlite3_value *value);
/* One more text that will do; what equals no text adds none. An SQLite result code. */
int texts_add(struct texts *texts, sqlite3_value *value);

/*
 * A row's number with its trace's above it: it is unique in a catalog. Where there is
 * only one trace, whose number is 0, it is the row's. A slice's arguments are numbered so.
 */
#define ROW_BITS 40

static inline int64_t numbered_in(int64_t trace_id, uint64_t row)
{
    return (int64_t)((uint64_t)trace_id << ROW_BITS | row);
}

/* The rows of a trace that are numbered from range.min to range.max. */
static inline struct range rows_within(int64_t trace_id, struct range range)
{
    int64_t none = numbered_in(trace_id, 0), all = (INT64_C(1) << ROW_BITS) - 1;
    struct range rows = {range.min > none ? range.min - none : 0,
                         range.max < none + all ? range.max - none : all};

    return range.max < none || range.min > none + all ? (struct range){1, 0} : rows;
}

/* In order. */
struct numbers {
    bool any;
    size_t n, cap;
    int64_t *items;
};

bool numbers_have(const struct numbers *set, int64_t number);
/* Both: SQLite result codes; what the trace has no such text of is left out. */
int numbers_of_texts(struct numbers *set, const struct columns *c, const struct texts *texts);
/* Leaves those that are also in a list, which NULL ends; names NULL: all. */
int numbers_narrow(struct numbers *set, const struct columns *c, const char *const *names);

/* many: the hidden column trace_id exists. An SQLite result code. */
int plan_best_index(const struct sql_table *table, bool many, sqlite3_index_info *info);
/* Reads what plan_best_index() wrote, with its values. An SQLite result code. */
int plan_terms(const struct sql_table *table, int number, const char *text, sqlite3_value **values, int n,
               struct terms *ret);
