/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The known arguments of slices, out of the columns. Best asked for slices whose numbers rise.
 */
#pragma once

#include "trace/columns/columns.h"

#define ARG_ARRAY_MAX 3

struct arg {
    const char *key;
    enum column column; /* of its first element */
    enum column_kind kind;
    bool is_array;
    unsigned n;
    int64_t values[ARG_ARRAY_MAX]; /* COLUMN_NULL only within an array */
};

struct args {
    const struct columns *c;
    uint64_t rows[ARG_GROUPS]; /* where the slice's row is, if it has one */
    bool has[ARG_GROUPS];
    size_t next; /* in column_args[] */
};

/* A struct that is zero but for c is ready. */
void args_seek(struct args *a, uint64_t slice);
bool args_next(struct args *a, struct arg *ret);
