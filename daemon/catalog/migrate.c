/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Migration from the user_version of a file to the version that this profd supports, one step at a time, each
 * step in a transaction of its own: a crash leaves the version before or the version after.
 *
 * Step i leads from version i to i + 1. Version 0 is the empty file, and its step is proto/catalog.sql, which
 * leads to the newest version at once: a new file never went through older shapes. Before the first step that
 * changes an existing catalog, a copy PATH.vN.bak is made.
 */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/catalog/catalog_from_1.h"
#include "daemon/catalog/catalog_from_2.h"
#include "daemon/catalog/catalog_from_3.h"
#include "daemon/catalog/catalog_from_4.h"
#include "daemon/catalog/catalog_from_5.h"
#include "daemon/catalog/catalog_from_6.h"
#include "daemon/catalog/catalog_schema.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

const char *const catalog_migrations[CATALOG_VERSION] = {
    [0] = catalog_schema, [1] = catalog_from_1, [2] = catalog_from_2, [3] = catalog_from_3,
    [4] = catalog_from_4, [5] = catalog_from_5, [6] = catalog_from_6,
};

static int migrate_fail(sqlite3 *db, const char *path, struct problem *p)
{
    return sqlite_problem(db, sqlite_errno(db, sqlite3_extended_errcode(db)), path, p);
}

/* The one integer that a query gives. */
static int migrate_ask(sqlite3 *db, const char *sql, int *ret)
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        *ret = sqlite3_column_int(s, 0);
    else
        rc = sqlite3_extended_errcode(db);
    sqlite3_finalize(s);
    return rc;
}

int migrate_check(sqlite3 *db, const char *path, int n_steps, int *ret_version, struct problem *p)
{
    int application = 0, version = 0, objects = 0;

    if (migrate_ask(db, "pragma application_id", &application) != SQLITE_OK ||
        migrate_ask(db, "pragma user_version", &version) != SQLITE_OK ||
        migrate_ask(db, "select count(*) from sqlite_schema", &objects) != SQLITE_OK)
        return migrate_fail(db, path, p);
    bool empty = application == 0 && version == 0 && objects == 0;
    if (!empty && application != CATALOG_APPLICATION_ID) {
        problem_set(p, -EMEDIUMTYPE, PROBLEM_STORAGE,
                    "%s is the database of another application (application_id 0x%08x, not 0x%08x)", path,
                    (unsigned)application, CATALOG_APPLICATION_ID);
        problem_remedy(
            p, "Move %s away (profd creates an empty catalog), or name another directory by --state-dir.",
            path);
        return -EMEDIUMTYPE;
    }
    if (version > n_steps) {
        problem_set(p, -ENOTSUP, PROBLEM_STORAGE,
                    "the catalog %s has version %d, and this profd supports version %d", path, version,
                    n_steps);
        problem_remedy(
            p,
            "Install the profd that wrote it or a newer one; or move %s away to start with an empty catalog.",
            path);
        return -ENOTSUP;
    }
    *ret_version = version;
    return 0;
}

/* A copy next to the catalog, which gets its name when it is complete. */
static int migrate_back_up(sqlite3 *db, const char *path, int version, struct problem *p)
{
    _cleanup_(freep) char *copy = xasprintf("%s.v%d.bak", path, version);
    _cleanup_(freep) char *partial = xasprintf("%s.part", copy);
    _cleanup_(closep) int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    if (fd < 0)
        return storage_problem(-errno, partial, p);
    char *sql = sqlite3_mprintf("vacuum into %Q", partial);
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
    int r = rc != SQLITE_OK ? migrate_fail(db, partial, p) : 0;
    if (r == 0 && (fsync(fd) < 0 || rename(partial, copy) < 0))
        r = storage_problem(-errno, copy, p);
    if (r < 0)
        unlink(partial);
    else
        log_notice("catalog %s: a copy of version %d is in %s", path, version, copy);
    return r;
}

static int migrate_run_step(sqlite3 *db, const char *path, int to, const char *sql, struct problem *p)
{
    _cleanup_(freep) char *stamp =
        xasprintf("pragma application_id = %d; pragma user_version = %d; commit", CATALOG_APPLICATION_ID, to);
    const char *const parts[] = {"begin immediate", sql, stamp};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(parts) && r == 0; i++)
        if (sqlite3_exec(db, parts[i], NULL, NULL, NULL) != SQLITE_OK)
            r = migrate_fail(db, path, p);
    if (!sqlite3_get_autocommit(db))
        sqlite3_exec(db, "rollback", NULL, NULL, NULL);
    return r;
}

int migrate(sqlite3 *db, const char *path, int version, const char *const *steps, int n_steps,
            struct problem *p)
{
    int r = 0, to;

    if (version > 0 && version < n_steps)
        r = migrate_back_up(db, path, version, p);
    for (int from = version; from < n_steps && r == 0; from = to) {
        to = from == 0 ? n_steps : from + 1;
        r = migrate_run_step(db, path, to, steps[from], p);
    }
    if (version > 0 && version < n_steps && r == 0)
        log_struct(LOG_NOTICE, LOG_FIELDS(.message_id = MESSAGE_CATALOG_MIGRATED),
                   "catalog %s: version %d became version %d", path, version, n_steps);
    return r;
}
