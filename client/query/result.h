/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a statement on stdout: as a table for people, as JSON or as comma or tab separated values for
 * programs. Only a table is held in memory, a part of limited size at a time; everything else streams.
 *
 * A table that does not fit into the terminal is printed with a line for each value, as no column of a
 * statement is less important than another.
 *
 * JSON is an array of objects; where two columns have one name, the later ones are "name:1", ... CSV is that
 * of RFC 4180, TSV has \t, \n and \\ for what would break it. NULL is null, an empty field (an empty text is
 * ""), and \N. An array that is not closed is of a statement that failed on the way.
 */
#pragma once

#include "client/cli/table.h"
#include "client/query/bounded.h"

#include <sqlite3.h>

struct result_options {
    enum table_format format;
    bool with_heading;
    int64_t rows_max;        /* INT64_MAX: all */
    struct bounded *bounded; /* what may end the statement; NULL: nothing */
};

struct result_end {
    int code; /* of SQLite: SQLITE_DONE, SQLITE_ROW where rows_max was met, or an error */
    int64_t rows;
};

/* Steps a statement to its end. One without columns prints nothing. */
struct result_end result_print(const struct screen *out, const struct result_options *o,
                               sqlite3_stmt *statement);
