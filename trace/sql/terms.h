/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a query wants of a table in figures: ranges of numbers, lists of texts, an order. Independent of the
 * trace; filled anew each time the table is walked, without asking for memory again.
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
