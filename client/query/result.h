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

/* Steps a statement to its end. One without columns prints nothing. */
struct result_end result_print(const struct screen *out, const struct result_options *o,
                               sqlite3_stmt *statement);
