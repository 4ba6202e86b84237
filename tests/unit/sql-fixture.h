/* SPDX-License-Identifier: Apache-2.0 */
/* A trace that was read from text, open for SQL, for tests. */
#pragma once

#include "tests/unit/cmocka-all.h"
#include "tests/unit/read-fixture.h"
#include "trace/sql/query.h"

#include <sqlite3.h>

static inline struct read_result read_text(const char *text)
{
    return read_in(text, strlen(text), (struct read_options){0});
}

static inline int duplicate_fd(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* For a source with one trace: arg is its struct read_result, whose source_fd may be -1. */
static inline int open_read_result(void *arg, int64_t trace_id, int *ret_columns_fd, int *ret_source_fd,
                                   char **ret_error)
{
    const struct read_result *r = arg;

    *ret_columns_fd = duplicate_fd(r->columns_fd);
    *ret_source_fd = duplicate_fd(r->source_fd);
    return 0;
}

static inline sqlite3 *sql_over(struct read_result *r)
{
    sqlite3 *db = NULL;

    assert_int_equal(sql_open((struct sql_source){.open = open_read_result, .arg = r}, NULL, NULL, &db), 0);
    return db;
}

/* All rows as text: a line each, values with | between them, NULL as nothing; or "error: ...". The caller
 * frees. */
static inline char *ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int r = sqlite3_prepare_v2(db, sql, -1, &s, NULL);

    while (r == SQLITE_OK && (r = sqlite3_step(s)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(s); i++)
            fprintf(f, "%s%s", i > 0 ? "|" : "",
                    sqlite3_column_text(s, i) ? (const char *)sqlite3_column_text(s, i) : "");
        fputc('\n', f);
        r = SQLITE_OK;
    }
    if (r != SQLITE_DONE) {
        rewind(f);
        fprintf(f, "error: %s", sqlite3_errmsg(db));
        fputc('\0', f);
    }
    fclose(f);
    sqlite3_finalize(s);
    return text;
}

static inline void assert_answer(sqlite3 *db, const char *sql, const char *expected)
{
    _cleanup_(freep) char *answer = ask(db, sql);

    if (!streq(answer, expected))
        print_message("%s\n", sql);
    assert_string_equal(answer, expected);
}

static inline bool is_error(const char *answer)
{
    return starts_with(answer, "error: ");
}
