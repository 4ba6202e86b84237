/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a statement on stdout: as a table for people, as JSON or as comma or tab separated values for programs. Only
 * parts of limited size of a table are held in memory; other formats are streamed.
 *
 * A table that does not fit into the terminal is printed with a line for each value, as no column of a statement is
 * less important than another.
 *
 * JSON is an array of objects; of columns with the same name, the later ones are "name:1", ... CSV is that of RFC 4180,
 * TSV has the escapes \t, \n and \\. NULL is null, an empty field (an empty text is ""), and \N. If a statement fails,
 * its array is not closed.
 */
#pragma once

#include "client/cli/table.h"
#include "client/query/bounded.h"

#include <sqlite3.h>

struct result_options {
    enum table_format format;
    bool with_heading;
    int64_t rows_max;        /* INT64_MAX: all */
    struct bounded *bounded; /* limits of the statement; NULL: none */
};

struct result_end {
    int code; /* of SQLite: SQLITE_DONE, SQLITE_ROW at rows_max, or an error */
    int64_t rows;
};

/* How a value is printed as JSON, and aligned in a table. */
enum result_type {
    RESULT_TEXT,
    RESULT_NUMBER, /* its text is a number of JSON */
};

/* Rows of another database than SQLite. Columns count from 0, and are known after the first step. */
struct result_source {
    int (*step)(void *arg); /* as sqlite3_step() */
    int (*count)(void *arg);
    const char *(*name)(void *arg, int column);
    enum result_type (*type)(void *arg, int column);
    char *(*text)(void *arg, int column); /* of the current row; NULL for NULL; the caller frees it */
    void *arg;
};

/* The fewest digits that read back as the same number, into RESULT_REAL_TEXT bytes. */
#define RESULT_REAL_TEXT 40
void result_real_text(double value, char *ret);

struct result_end result_print_source(const struct screen *out, const struct result_options *o,
                                      const struct result_source *source);
/* Steps a statement to its end. One without columns prints nothing. */
struct result_end result_print(const struct screen *out, const struct result_options *o,
                               sqlite3_stmt *statement);
