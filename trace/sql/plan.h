/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a query wants of a table: agreed with SQLite's planner once for each statement, written into a string,
 * and filled with values each time the table is walked, which in a join is once for each row of another
 * table.
 */
#pragma once

#include "trace/sql/terms.h"

/* many: the hidden column trace_id exists. An SQLite result code. */
int plan_best_index(const struct sql_table *table, bool many, sqlite3_index_info *info);
/* Reads what plan_best_index() wrote, with its values. An SQLite result code. */
int plan_terms(const struct sql_table *table, int number, const char *text, sqlite3_value **values, int n,
               struct terms *ret);
