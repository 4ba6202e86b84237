/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables over a catalog, for programs that have its database open and load extensions: sqlite3, Python. The catalog's view `traces` lists the traces and their files.
 */
#include "base/array.h"
#include "base/fs.h"
#include "trace/sql/query.h"
#include "trace/sql/traces.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#define _export_ __attribute__((visibility("default")))

SQLITE_EXTENSION_INIT1

/* The first version with sqlite3_vtab_in() and sqlite3_vtab_distinct(). */
#define SQLITE_VERSION_MIN 3038000

/* The entry points that SQLite calls: this name, or one that is made of the letters of the file name. */
_export_ int sqlite3_extension_init(sqlite3 *db, char **ret_error, const sqlite3_api_routines *api);
_export_ int sqlite3_profdtrace_init(sqlite3 *db, char **ret_error, const sqlite3_api_routines *api);

static int fail(sqlite3 *db, char **ret_error)
{
    if (asprintf(ret_error, "the database is not a catalog of profd: %s", sqlite3_errmsg(db)) < 0)
        *ret_error = NULL;
    return -EIO;
}

static int refuse(int error, char **ret_error, int64_t trace_id, const char *why)
{
    if (asprintf(ret_error, "trace %" PRId64 " %s", trace_id, why) < 0)
        *ret_error = NULL;
    return error;
}

static int open_columns(const char *path, int64_t trace_id, int *ret_fd, char **ret_error)
{
    struct stat st;

    if (!path)
        return refuse(-ENOENT, ret_error, trace_id, "has no columns; create them with profctl ingest");
    *ret_fd = open_regular(AT_FDCWD, path, &st);
    if (*ret_fd >= 0)
        return 0;
    return refuse(*ret_fd, ret_error, trace_id,
                  "has columns that cannot be opened: check your permissions on the store");
}

static int open_trace(void *arg, int64_t trace_id, int *ret_columns_fd, int *ret_source_fd, char **ret_error)
{
    sqlite3 *db = arg;
    sqlite3_stmt *find = NULL;
    struct stat st;
    int r;

    if (sqlite3_prepare_v2(db, "select columns, path from traces where trace_id = ?", -1, &find, NULL) !=
        SQLITE_OK)
        return fail(db, ret_error);
    sqlite3_bind_int64(find, 1, trace_id);
    switch (sqlite3_step(find)) {
    case SQLITE_ROW:
        r = open_columns((const char *)sqlite3_column_text(find, 0), trace_id, ret_columns_fd, ret_error);
        if (r == 0 && sqlite3_column_text(find, 1))
            *ret_source_fd = MAX(open_regular(AT_FDCWD, (const char *)sqlite3_column_text(find, 1), &st), -1);
        break;
    case SQLITE_DONE:
        r = refuse(-ENOENT, ret_error, trace_id, "is not in the catalog");
        break;
    default:
        r = fail(db, ret_error);
    }
    sqlite3_finalize(find);
    return r;
}

static int list_traces(void *arg, int64_t **ret_ids, size_t *ret_n, char **ret_error)
{
    sqlite3 *db = arg;
    sqlite3_stmt *list = NULL;
    size_t cap = 0;
    int r;

    *ret_ids = NULL;
    *ret_n = 0;
    r = sqlite3_prepare_v2(db, "select trace_id from traces where columns is not null order by trace_id", -1,
                           &list, NULL);
    while (r == SQLITE_OK && (r = sqlite3_step(list)) == SQLITE_ROW) {
        if (!ARRAY_RESERVE(*ret_ids, cap, *ret_n + 1))
            break;
        (*ret_ids)[(*ret_n)++] = sqlite3_column_int64(list, 0);
        r = SQLITE_OK;
    }
    if (r != SQLITE_DONE) {
        free(TAKE_PTR(*ret_ids));
        r = r == SQLITE_ROW ? -ENOMEM : fail(db, ret_error);
    } else {
        r = 0;
    }
    sqlite3_finalize(list);
    return r;
}

int sqlite3_extension_init(sqlite3 *db, char **ret_error, const sqlite3_api_routines *api)
{
    SQLITE_EXTENSION_INIT2(api);
    if (sqlite3_libversion_number() < SQLITE_VERSION_MIN) {
        *ret_error =
            sqlite3_mprintf("profd_trace needs SQLite 3.38 or later, this is %s", sqlite3_libversion());
        return SQLITE_ERROR;
    }
    return sql_register(db, (struct sql_source){.open = open_trace, .list = list_traces, .arg = db});
}

int sqlite3_profdtrace_init(sqlite3 *db, char **ret_error, const sqlite3_api_routines *api)
{
    return sqlite3_extension_init(db, ret_error, api);
}
