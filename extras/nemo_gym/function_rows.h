/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions and what they cost, as profd answers them: rows that borrow from the answer, sorted and summed.
 * Pure.
 */
#pragma once

#include "base/json.h"

struct function_row {
    const char *worker, *name, *file; /* never NULL */
    int64_t line;
    int64_t calls;            /* 0: not known */
    int64_t tsub_ns, ttot_ns; /* in the function itself; and in what it called */
    int64_t tavg_ns;          /* of a call, with what it called */
};

struct function_rows {
    struct function_row *items;
    size_t n;
    size_t n_workers; /* different ones */
};

/* Of an answer's "functions"; what is no function there is left out. */
void function_rows_take(const json_t *answer, struct function_rows *ret);
void function_rows_done(struct function_rows *r);

/* The largest first, by "ttot", "tsub", "ncall" or "tavg"; -EINVAL for another key, with nothing done. */
#define FUNCTION_SORT_KEYS "ttot, tsub, ncall, tavg"
int function_rows_sort(struct function_rows *r, const char *key);
/* All time of a worker's functions: what they cost themselves, or what the longest of them saw, where that is
 * more: rows do not tell of what is built in, and may be of one program only. */
int64_t function_rows_total_ns(const struct function_rows *r, const char *worker);
/* Negative, 0, positive: an order of (file, name), whatever the line and the worker. */
int function_row_compare(const struct function_row *a, const struct function_row *b);
