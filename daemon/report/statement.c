/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/statement.h"

#include "base/alloc.h"
#include "trace/ranks/report_parts.h"
#include "trace/sql/query.h"
#include "trace/sql/summarize.h"
#include <errno.h>
#include <sqlite3.h>
#include <time.h>

/* Digits that a number may need until it reads back as the same. */
#define DIGITS_MIN 15
#define DIGITS_MAX 17

void statement_prepare(void)
{
    uint64_t ignored;
    time_t now = 0;
    struct tm local;

    sqlite3_initialize();
    sqlite3_randomness(sizeof(ignored), &ignored);
    localtime_r(&now, &local);
}

/* SQL opens the only trace once. */
static int statement_open_trace(void *arg, int64_t trace_id, int *ret_columns_fd, int *ret_source_fd,
                                char **ret_error)
{
    struct report_statement *s = arg;

    if (s->columns_fd < 0) {
        *ret_error = xstrdup("the trace is open already");
        return -EMFILE;
    }
    *ret_columns_fd = TAKE_FD(s->columns_fd);
    if (ret_source_fd)
        *ret_source_fd = TAKE_FD(s->source_fd);
    return 0;
}

static void statement_write_real(FILE *out, double value)
{
    char text[64];

    for (int digits = DIGITS_MIN; digits <= DIGITS_MAX; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) // cppcheck-suppress invalidTestForOverflow
            break;
    }
    if (isinf(value))
        strcpy(text, value < 0 ? "-1e999" : "1e999");
    fprintf(out, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

static void statement_write_text(FILE *out, const char *text)
{
    _cleanup_json_ value = json_text(text);
    json_dumpf(value, out, JSON_ENCODE_ANY | JSON_COMPACT);
}

static void statement_write_blob(FILE *out, const unsigned char *blob, int n)
{
    fputc('"', out);
    for (int i = 0; i < n; i++)
        fprintf(out, "%02x", blob[i]);
    fputc('"', out);
}

/* False without memory for the value. */
static bool statement_write_cell(FILE *out, sqlite3_stmt *statement, int column)
{
    const char *text;
    const void *blob;

    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        fprintf(out, "%lld", (long long)sqlite3_column_int64(statement, column));
        break;
    case SQLITE_FLOAT:
        statement_write_real(out, sqlite3_column_double(statement, column));
        break;
    case SQLITE_TEXT:
        text = (const char *)sqlite3_column_text(statement, column);
        if (!text)
            return false;
        statement_write_text(out, text);
        break;
    case SQLITE_BLOB:
        blob = sqlite3_column_blob(statement, column);
        if (!blob && sqlite3_column_bytes(statement, column) > 0)
            return false;
        statement_write_blob(out, blob, sqlite3_column_bytes(statement, column));
        break;
    default:
        fputs("null", out);
        break;
    }
    return true;
}

/* A result code of SQLite; the file is as it was after an error before the first row. */
static int statement_write_rows(sqlite3_stmt *statement, int64_t limit, FILE *out, bool *ret_begun)
{
    int n = sqlite3_column_count(statement), code = sqlite3_step(statement);
    int64_t rows = 0;

    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return code;
    *ret_begun = true;
    fputs("{\"columns\":[", out);
    for (int i = 0; i < n; i++) {
        fputs(i > 0 ? "," : "", out);
        const char *name = sqlite3_column_name(statement, i);
        statement_write_text(out, name ? name : "");
    }
    fputs("],\"rows\":[", out);
    for (; code == SQLITE_ROW && rows < limit && !ferror(out); code = sqlite3_step(statement)) {
        fputs(rows++ > 0 ? ",\n[" : "\n[", out);
        for (int i = 0; i < n; i++) {
            fputs(i > 0 ? "," : "", out);
            if (!statement_write_cell(out, statement, i))
                return SQLITE_NOMEM;
        }
        fputc(']', out);
    }
    fprintf(out, "],\"more\":%s}\n", code == SQLITE_ROW ? "true" : "false");
    return code == SQLITE_ROW ? SQLITE_DONE : code;
}

static int statement_explain(sqlite3 *db, int code, struct problem *p)
{
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        problem_remedy(p, "Ask for fewer rows, or sort and group fewer of them.");
        return problem_set(p, -ENOMEM, PROBLEM_TOO_LARGE,
                           "the statement needs more memory than [limits] report_memory= allows");
    case SQLITE_AUTH:
        problem_remedy(p, "A trace can only be read: no ATTACH, no extensions, nothing that writes.");
        break;
    default:
        problem_remedy(p, "docs/sql.md describes tables and columns.");
        break;
    }
    return problem_set(p, -EINVAL, PROBLEM_UNSUPPORTED, "%s", sqlite3_errmsg(db));
}

static bool statement_is_blank(const char *text)
{
    return !text[strspn(text, " \t\r\n;")];
}

static int statement_run(sqlite3 *db, const struct report_statement *s, FILE *answer, struct problem *p)
{
    sqlite3_stmt *statement = NULL;
    const char *rest = NULL;
    bool begun = false;

    int code = sqlite3_prepare_v2(db, s->sql, -1, &statement, &rest);
    if (code != SQLITE_OK)
        return statement_explain(db, code, p);
    if (!statement || !statement_is_blank(rest)) {
        sqlite3_finalize(statement);
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "sql must be one statement");
    }
    /* From sums where these give the same rows. */
    sqlite3_stmt *faster = sql_prepare_faster(db, statement);
    code = faster ? statement_write_rows(faster, s->limit, answer, &begun) : SQLITE_ERROR;
    sqlite3_finalize(faster);
    if (code != SQLITE_DONE && !begun)
        code = statement_write_rows(statement, s->limit, answer, &begun);
    int r = code == SQLITE_DONE ? 0 : statement_explain(db, code, p);
    sqlite3_finalize(statement);
    return r;
}

int statement_answer(const struct report_statement *s, FILE *answer, struct problem *p)
{
    struct report_statement source = *s;
    sqlite3 *db = NULL;

    sqlite3_hard_heap_limit64(s->memory_max);
    int r = sql_open((struct sql_source){.open = statement_open_trace, .arg = &source}, NULL, NULL, &db);
    if (r < 0)
        return problem_set(p, r, PROBLEM_INTERNAL, "cannot open the trace for SQL: %s", strerror(-r));
    r = statement_run(db, s, answer, p);
    sqlite3_close(db);
    return r;
}
