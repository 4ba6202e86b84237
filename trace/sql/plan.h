/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The constraints of a query on a table. A plan is agreed with the planner of SQLite once for each statement and
 * written into a string. For each walk of the table (in a join once for each row of another table), the plan is
 * filled with values and becomes terms: ranges of numbers, lists of texts, an order. Terms are independent of the
 * trace, in which texts are then looked up as numbers. A further walk allocates nothing.
 */
#pragma once

#include "trace/sql/tables.h"

enum order {
    ORDER_NONE,
    ORDER_ROWS,     /* by number of the row, which is by time */
    ORDER_NAME,     /* by name and category */
    ORDER_CATEGORY, /* by category and name */
};

struct range {
    int64_t min, max;
};

struct texts {
    bool any; /* no constraint; else one of these n */
    size_t n, cap, bytes, bytes_cap;
    struct {
        size_t at, size;
    } * items;
    char *text;
};

/* The values; independent of the trace. */
struct terms {
    enum order order;
    bool descending;  /* reverse order */
    bool one_of_each; /* one row of each name and category is sufficient */
    struct range numbers[_SEEK_NUMBER_MAX];
    bool given[_SEEK_NUMBER_MAX];
    struct texts names, categories;
};

/* Removes all constraints. */
void terms_reset(struct terms *terms);
void terms_done(struct terms *terms);
/* Narrows a range by `value OP`, OP being one of the SQLITE_INDEX_CONSTRAINT_ that compare. */
void range_narrow(struct range *range, int op, sqlite3_value *value);
/* The same for the number of a trace, which may be written as in profctl: t12. */
void range_narrow_trace(struct range *range, int op, sqlite3_value *value);
/* Adds a text to a list, unless the value equals no text. An SQLite result code. */
int texts_add(struct texts *texts, sqlite3_value *value);

/*
 * The number of a row with that of its trace above it, which is unique in a catalog. The only trace has the number 0,
 * so its rows have their own numbers. arg_set_id is numbered like this.
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

/* The traces of a range of rows that are numbered like this, within a range of traces. */
static inline struct range traces_of_rows(struct range traces, struct range rows)
{
    if (rows.min > rows.max)
        return rows;
    if (rows.min > INT64_MIN)
        traces.min = MAX(traces.min, rows.min >> ROW_BITS);
    if (rows.max < INT64_MAX)
        traces.max = MIN(traces.max, rows.max >> ROW_BITS);
    return traces;
}

/* Sorted. */
struct numbers {
    bool any;
    size_t n, cap;
    int64_t *items;
};

bool numbers_have(const struct numbers *set, int64_t number);
/* Both: SQLite result codes; texts that the trace does not have are left out. */
int numbers_of_texts(struct numbers *set, const struct columns *c, const struct texts *texts);
/* Keeps those that are also in a list, which ends with NULL; names NULL: all. */
int numbers_narrow(struct numbers *set, const struct columns *c, const char *const *names);

/* many: the hidden column trace_id exists. An SQLite result code. */
int plan_best_index(const struct sql_table *table, bool many, sqlite3_index_info *info);
/* Reads what plan_best_index() wrote, with its values. An SQLite result code. */
int plan_terms(const struct sql_table *table, int number, const char *text, sqlite3_value **values, int n,
               struct terms *ret);
