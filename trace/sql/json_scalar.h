/* SPDX-License-Identifier: Apache-2.0 */
/* What a JSON scalar stands for: numbers as exactly as they can be had. */
#pragma once

#include "trace/columns/columns.h"
#include "trace/read/json_text.h"

enum json_scalar {
    JSON_INT,
    JSON_REAL,
    JSON_BOOL, /* the integer is 0 or 1 */
    JSON_WORD, /* none of these: a string without its quotes, NaN, or a whole number that does not fit */
};

enum json_scalar json_scalar(struct text json, int64_t *ret_integer, double *ret_real);
