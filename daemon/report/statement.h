/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One statement of a client on one trace. SQLite can be made to take any time and memory and may have errors of its
 * own: this runs in the sandbox of profd-report only, whose starter ends it.
 */
#pragma once

#include "base/problem.h"
#include <stdio.h>

struct report_statement {
    const char *sql;
    int64_t limit;             /* of its rows */
    int columns_fd, source_fd; /* the trace; taken over. No source: -1 */
    int64_t memory_max;        /* of SQLite */
};

/* What must be done before the sandbox is entered: SQLite opens a file for its random numbers, and libc the time zone. */
void statement_prepare(void);
/* Writes {columns, rows, more}. 0, or a negative errno value with a problem. */
int statement_answer(const struct report_statement *s, FILE *answer, struct problem *p);
