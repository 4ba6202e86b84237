/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A catalog in a directory of its own with a loop and an offload, for the tests of the catalog. Include
 * cmocka-all.h first.
 */
#pragma once

#include "base/alloc.h"
#include "base/fs.h"
#include "daemon/catalog/records.h"
#include <event2/event.h>
#include <ftw.h>
#include <sqlite3.h>

struct catalog_fixture {
    char *directory, *path;
    struct event_base *base;
    struct offload *offload;
    struct catalog *catalog;
};

static inline int remove_entry(const char *path, const struct stat *st _unused_, int type _unused_,
                               struct FTW *ftw _unused_)
{
    return remove(path);
}

static inline void fixture_open(struct catalog_fixture *fixture)
{
    struct problem p = {0};
    int r = catalog_open(fixture->path, fixture->base, fixture->offload, &fixture->catalog, &p);
    if (r < 0)
        print_error("%s\n", p.what);
    problem_done(&p);
    assert_int_equal(r, 0);
}

/* The directory is there, the catalog is not open yet. */
static inline int fixture_begin(void **state)
{
    struct catalog_fixture *fixture = xcalloc(1, sizeof(*fixture));
    const char *tmp = getenv("TMPDIR");
    fixture->directory = xasprintf("%s/profd-catalog-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(fixture->directory));
    fixture->path = xasprintf("%s/catalog.db", fixture->directory);
    fixture->base = event_base_new();
    assert_int_equal(offload_new(fixture->base, 1, &fixture->offload), 0);
    *state = fixture;
    return 0;
}

static inline int fixture_begin_open(void **state)
{
    fixture_begin(state);
    fixture_open(*state);
    return 0;
}

static inline int fixture_end(void **state)
{
    struct catalog_fixture *fixture = *state;
    catalog_close(fixture->catalog);
    offload_free(fixture->offload);
    event_base_free(fixture->base);
    nftw(fixture->directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(fixture->directory);
    free(fixture->path);
    free(fixture);
    return 0;
}

static inline void fixture_reopen(struct catalog_fixture *fixture)
{
    fixture->catalog = catalog_close(fixture->catalog);
    fixture_open(fixture);
}

/* What is active runs, and what that activates; nothing is waited for. */
static inline void run_turn(struct catalog_fixture *fixture)
{
    event_base_loop(fixture->base, EVLOOP_NONBLOCK);
}

/* The upkeep's thread holds the catalog for moments. */
#define OTHERS_HOLD_MS 5000

/* What a reader of its own finds: the first column of the first row. */
static inline int64_t ask(const char *path, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, OTHERS_HOLD_MS);
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    int64_t value = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 0) : INT64_MIN;
    sqlite3_finalize(s);
    sqlite3_close(db);
    return value;
}

static inline void execute(const char *path, const char *sql)
{
    sqlite3 *db;
    int keep = 1;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_file_control(db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
    sqlite3_busy_timeout(db, OTHERS_HOLD_MS);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

static inline int64_t add_session(struct catalog_fixture *fixture, enum state state)
{
    struct session_record r;
    session_record_init(&r);
    r.state = state;
    r.requested_at = 1000;
    r.requested_by = "uid 1000 (anna)";
    assert_int_equal(catalog_add_session(fixture->catalog, &r), 0);
    return r.session_id;
}

/* A stored trace of a session (RECORD_NONE: unclaimed); its path is made from a number that must be new. */
static inline int64_t add_trace(struct catalog_fixture *fixture, int64_t session_id, const char *worker_url,
                                int64_t recorded_at, int number)
{
    char name[32], path[64];
    struct trace_record r;
    snprintf(name, sizeof(name), "%d.json.gz", number);
    snprintf(path, sizeof(path), "/store/%d.json.gz", number);
    trace_record_init(&r);
    r.session_id = session_id;
    r.worker_url = (char *)worker_url;
    r.name = name;
    r.path = r.origin = path;
    r.stored = true;
    r.size = 5000; /* most of it holes */
    r.disk_size = 100;
    r.recorded_at = recorded_at;
    r.collected_at = recorded_at;
    assert_int_equal(catalog_add_trace(fixture->catalog, &r), 0);
    return r.trace_id;
}
