/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps through a piece of JSON text, forwards and backwards, without building a tree.
 *
 * Accepts text that begins or ends anywhere and may have defects: nothing is validated, values that do not
 * end within the text reach to its end, and are not found backwards. Slices are borrowed from the text.
 */
#pragma once

#include "base/util.h"

struct slice {
    const char *p, *end;
};

bool slice_is(struct slice s, const char *word);
/* Returns the text without its quotes, if it has them. */
struct slice slice_unquoted(struct slice s);
/* Parses an integer, quoted or not; false if it is not an integer or does not fit. */
bool slice_int(struct slice s, int64_t *ret);
/* Copies unquoted text, `\"`, `\\` and `\/` undone, cut at size - 1 bytes. */
void slice_copy(struct slice s, char *ret, size_t size);

static inline bool json_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline const char *json_skip_space(const char *p, const char *end)
{
    while (p < end && json_is_space(*p))
        p++;
    return p;
}

/* Steps to the next member of an object or element of an array: *rest begins after the opening bracket or
 * the previous value. False at the end. ret_key is empty for an element. */
bool json_next(struct slice *rest, struct slice *ret_key, struct slice *ret_value);
/* The members or elements of a value; nothing for a scalar. */
struct slice json_inside(struct slice value);

enum json_back {
    JSON_BACK_VALUE, /* a member or element was found; rest->end is where it began */
    JSON_BACK_OPEN,  /* rest->end is after the bracket that opens the level */
    JSON_BACK_LOST,  /* the text there begins before the start of the buffer, or is not JSON */
};
/* Like json_next(), but backwards: rest->end is the closing bracket of the level, or the beginning of the
 * value after. */
enum json_back json_back(struct slice *rest, struct slice *ret_key, struct slice *ret_value);
