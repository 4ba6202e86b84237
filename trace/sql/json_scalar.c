/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/json_scalar.h"

#include "trace/read/number.h"

enum json_scalar json_scalar(struct text json, int64_t *ret_integer, double *ret_real)
{
    const char *end = json.p + json.size;
    bool whole;

    if ((json.size == 4 && memcmp(json.p, "true", 4) == 0) ||
        (json.size == 5 && memcmp(json.p, "false", 5) == 0)) {
        *ret_integer = json.size == 4;
        return JSON_BOOL;
    }
    if (!number_is(json.p, end, &whole))
        return JSON_WORD;
    /* A whole number that does not fit keeps its digits: a double would lose some. */
    if (whole)
        return slice_int((struct slice){json.p, end}, ret_integer) ? JSON_INT : JSON_WORD;
    return number_real(json.p, end, ret_real) ? JSON_REAL : JSON_WORD;
}
