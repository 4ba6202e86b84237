/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/foreign.h"

#include <errno.h>
#include <sqlite3.h>

/* nsys 2026's schema is 100 KB long; a statement of ours is far smaller. */
#define LENGTH_SQL_MAX (1 << 20)

static const struct {
    int id, value;
} limits[] = {
    {SQLITE_LIMIT_SQL_LENGTH, LENGTH_SQL_MAX},
    {SQLITE_LIMIT_COLUMN, 200},
    {SQLITE_LIMIT_EXPR_DEPTH, 50},
    {SQLITE_LIMIT_COMPOUND_SELECT, 4},
    {SQLITE_LIMIT_FUNCTION_ARG, 16},
    {SQLITE_LIMIT_ATTACHED, 0},
    {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

static const struct {
    int option, value;
} settings[] = {
    {SQLITE_DBCONFIG_DEFENSIVE, 1},
    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
    {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
};

static int open_memory(const void *data, size_t size, sqlite3 **ret)
{
    sqlite3 *db = NULL;
    int r = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

    *ret = db;
    for (size_t i = 0; r == SQLITE_OK && i < ARRAY_SIZE(settings); i++)
        r = sqlite3_db_config(db, settings[i].option, settings[i].value, NULL);
    if (r != SQLITE_OK)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        sqlite3_limit(db, limits[i].id, limits[i].value);
    /* No value is longer than the file. */
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, (int)MIN(MAX(size, (size_t)LENGTH_SQL_MAX), (size_t)INT32_MAX));
    /* Never written through: the flag says so. */
    r = sqlite3_deserialize(db, "main", (unsigned char *)(uintptr_t)data, (sqlite3_int64)size,
                            (sqlite3_int64)size, SQLITE_DESERIALIZE_READONLY);
    if (r == SQLITE_OK)
        r = sqlite3_exec(db, "PRAGMA cell_size_check = 1; PRAGMA temp_store = 2; SELECT 1 FROM sqlite_schema",
                         NULL, NULL, NULL);
    return r;
}

int foreign_open(const void *data, size_t size, sqlite3 **ret, char *ret_reason, size_t reason_size)
{
    sqlite3 *db = NULL;
    int r = open_memory(data, size, &db);

    if (r == SQLITE_OK) {
        *ret = db;
        return 0;
    }
    snprintf(ret_reason, reason_size, "the database cannot be read: %s",
             db ? sqlite3_errmsg(db) : sqlite3_errstr(r));
    sqlite3_close(db);
    return r == SQLITE_NOMEM ? -ENOMEM : -EBADMSG;
}

bool foreign_has_table(sqlite3 *db, const char *table)
{
    sqlite3_stmt *s = NULL;
    bool found = false;

    /* A view or a virtual table has no page of its own. */
    if (sqlite3_prepare_v2(db,
                           "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND rootpage > 0",
                           -1, &s, NULL) == SQLITE_OK) {
        sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
        found = sqlite3_step(s) == SQLITE_ROW;
    }
    sqlite3_finalize(s);
    return found;
}

bool foreign_has_column(sqlite3 *db, const char *table, const char *column)
{
    return sqlite3_table_column_metadata(db, "main", table, column, NULL, NULL, NULL, NULL, NULL) ==
           SQLITE_OK;
}
