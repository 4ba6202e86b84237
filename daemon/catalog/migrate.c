/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Migration from the user_version of a file to the version that this profd supports, in one transaction: a crash
 * leaves the version before.
 *
 * Indexes, triggers and views are dropped, the tables get what they lack, and the schema (proto/catalog.sql) adds
 * what is missing. An empty file, version 0, gets the schema alone. Before an existing catalog is changed, a copy
 * PATH.vN.bak is made.
 */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/catalog/catalog_schema.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* Columns that tables of version i lack, and values whose form changed after it. New columns come last, in the order
 * of the schema. */
/* clang-format off */
const char *const catalog_upgrades[CATALOG_VERSION] = {
    [1] = "alter table trace_row add column labels text not null default '{}' check (json_valid(labels));"
          "alter table trace_row add column last_event_at integer;"
          "alter table trace_row add column columns text;"
          "alter table trace_row add column columns_size integer;"
          "alter table trace_row add column columns_version integer;"
          "alter table trace_row add column columns_reason text;"
          "alter table trace_row add column slices integer;"
          "alter table trace_row add column gpu_slices integer;"
          "alter table trace_row add column threads integer;"
          "alter table trace_row add column flows integer;"
          "alter table trace_row add column defects text check (defects is null or json_valid(defects));",
    [2] = "alter table session_row add column remarks text check (remarks is null or json_valid(remarks));"
          "alter table trace_row add column device integer;"
          "alter table trace_row add column inode integer;"
          "alter table trace_row add column process_started integer;",
    [3] = "alter table event_row add column run_id integer;"
          /* A later version adds columns to it: it has to be there before the schema completes the rest. */
          "create table run_row ("
          "run_id integer primary key autoincrement, "
          "session_id integer references session_row (session_id) on delete set null, "
          "state text not null check (state in ('requested', 'warming', 'loading', 'draining', 'complete', 'partial', 'failed', 'cancelled')), "
          "router_id integer references router_row (router_id) on delete set null, dialect text, fleet text, "
          "model text, workload text not null check (json_valid(workload)), "
          "targets text not null check (json_valid(targets)), "
          "labels text not null default '{}' check (json_valid(labels)), requested_at integer not null, "
          "requested_by text not null, started_at integer, ended_at integer, "
          "success integer not null default 0, incomplete integer not null default 0, "
          "error integer not null default 0, reason text, remedy text, "
          "notes text check (notes is null or json_valid(notes)), "
          "warmed text check (warmed is null or json_valid(warmed)), "
          "summary text check (summary is null or json_valid(summary)), removed integer not null default 0"
          ") strict;",
    [4] = "alter table session_row add column name text;"
          "alter table session_row add column skipped text check (skipped is null or json_valid(skipped));"
          "alter table trace_row add column instance text;",
    /* The sizes of files are measured at the next start of profd; until then they count by their length. */
    [5] = "alter table session_row add column begun_at integer;"
          "alter table session_row add column boot_id text;"
          "alter table session_row add column begun_boot_ns integer;"
          "alter table session_row add column stop_boot_ns integer;"
          "alter table session_row add column hard_stop_boot_ns integer;"
          "update session_row set begun_at = "
          "(select min(start_sent_at) from target_row t where t.session_id = session_row.session_id) "
          "where state in ('starting', 'recording', 'stopping', 'collecting');"
          "alter table trace_row add column disk_size integer not null default 0;"
          "update trace_row set disk_size = size where stored = 1;"
          "alter table trace_row add column holder integer generated always as "
          "(case when owner_uid is null or owner_uid in (0, 65534) then -coalesce(worker_id, 0) else owner_uid end) virtual;",
    [6] = "alter table target_row rename column owes_stop to stop_pending;"
          "update trace_row set defects = replace(defects, '\"place\":', '\"offset\":') where defects is not null;",
    [7] = "alter table session_row add column uuid text;"
          "alter table session_row add column coordinator text;"
          "alter table session_row add column coordinator_name text;"
          "alter table session_row add column lease_id integer;"
          "alter table session_row add column skew_error_ns integer;"
          "update session_row set uuid = " CATALOG_NEW_UUID ";"
          "alter table target_row add column host text;"
          "alter table target_row add column host_uuid text;"
          "alter table target_row add column clock_offset_ns integer;"
          "alter table target_row add column clock_error_ns integer;"
          "alter table target_row add column clock_rtt_ns integer;"
          "alter table target_row add column clock_maxerror_ns integer;"
          "alter table target_row add column clock_unsync integer;"
          "alter table trace_row add column uuid text;"
          "alter table trace_row add column archived_at integer;"
          "alter table trace_row add column archive_key text;"
          "update trace_row set uuid = " CATALOG_NEW_UUID ";"
          "alter table run_row add column uuid text;"
          "update run_row set uuid = " CATALOG_NEW_UUID ";"
          /* As run_row above. */
          "create table lease_row ("
          "lease_id integer primary key autoincrement, session_uuid text not null, coordinator text not null, coordinator_name text, "
          "actor text not null, state text not null check (state in ('granted', 'prepared', 'started', 'over', 'released', 'expired')), "
          "workers text not null check (json_valid(workers)), granted_at integer not null, deadline_boot_ns integer, boot_id text, "
          "session_id integer references session_row (session_id) on delete set null"
          ") strict;",
    [8] = "alter table lease_row add column granted_to text;",
};
/* clang-format on */

#define DROP_DERIVED                                                                                         \
    "select coalesce(group_concat(format('drop %s if exists \"%w\";', type, name), ''), '') from "           \
    "sqlite_schema "                                                                                         \
    "where type <> 'table' and sql is not null"

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

int migrate_check(sqlite3 *db, const char *path, int newest, int *ret_version, struct problem *p)
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
    if (version > newest) {
        problem_set(p, -ENOTSUP, PROBLEM_STORAGE,
                    "the catalog %s has version %d, and this profd supports version %d", path, version,
                    newest);
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

/* Runs the statements that a query gives as text. */
static int migrate_run_result(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
    _cleanup_(freep) char *text = rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW
                                      ? xstrdup((const char *)sqlite3_column_text(s, 0))
                                      : NULL;
    sqlite3_finalize(s);
    return text ? sqlite3_exec(db, text, NULL, NULL, NULL) : sqlite3_extended_errcode(db);
}

static int migrate_in_transaction(sqlite3 *db, int version, const char *const *upgrades, int newest)
{
    _cleanup_(freep) char *stamp = xasprintf("pragma application_id = %d; pragma user_version = %d; commit",
                                             CATALOG_APPLICATION_ID, newest);

    int rc = sqlite3_exec(db, "begin immediate", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = migrate_run_result(db, DROP_DERIVED);
    for (int from = version; from > 0 && from < newest && rc == SQLITE_OK; from++)
        rc = sqlite3_exec(db, upgrades[from], NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, catalog_schema, NULL, NULL, NULL);
    return rc == SQLITE_OK ? sqlite3_exec(db, stamp, NULL, NULL, NULL) : rc;
}

int migrate(sqlite3 *db, const char *path, int version, const char *const *upgrades, int newest,
            struct problem *p)
{
    if (version == newest)
        return 0;
    int r = version > 0 ? migrate_back_up(db, path, version, p) : 0;
    if (r == 0 && migrate_in_transaction(db, version, upgrades, newest) != SQLITE_OK)
        r = migrate_fail(db, path, p);
    if (!sqlite3_get_autocommit(db))
        sqlite3_exec(db, "rollback", NULL, NULL, NULL);
    if (version > 0 && r == 0)
        log_struct(LOG_NOTICE, LOG_FIELDS(.message_id = MESSAGE_CATALOG_MIGRATED),
                   "catalog %s: version %d became version %d", path, version, newest);
    return r;
}
