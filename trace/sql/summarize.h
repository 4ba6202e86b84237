/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statements that only group slices, count them and sum their durations, on sums instead (sums.h). SQLite takes 50 to
 * 100 ns for each row that it aggregates, which is most of the time of such a statement.
 *
 * What is rewritten, and nothing else:
 *
 *     SELECT item, ... FROM slice|slices|kernel|op|annotation [WHERE ...] [GROUP BY key, ...] [HAVING ...]
 *         [ORDER BY ...] [LIMIT n [OFFSET n]]
 *
 * Each aggregate is count(*), count(key), or count, sum, total, avg, min or max of dur, or min or max of ts. Outside of
 * aggregates there are only keys of GROUP BY (in WHERE any key, ts and dur), numbers, texts, operators, functions that
 * depend on nothing but their arguments, and names given with AS. Every such aggregate over slices is one over sums of
 * parts of them, and what remains is equal for all slices of a part. Statements with any other word are not rewritten.
 */
#pragma once

#include <stddef.h>

struct sqlite3;
struct sqlite3_stmt;

/* The statement on sums; NULL: it cannot be rewritten, or memory is missing. names: of the n columns of its result.
 * The statement must be one that SQLite accepts. The caller frees with sqlite3_free(). */
char *summarize(const char *sql, const char *const *names, size_t n);
/* A statement with the same rows and names of columns, which takes less time; NULL: there is none. If it fails before
 * its first row, the statement itself must be run. */
struct sqlite3_stmt *sql_prepare_faster(struct sqlite3 *db, struct sqlite3_stmt *statement);
