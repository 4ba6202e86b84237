/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The four readings of a table of functions, for the functions that they hold for: a high total, a high time
 * of its own, many calls that are dear, a high total with little of its own. Pure; thresholds are shares of
 * all time that the server's functions took.
 */
#pragma once

#include "client/functions/function_rows.h"

struct function_finding {
    const char *reading; /* "high-tsub" */
    const char *advice;
    const struct function_row *function; /* borrowed */
    double share;                        /* of all time: of ttot, for high-tsub of tsub; 0 to 1 */
};

struct function_findings {
    struct function_finding *items;
    size_t n, cap;
};

/* Of each worker by itself; the largest share first within a reading. */
void function_findings_make(const struct function_rows *rows, struct function_findings *ret);
void function_findings_done(struct function_findings *f);
/* "fib takes 61.0 % of the time itself: 1.21 s of 1.98 s in 23,250 calls". The caller frees it. */
char *function_finding_text(const struct function_finding *f);
