/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a statement: where it is rewritten, both statements have the same rows. */
#include "base/alloc.h"
#include "base/fs.h"
#include "trace/read/reader.h"
#include "trace/sql/query.h"
#include "trace/sql/summarize.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define X(name, tid, ts, more)                                                                               \
    "{\"ph\":\"X\",\"name\":\"" name "\",\"pid\":1,\"tid\":" tid ",\"ts\":" ts more "},"

static const char text[] =
    "[" X("a", "1", "1", ",\"dur\":9,\"cat\":\"kernel\"") X("b", "1", "2", ",\"dur\":3,\"cat\":\"cpu_op\"")
        X("a", "2", "2", ",\"dur\":5") X("5", "2", "4", ",\"dur\":0,\"cat\":\"kernel\"") X(
            "", "1", "5", ",\"dur\":1,\"cat\":\"user_annotation\"") "{\"ph\":\"B\",\"name\":\"b\",\"pid\":1,"
                                                                    "\"tid\":3,\"ts\":6,\"cat\":\"kernel\"}]";

static int open_columns(void *arg, int64_t trace_id, int *ret_columns_fd, int *ret_source_fd,
                        char **ret_error)
{
    const int *fd = arg;

    *ret_columns_fd = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    return 0;
}

static int memory_file(const char *content)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    if (fd < 0 || write_all(fd, content, strlen(content)) < 0)
        abort();
    return fd;
}

static sqlite3 *open_database(void)
{
    static int columns_fd;
    static sqlite3 *db;
    struct read_summary sum;

    if (db)
        return db;
    columns_fd = memory_file("");
    _cleanup_(closep) int source_fd = memory_file(text), spill_fd = memory_file("");
    struct read_options options = {.source_fd = source_fd, .columns_fd = columns_fd, .spill_fd = spill_fd};
    if (trace_read(&options, &sum) < 0 ||
        sql_open((struct sql_source){.open = open_columns, .arg = &columns_fd}, NULL, NULL, &db) < 0)
        abort();
    return db;
}

static void compare_values(sqlite3_stmt *a, sqlite3_stmt *b, int i)
{
    const void *x = sqlite3_column_blob(a, i), *y = sqlite3_column_blob(b, i);
    int n = sqlite3_column_bytes(a, i);

    if (sqlite3_column_type(a, i) != sqlite3_column_type(b, i) || n != sqlite3_column_bytes(b, i) ||
        (n > 0 && memcmp(x, y, (size_t)n) != 0))
        abort();
}

static void compare_rows(sqlite3_stmt *a, sqlite3_stmt *b)
{
    int n = sqlite3_column_count(a), first = sqlite3_step(b), second;

    /* What cannot be computed of sums is left to the statement. */
    if (first != SQLITE_ROW && first != SQLITE_DONE)
        return;
    if (n != sqlite3_column_count(b))
        abort();
    for (int i = 0; i < n; i++)
        if (!streq(sqlite3_column_name(a, i), sqlite3_column_name(b, i)))
            abort();
    for (second = sqlite3_step(a); first == SQLITE_ROW && second == SQLITE_ROW;
         first = sqlite3_step(b), second = sqlite3_step(a))
        for (int i = 0; i < n; i++)
            compare_values(a, b, i);
    if (first != second)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a", "count(*)", "\"", ""};
    _cleanup_(freep) char *sql = xstrndup((const char *)data, size);
    sqlite3 *db = open_database();
    sqlite3_stmt *statement = NULL, *faster;

    for (size_t n = 0; n <= ARRAY_SIZE(names); n++)
        sqlite3_free(summarize(sql, names, n));
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK || !statement)
        return 0;
    faster = sql_prepare_faster(db, statement);
    if (faster)
        compare_rows(statement, faster);
    sqlite3_finalize(faster);
    sqlite3_finalize(statement);
    return 0;
}
