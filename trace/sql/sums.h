/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each table of slices a second one, "sums of NAME", that only the statements of summarize.c read. It has one row
 * for all slices with equal keys (name, category, cat, track_id, depth, and the columns that a table has after its
 * own), where only keys that the statement uses count. The columns are scanned by blocks when a statement begins, so
 * a slice costs some nanoseconds instead of some dozens in the machine of SQLite.
 *
 * Rows have the "slice count"; the "dur count", "dur sum", "dur min" and "dur max" of those with a
 * duration; "ts min" and "ts max". The columns ts and dur are for comparisons with them, and have no value: a statement
 * that needs one fails. A statement also fails if sums could be inexact as a double, or overflow in another order of
 * slices, and if there are too many rows: its caller then runs it on the slices.
 */
#pragma once

#include "trace/sql/traces.h"

#define SUMS_PREFIX "sums of "

struct sql_table;

/* Whether a table has a table of sums. */
bool sums_has_table(const struct sql_table *table);
/* An SQLite result code. */
int sums_register(sqlite3 *db, struct traces *traces);
