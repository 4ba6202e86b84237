/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of one event, flattened as Perfetto flattens them: args.name for a member, args.name[0] for
 * an element, at any depth. Null values are left out, and the last of several arguments of one name counts.
 *
 * Arguments are read from the text of the event, or, if that is gone, from the columns of known arguments. A set is
 * used again for the next event; its contents point into it.
 */
#pragma once

#include "trace/columns/columns.h"
#include "trace/read/json_text.h"

/* Values nested deeper stay one argument with their JSON as its text. */
#define ARG_DEPTH_MAX 64
/* Limit for the arguments of one event. */
#define ARG_SET_BYTES_MAX (64 << 20)

enum arg_type {
    ARG_INT,
    ARG_REAL,
    ARG_STRING,
    ARG_BOOL,
    ARG_JSON,
    _ARG_TYPE_MAX,
};

struct arg {
    struct text key, flat_key; /* the latter without indexes */
    enum arg_type type;
    int64_t integer; /* 0 or 1 for ARG_BOOL */
    double real;
    struct text text; /* of ARG_STRING and ARG_JSON */
};

struct arg_set {
    struct arg *items;
    size_t n, cap;
    /* Private: memory of the texts. */
    struct arg_chunk *chunks;
    size_t bytes;
    struct arg **sorted;
    size_t sorted_cap;
};

/* -EFBIG for more than ARG_SET_BYTES_MAX, -ENOMEM. */
int arg_set_of_text(struct arg_set *set, struct text event);
/* Known arguments only; an array or object is one text with its JSON. */
int arg_set_of_columns(struct arg_set *set, const struct columns *c, uint64_t slice);
void arg_set_done(struct arg_set *set);

/* "int", "real", ... */
const char *arg_type_name(enum arg_type type);

enum json_scalar {
    SCALAR_INT,
    SCALAR_REAL,
    SCALAR_BOOL, /* the integer is 0 or 1 */
    SCALAR_WORD, /* none of these: a string without its quotes, NaN, or an integer that does not fit */
};

enum json_scalar json_scalar(struct text json, int64_t *ret_integer, double *ret_real);
