/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, the turn's transaction, a disk that cannot be written, upkeep. */
#include "tests/unit/cmocka-all.h"

#include "base/clock.h"
#include "daemon/catalog/internal.h"
#include "tests/unit/catalog-fixture.h"
#include "tests/unit/patience.h"
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* SQLite's calls end here: the program's own symbol comes before that of the C library. */
static int n_syncs;

int fsync(int fd)
{
    n_syncs++;
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    n_syncs++;
    return (int)syscall(SYS_fdatasync, fd);
}

/* -- Opening -- */

static void assert_mode(const char *path, const char *suffix, mode_t mode)
{
    struct stat st;
    _cleanup_(freep) char *name = xasprintf("%s%s", path, suffix);
    assert_int_equal(stat(name, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
}

static void test_makes_directory_and_files(void **state)
{
    struct catalog_fixture *fixture = *state;
    free(fixture->path);
    fixture->path = xasprintf("%s/state/profd/catalog.db", fixture->directory);
    mode_t before = umask(077);
    fixture_open(fixture);
    add_session(fixture, STATE_REQUESTED);
    run_turn(fixture);
    umask(before);

    _cleanup_(freep) char *directory = xasprintf("%s/state/profd", fixture->directory);
    assert_mode(directory, "", 02750);
    assert_mode(fixture->path, "", 0640);
    assert_mode(fixture->path, "-wal", 0640);
    assert_mode(fixture->path, "-shm", 0640);
    assert_int_equal(ask(fixture->path, "pragma application_id"), CATALOG_APPLICATION_ID);
    assert_int_equal(ask(fixture->path, "pragma user_version"), CATALOG_VERSION);
    assert_string_equal(catalog_path(fixture->catalog), fixture->path);

    fixture_reopen(fixture);
    assert_int_equal(ask(fixture->path, "select count(*) from sessions"), 1);
}

static void test_keeps_the_log_when_closed(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct stat st;
    _cleanup_(freep) char *log = xasprintf("%s-wal", fixture->path);
    add_session(fixture, STATE_REQUESTED);
    fixture->catalog = catalog_close(fixture->catalog);
    assert_int_equal(stat(log, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_mode(fixture->path, "-shm", 0640);
    assert_int_equal(ask(fixture->path, "select count(*) from sessions"), 1);
}

static void refused(struct catalog_fixture *fixture, int err, enum problem_kind kind, const char *words)
{
    struct catalog *c = NULL;
    struct problem p = {0};
    assert_int_equal(catalog_open(fixture->path, fixture->base, fixture->offload, &c, &p), err);
    assert_null(c);
    assert_int_equal(p.kind, kind);
    assert_non_null(p.remedy);
    if (!strstr(p.what, words) || !strstr(p.what, fixture->path))
        fail_msg("\"%s\" does not say \"%s\" of %s", p.what, words, fixture->path);
    problem_done(&p);
}

static void test_refuses_a_second_opener(void **state)
{
    struct catalog_fixture *fixture = *state;
    char words[64];
    snprintf(words, sizeof(words), "in use by process %d", (int)getpid());
    refused(fixture, -EBUSY, PROBLEM_BUSY, words);
    fixture_reopen(fixture);
}

static void test_refuses_a_newer_version(void **state)
{
    struct catalog_fixture *fixture = *state;
    fixture->catalog = catalog_close(fixture->catalog);
    execute(fixture->path, "pragma user_version = 10");
    refused(fixture, -ENOTSUP, PROBLEM_STORAGE, "has version 10, and this profd supports version 9");
    assert_int_equal(ask(fixture->path, "pragma user_version"), 10);
}

static void test_refuses_foreign_databases(void **state)
{
    struct catalog_fixture *fixture = *state;
    execute(fixture->path, "create table cookies (a)");
    refused(fixture, -EMEDIUMTYPE, PROBLEM_STORAGE, "another application");
    assert_int_equal(ask(fixture->path, "select count(*) from sqlite_schema"), 1);
    execute(fixture->path, "drop table cookies; pragma application_id = 77");
    refused(fixture, -EMEDIUMTYPE, PROBLEM_STORAGE, "0x0000004d");
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_refuses_what_is_no_database(void **state)
{
    struct catalog_fixture *fixture = *state;
    write_text(fixture->path,
               "Dear diary, this file is long enough to be looked at and still no database.\n");
    refused(fixture, -EMEDIUMTYPE, PROBLEM_STORAGE, "not an SQLite database");
    unlink(fixture->path);
    mkdir(fixture->path, 0700);
    refused(fixture, -EISDIR, PROBLEM_STORAGE, "directory");
    rmdir(fixture->path);
    free(fixture->path);
    fixture->path = xasprintf("%s/catalog.db.lock/catalog.db", fixture->directory);
    refused(fixture, -ENOTDIR, PROBLEM_STORAGE, "not a directory");
}

static void test_refuses_damaged_files(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct stat st;
    fixture->catalog = catalog_close(fixture->catalog);
    execute(fixture->path, "drop view traces; drop table event_row");
    refused(fixture, -EUCLEAN, PROBLEM_STORAGE, "no such table");
    assert_int_equal(stat(fixture->path, &st), 0);
    assert_int_equal(truncate(fixture->path, st.st_size / 2), 0);
    refused(fixture, -EUCLEAN, PROBLEM_STORAGE, "damaged");
}

/* Root may everything: as somebody else, for a moment. */
static void refused_without_rights(struct catalog_fixture *fixture)
{
    bool root = geteuid() == 0;
    if (root)
        assert_int_equal(setegid(65534) < 0 || seteuid(65534) < 0, 0);
    refused(fixture, -EACCES, PROBLEM_STORAGE, "permission denied");
    if (root)
        assert_int_equal(seteuid(0) < 0 || setegid(0) < 0, 0);
}

static void test_explains_missing_rights(void **state)
{
    struct catalog_fixture *fixture = *state;
    /* The directory, then the file in it. */
    assert_int_equal(chmod(fixture->directory, 0555), 0);
    refused_without_rights(fixture);
    assert_int_equal(chmod(fixture->directory, 0755), 0);
    fixture_open(fixture);
    fixture->catalog = catalog_close(fixture->catalog);
    assert_int_equal(chmod(fixture->path, 0444), 0);
    refused_without_rights(fixture);
}

/* -- Migration -- */

static const char *const one_step[CATALOG_VERSION + 1] = {
    [CATALOG_VERSION] = "create table added (a integer) strict; insert into added values (1)"};
static const char *const bad_step[CATALOG_VERSION + 1] = {
    [CATALOG_VERSION] = "create table added (a integer) strict; insert into nowhere values (1)"};

static int migrate_file(struct catalog_fixture *fixture, const char *const *steps, struct problem *p)
{
    sqlite3 *db;
    int version = -1;
    assert_int_equal(sqlite3_open(fixture->path, &db), SQLITE_OK);
    int r = migrate_check(db, fixture->path, CATALOG_VERSION + 1, &version, p);
    if (r == 0)
        r = migrate(db, fixture->path, version, steps, CATALOG_VERSION + 1, p);
    sqlite3_close(db);
    return r;
}

static void test_migrates_after_a_copy(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct problem p = {0};
    _cleanup_(freep) char *copy = xasprintf("%s.v%d.bak", fixture->path, CATALOG_VERSION);
    add_session(fixture, STATE_COMPLETE);
    fixture->catalog = catalog_close(fixture->catalog);

    assert_int_equal(migrate_file(fixture, bad_step, &p), -EINVAL);
    assert_non_null(strstr(p.what, "nowhere"));
    problem_done(&p);
    assert_int_equal(ask(fixture->path, "pragma user_version"), CATALOG_VERSION);
    assert_int_equal(ask(fixture->path, "select count(*) from sqlite_schema where name = 'added'"), 0);

    assert_int_equal(migrate_file(fixture, one_step, &p), 0);
    assert_int_equal(ask(fixture->path, "pragma user_version"), CATALOG_VERSION + 1);
    assert_int_equal(ask(fixture->path, "select count(*) from added"), 1);
    assert_int_equal(ask(copy, "pragma user_version"), CATALOG_VERSION);
    assert_int_equal(ask(copy, "select count(*) from sessions"), 1);
    assert_mode(copy, "", 0640);
    refused(fixture, -ENOTSUP, PROBLEM_STORAGE, "has version 10");
}

/* What a catalog is made of: the columns of tables, which alter table writes down in its own way, and the
 * text of everything else. */
static char *schema_of(const char *path)
{
    static const char sql[] =
        "select m.name, c.name, c.type, c.\"notnull\", c.dflt_value, c.pk, c.hidden from sqlite_schema m, "
        "pragma_table_xinfo(m.name) c where m.type = 'table' union all "
        "select name, sql, type, 0, 0, 0, 0 from sqlite_schema where type <> 'table' order by 1, 2";
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    sqlite3 *db;
    sqlite3_stmt *s;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(s); i++)
            fprintf(f, "%s|", (const char *)sqlite3_column_text(s, i));
        fputc('\n', f);
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
    fclose(f);
    return text;
}

/* Rows of a catalog of each version, by the first version that has their columns. */
static const struct {
    int version;
    const char *sql;
} old_rows[] = {
    {1, "insert into worker_row (worker_id, url, engine, role, health, profilable, last_seen_at) "
        "values (5, 'http://w', 'vllm', 'regular', 'healthy', 1, 1);"
        "insert into session_row (session_id, state, options, requested_at, requested_by) "
        "values (7, 'recording', '{}', 1, 'u');"
        "insert into target_row (session_id, worker_id, worker, state, profile_id, ranks_expected, "
        "start_sent_at) "
        "values (7, 5, '{\"engine\":\"vllm\"}', 'recording', 'p', 1, 11);"
        "insert into trace_row (kind, state, name, path, origin, stored, size, recorded_at, collected_at) "
        "values ('trace', 'complete', 'n', '/p', '/o', 1, 1000, 1, 1);"
        "insert into event_row (at, kind, actor, text) values (1, 'k', 'a', 't');"},
    {2, "update trace_row set defects = '[{\"kind\":\"k\",\"count\":1,\"place\":99,\"text\":\"t\"}]';"
        "insert into name_row (name) values ('kernel');"
        "insert into trace_name_row (trace_id, category, name_id, count, sum_ns) values (1, 'c', 1, 2, 3);"},
    {3, "insert into removed_row (origin, size, recorded_at, removed_at) values ('/gone', 1, 1, 1);"},
    {4, "insert into run_row (run_id, session_id, state, workload, targets, requested_at, requested_by) "
        "values (3, 7, 'complete', '{}', '[]', 1, 'u');"
        "insert into request_row (run_id, number, prompt, target, cold, intended_ns, outcome) "
        "values (3, 0, 0, 'http://w', 1, 0, 'success');"},
    {5, "insert into session_row (session_id, state, options, requested_at, requested_by, name) "
        "values (8, 'complete', '{}', 1, 'u', 'named');"},
    {6, "update session_row set begun_at = 11 where session_id = 7; update trace_row set disk_size = 1000;"},
    {7, "update trace_row set defects = replace(defects, '\"place\":', '\"offset\":');"},
    {8,
     "update session_row set uuid = " CATALOG_NEW_UUID "; update trace_row set uuid = " CATALOG_NEW_UUID ";"
     "update run_row set uuid = " CATALOG_NEW_UUID ";"
     "insert into lease_row (session_uuid, coordinator, actor, state, workers, granted_at, session_id) "
     "values ('u', 'c', 'a', 'over', '[]', 1, 7);"
     "insert into upload_row (kind, trace_id, path, key, wanted_at) values ('trace', 1, '/p', 'k', 1);"
     "insert into change_row (kind, id, at) select 'w', worker_id, 1 from worker_row union all "
     "select 's', session_id, 1 from session_row union all select 'g', target_id, 1 from target_row union "
     "all "
     "select 't', trace_id, 1 from trace_row union all select 'r', run_id, 1 from run_row;"},
};

/* The file that a profd of that version left: the first schema, the scripts that led from version to version, rows. */
static void make_old_catalog(const char *path, int version)
{
    for (int i = 1; i <= version; i++) {
        _cleanup_(freep) char *script = xasprintf(OLD_CATALOGS "/catalog-v%d.sql", i), *sql = NULL;
        size_t size;
        assert_int_equal(read_file(AT_FDCWD, script, 1 << 20, &sql, &size), 0);
        execute(path, sql);
    }
    for (size_t i = 0; i < ARRAY_SIZE(old_rows); i++)
        if (old_rows[i].version <= version)
            execute(path, old_rows[i].sql);
    _cleanup_(freep) char *stamp =
        xasprintf("pragma application_id = 0x50524f46; pragma user_version = %d", version);
    execute(path, stamp);
}

static void assert_old_rows(const char *path, int version)
{
    assert_int_equal(ask(path, "pragma user_version"), CATALOG_VERSION);
    assert_int_equal(ask(path, "select count(*) from targets where worker = 'http://w' and not stop_pending"),
                     1);
    assert_int_equal(ask(path, "select begun_at from session_row where session_id = 7"), 11);
    assert_int_equal(ask(path, "select count(*) from events where run_id is null"), 1);
    assert_int_equal(ask(path, "select disk_size from traces"), 1000);
    assert_int_equal(ask(path,
                         "select count(distinct uuid) from (select uuid from sessions union all select uuid "
                         "from traces union all select uuid from runs) where length(uuid) = 36"),
                     ask(path, "select (select count(*) from sessions) + (select count(*) from traces) + "
                               "(select count(*) from runs)"));
    /* Each row has the number of a change; traces and events get theirs when a reader asks, but for version 8. */
    assert_int_equal(ask(path, "select count(*) from change_row where kind = 't'"), version == 8);
    assert_int_equal(ask(path, "select count(*) from change_row where gone = 0 and kind <> 't'"),
                     ask(path,
                         "select (select count(*) from worker_row) + (select count(*) from session_row) + "
                         "(select count(*) from target_row) + (select count(*) from run_row)"));
    assert_int_equal(ask(path, "select count(*) from change_mark where id = 0"), 2);
    assert_int_equal(ask(path, "select count(*) from pragma_integrity_check where integrity_check <> 'ok'"),
                     0);
    assert_int_equal(ask(path, "select count(*) from pragma_foreign_key_check"), 0);
    if (version >= 2) {
        assert_int_equal(ask(path, "select offset from trace_defects"), 99);
        assert_int_equal(ask(path, "select sum_ns from trace_names where name = 'kernel'"), 3);
    }
    if (version >= 3)
        assert_int_equal(ask(path, "select count(*) from removed_row where origin = '/gone'"), 1);
    if (version >= 4)
        assert_int_equal(
            ask(path, "select count(*) from requests join runs using (run_id) where session_id = 7"), 1);
    if (version >= 5)
        assert_int_equal(ask(path, "select session_id from sessions where name = 'named'"), 8);
    if (version >= 8) {
        assert_int_equal(ask(path, "select count(*) from lease_row where granted_to is null"), 1);
        assert_int_equal(ask(path, "select count(*) from upload_row where trace_id = 1"), 1);
    }
}

static void test_migrates_each_version(void **state)
{
    struct catalog_fixture *fixture = *state;

    fixture_open(fixture);
    fixture->catalog = catalog_close(fixture->catalog);
    _cleanup_(freep) char *fresh = schema_of(fixture->path);
    for (int version = 1; version < CATALOG_VERSION; version++) {
        struct trace_record t;
        free(fixture->path);
        fixture->path = xasprintf("%s/v%d.db", fixture->directory, version);
        make_old_catalog(fixture->path, version);
        fixture_open(fixture);
        assert_int_equal(catalog_get_trace(fixture->catalog, 1, &t), 0);
        assert_null(t.columns);
        assert_int_equal(t.columns_version, RECORD_NONE);
        t.columns = xstrdup("/c");
        t.columns_size = 500;
        assert_int_equal(catalog_save_trace(fixture->catalog, &t), 0);
        trace_record_done(&t);
        run_turn(fixture);
        assert_int_equal(ask(fixture->path, "select bytes from usage_row"), 1500);
        assert_int_equal(ask(fixture->path, "select bytes from holder_row where holder = 0"), 1500);
        assert_old_rows(fixture->path, version);
        fixture->catalog = catalog_close(fixture->catalog);
        _cleanup_(freep) char *migrated = schema_of(fixture->path);
        assert_string_equal(migrated, fresh);
    }
}

/* -- The turn -- */

/* What the functions of a test said, in order. */
struct story {
    struct catalog_fixture *fixture;
    char text[200];
    int last_err;
};

static void tell(struct story *s, const char *words)
{
    size_t n = strlen(s->text);
    snprintf(s->text + n, sizeof(s->text) - n, "%s ", words);
}

static void one(int err, void *arg)
{
    struct story *s = arg;
    s->last_err = err;
    tell(s, err ? "one-failed" : "one");
}

static void two(int err, void *arg)
{
    struct story *s = arg;
    s->last_err = err;
    tell(s, err ? "two-failed" : "two");
}

static void writes_and_queues(int err, void *arg)
{
    struct story *s = arg;
    tell(s, "writes");
    add_session(s->fixture, STATE_REQUESTED);
    catalog_then(s->fixture->catalog, false, two, s);
}

static void commits_inside(int err, void *arg)
{
    struct story *s = arg;
    tell(s, "commits");
    catalog_then(s->fixture->catalog, false, two, s);
    add_session(s->fixture, STATE_REQUESTED);
    assert_int_equal(catalog_commit(s->fixture->catalog, false), 0);
    tell(s, "committed");
}

static void test_turn_is_one_transaction(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct story story = {.fixture = fixture};

    add_session(fixture, STATE_REQUESTED);
    catalog_then(fixture->catalog, false, one, &story);
    add_session(fixture, STATE_REQUESTED);
    catalog_then(fixture->catalog, false, two, &story);
    /* Not on disk yet, but this side sees it. */
    assert_int_equal(ask(fixture->path, "select count(*) from sessions"), 0);
    struct session_record r;
    assert_int_equal(catalog_get_session(fixture->catalog, 2, &r), 0);
    session_record_done(&r);
    assert_string_equal(story.text, "");

    run_turn(fixture);
    assert_string_equal(story.text, "one two ");
    assert_int_equal(story.last_err, 0);
    assert_int_equal(ask(fixture->path, "select count(*) from sessions"), 2);
}

static void test_functions_write_and_queue(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct story story = {.fixture = fixture};
    catalog_then(fixture->catalog, false, writes_and_queues, &story);
    catalog_then(fixture->catalog, false, one, &story);
    run_turn(fixture);
    run_turn(fixture);
    assert_string_equal(story.text, "writes one two ");
    assert_int_equal(ask(fixture->path, "select count(*) from sessions"), 1);
}

static void test_commit_at_once(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct story story = {.fixture = fixture};
    add_session(fixture, STATE_REQUESTED);
    catalog_then(fixture->catalog, false, commits_inside, &story);
    catalog_then(fixture->catalog, false, one, &story);
    assert_int_equal(catalog_commit(fixture->catalog, false), 0);
    assert_string_equal(story.text, "commits committed one two ");
    assert_int_equal(ask(fixture->path, "select count(*) from sessions"), 2);
    run_turn(fixture);
    assert_string_equal(story.text, "commits committed one two ");
}

static void test_close_commits(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct story story = {.fixture = fixture};
    catalog_then(fixture->catalog, false, writes_and_queues, &story);
    fixture->catalog = catalog_close(fixture->catalog);
    assert_string_equal(story.text, "writes two ");
    assert_int_equal(ask(fixture->path, "select count(*) from sessions"), 1);
}

static int syncs_of_turn(struct catalog_fixture *fixture, bool full_sync, bool writes)
{
    struct story story = {.fixture = fixture};
    int before = n_syncs;
    if (writes)
        add_session(fixture, STATE_REQUESTED);
    catalog_then(fixture->catalog, full_sync, one, &story);
    run_turn(fixture);
    assert_string_equal(story.text, "one ");
    return n_syncs - before;
}

static void test_syncs_only_where_asked(void **state)
{
    struct catalog_fixture *fixture = *state;
    syncs_of_turn(fixture, false, true);
    assert_int_equal(syncs_of_turn(fixture, false, true), 0);
    assert_int_equal(syncs_of_turn(fixture, true, true), 1);
    assert_int_equal(syncs_of_turn(fixture, true, false), 0);
    assert_int_equal(syncs_of_turn(fixture, false, true), 0);
    /* The commit before was not synced, and this one vouches for all. */
    assert_int_equal(syncs_of_turn(fixture, true, false), 1);
    int before = n_syncs;
    add_session(fixture, STATE_REQUESTED);
    assert_int_equal(catalog_commit(fixture->catalog, true), 0);
    assert_int_equal(n_syncs - before, 1);
}

static void test_refused_value_spares_the_turn(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct story story = {.fixture = fixture};
    struct session_record r;

    add_session(fixture, STATE_REQUESTED);
    session_record_init(&r);
    r.options = "{not json";
    r.requested_at = 1;
    r.requested_by = "test";
    assert_int_equal(catalog_add_session(fixture->catalog, &r), -EINVAL);
    add_trace(fixture, RECORD_NONE, NULL, 5, 1);
    struct trace_record t;
    trace_record_init(&t);
    t.name = t.path = t.origin = "/store/1.json.gz";
    t.recorded_at = t.collected_at = 6;
    assert_int_equal(catalog_add_trace(fixture->catalog, &t), -EEXIST);
    catalog_then(fixture->catalog, false, one, &story);
    run_turn(fixture);
    assert_string_equal(story.text, "one ");
    assert_false(catalog_is_broken(fixture->catalog));
    assert_int_equal(ask(fixture->path, "select count(*) from sessions"), 1);
    assert_int_equal(ask(fixture->path, "select count(*) from traces"), 1);
}

static void test_idle_catalog_waits_for_nothing(void **state)
{
    struct catalog_fixture *fixture = *state;
    int before = event_base_get_num_events(fixture->base, EVENT_BASE_COUNT_ADDED | EVENT_BASE_COUNT_ACTIVE);
    add_session(fixture, STATE_REQUESTED);
    run_turn(fixture);
    assert_int_equal(
        event_base_get_num_events(fixture->base, EVENT_BASE_COUNT_ADDED | EVENT_BASE_COUNT_ACTIVE), before);
}

/* -- Listeners -- */

static void on_event(const json_t *event, void *arg)
{
    struct story *s = arg;
    tell(s, json_get_str(event, "kind"));
    tell(s, json_get_str(event, "session"));
    tell(s, json_get_str(event, "text"));
    assert_int_equal(ask(s->fixture->path, "select count(*) from events"),
                     json_get_int(event, "event_id", 0));
}

static void test_events_are_heard_after_the_commit(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct story story = {.fixture = fixture};
    catalog_on_event(fixture->catalog, on_event, &story);
    assert_int_equal(catalog_add_event(fixture->catalog, "session-state", "profd", 7, RECORD_NONE,
                                       RECORD_NONE, "%s", "starting"),
                     0);
    catalog_then(fixture->catalog, false, one, &story);
    assert_string_equal(story.text, "");
    run_turn(fixture);
    assert_string_equal(story.text, "session-state s7 starting one ");
}

/* -- A disk that cannot be written -- */

static void fill_turn(struct catalog_fixture *fixture, struct story *story, size_t bytes)
{
    _cleanup_(freep) char *text = xcalloc(bytes + 1, 1);
    memset(text, 'x', bytes);
    catalog_add_event(fixture->catalog, "big", "test", 1, RECORD_NONE, RECORD_NONE, "%s", text);
    catalog_then(fixture->catalog, false, one, story);
    run_turn(fixture);
}

#define BIG (256 * 1024)

static void check_broken_and_back(struct catalog_fixture *fixture, struct story *story, int err)
{
    assert_string_equal(story->text, "one-failed ");
    assert_int_equal(story->last_err, err);
    assert_true(catalog_is_broken(fixture->catalog));
    assert_non_null(strstr(catalog_broken_reason(fixture->catalog), strerror(-err)));
    /* Reading goes on. */
    struct session_record r;
    assert_int_equal(catalog_get_session(fixture->catalog, 1, &r), 0);
    session_record_done(&r);
}

static void check_repaired(struct catalog_fixture *fixture, struct story *story)
{
    assert_int_equal(catalog_probe(fixture->catalog), 0);
    assert_false(catalog_is_broken(fixture->catalog));
    assert_null(catalog_broken_reason(fixture->catalog));
    story->text[0] = '\0';
    fill_turn(fixture, story, BIG);
    assert_string_equal(story->text, "big s1 one ");
    assert_int_equal(catalog_commit(fixture->catalog, true), 0);
    assert_int_equal(ask(fixture->path, "select count(*) from events"), 1);
    assert_int_equal(ask(fixture->path, "select 1 from pragma_integrity_check where integrity_check = 'ok'"),
                     1);
}

static void on_big_event(const json_t *event, void *arg)
{
    tell(arg, json_get_str(event, "kind"));
    tell(arg, json_get_str(event, "session"));
}

static void queue_then_listen(struct catalog_fixture *fixture, struct story *story)
{
    add_session(fixture, STATE_REQUESTED);
    run_turn(fixture);
    catalog_on_event(fixture->catalog, on_big_event, story);
}

static void test_file_size_limit(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct story story = {.fixture = fixture};
    struct rlimit before, limit;
    struct stat st;

    queue_then_listen(fixture, &story);
    _cleanup_(freep) char *log = xasprintf("%s-wal", fixture->path);
    assert_int_equal(stat(log, &st), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)st.st_size + 8192;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);

    fill_turn(fixture, &story, BIG);
    check_broken_and_back(fixture, &story, -ENOSPC);
    story.text[0] = '\0';
    /* Once more, without a second of waiting. */
    fill_turn(fixture, &story, BIG);
    check_broken_and_back(fixture, &story, -ENOSPC);

    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    check_repaired(fixture, &story);
}

/* A file that takes what room is left. */
static void fill_disk(struct catalog_fixture *fixture)
{
    static const char zeros[4096];
    _cleanup_(freep) char *path = xasprintf("%s/filler", fixture->directory);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    setbuf(f, NULL);
    while (fwrite(zeros, 1, sizeof(zeros), f) == sizeof(zeros))
        ;
    fclose(f);
}

static void free_disk(struct catalog_fixture *fixture)
{
    _cleanup_(freep) char *path = xasprintf("%s/filler", fixture->directory);
    unlink(path);
}

static void test_full_disk(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct story story = {.fixture = fixture};
    if (mount("small", fixture->directory, "tmpfs", 0, "size=900k,mode=0750") < 0) {
        print_message("skipped: a small file system can be mounted by root only\n");
        skip();
    }
    /* A disk that is full from the start. */
    fill_disk(fixture);
    refused(fixture, -ENOSPC, PROBLEM_STORAGE, "full");
    free_disk(fixture);
    fixture_open(fixture);
    queue_then_listen(fixture, &story);
    fill_disk(fixture);
    fill_turn(fixture, &story, BIG);
    check_broken_and_back(fixture, &story, -ENOSPC);
    free_disk(fixture);
    check_repaired(fixture, &story);
    fixture->catalog = catalog_close(fixture->catalog);
    assert_int_equal(mount("none", fixture->directory, "none", MS_REMOUNT | MS_RDONLY, NULL), 0);
    refused(fixture, -EROFS, PROBLEM_STORAGE, "cannot be written");
    assert_int_equal(umount(fixture->directory), 0);
}

/* -- Another writer -- */

static sqlite3 *lock_elsewhere(struct catalog_fixture *fixture)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(fixture->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "begin immediate", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static int pin(struct catalog_fixture *fixture)
{
    return catalog_pin_session(fixture->catalog, 1, true);
}

/* One that does not end is an error at once, and the loop does not wait twice. */
static void test_another_writer(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct story story = {.fixture = fixture};

    add_session(fixture, STATE_REQUESTED);
    run_turn(fixture);
    sqlite3 *db = lock_elsewhere(fixture);
    int64_t begin = mono_ns();
    for (int i = 0; i < 50; i++) {
        assert_int_equal(pin(fixture), -EBUSY);
        catalog_then(fixture->catalog, false, one, &story);
        run_turn(fixture);
        assert_string_equal(story.text, "one-failed ");
        assert_int_equal(story.last_err, -EBUSY);
        story.text[0] = '\0';
    }
    assert_true(mono_ns() - begin < patience_ns(250 * NS_PER_MS));
    assert_non_null(
        strstr(catalog_broken_reason(fixture->catalog), "catalog.db is locked by another program"));
    sqlite3_close(db);
    assert_int_equal(catalog_probe(fixture->catalog), 0);
    assert_int_equal(pin(fixture), 0);
}

static void add_event(struct catalog_fixture *fixture, const char *text)
{
    assert_int_equal(catalog_add_event(fixture->catalog, "k", "a", 1, RECORD_NONE, RECORD_NONE, "%s", text),
                     0);
}

static void on_text(const json_t *event, void *arg)
{
    struct story *s = arg;
    tell(s, json_get_str(event, "text"));
    assert_int_equal(ask(s->fixture->path, "select max(event_id) from event_row") >=
                         json_get_int(event, "event_id", 0),
                     1);
}

/* Events wait for the lock, in order, and are announced once they are written. */
static void test_events_wait_for_the_lock(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct story story = {.fixture = fixture};

    catalog_on_event(fixture->catalog, on_text, &story);
    sqlite3 *db = lock_elsewhere(fixture);
    add_event(fixture, "first");
    run_turn(fixture);
    add_event(fixture, "second");
    run_turn(fixture);
    assert_string_equal(story.text, "");
    sqlite3_close(db);
    add_event(fixture, "third");
    run_turn(fixture);
    assert_string_equal(story.text, "first second third ");
    assert_int_equal(ask(fixture->path, "select count(*) from event_row"), 3);
    assert_int_equal(ask(fixture->path, "select event_id from event_row where text = 'third'"), 3);
}

/* Nobody writes: what waits is written all the same. */
static void test_the_lock_is_looked_at(void **state)
{
    struct catalog_fixture *fixture = *state;

    sqlite3 *db = lock_elsewhere(fixture);
    add_event(fixture, "first");
    run_turn(fixture);
    sqlite3_close(db);
    for (int i = 0, n = patience_tries(400); i < n && catalog_is_broken(fixture->catalog); i++) {
        usleep(5000);
        run_turn(fixture);
    }
    assert_false(catalog_is_broken(fixture->catalog));
    assert_int_equal(ask(fixture->path, "select count(*) from event_row"), 1);
}

/* Memory that waiting rows take is bounded. */
static void test_too_much_waits_for_the_lock(void **state)
{
    struct catalog_fixture *fixture = *state;
    _cleanup_(freep) char *text = xcalloc(1, 1 << 20);
    int n = 0;

    memset(text, 'x', (1 << 20) - 1);
    sqlite3 *db = lock_elsewhere(fixture);
    while (n < 100 &&
           catalog_add_event(fixture->catalog, "k", "a", 1, RECORD_NONE, RECORD_NONE, "%s", text) == 0)
        n++;
    assert_in_range(n, 8, 16);
    sqlite3_close(db);
    run_turn(fixture);
    assert_int_equal(catalog_probe(fixture->catalog), 0);
    assert_int_equal(ask(fixture->path, "select count(*) from event_row"), n);
}

/* What waits when profd ends is written then, where the lock is free in time. */
static void test_what_waits_is_written_at_the_end(void **state)
{
    struct catalog_fixture *fixture = *state;

    sqlite3 *db = lock_elsewhere(fixture);
    add_event(fixture, "first");
    run_turn(fixture);
    sqlite3_close(db);
    fixture->catalog = catalog_close(fixture->catalog);
    assert_int_equal(ask(fixture->path, "select count(*) from event_row"), 1);
}

/* -- Upkeep -- */

static int64_t file_size(const char *path, const char *suffix)
{
    struct stat st;
    _cleanup_(freep) char *name = xasprintf("%s%s", path, suffix);
    return stat(name, &st) == 0 ? st.st_size : -1;
}

static void test_checkpoints_itself(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct story story = {.fixture = fixture};
    /* 24 MiB through a log that is written back every MiB, with a pause for it. */
    for (int i = 0; i < 96; i++) {
        story.text[0] = '\0';
        fill_turn(fixture, &story, BIG);
        for (int wait = 0, n = patience_tries(1000); wait < n && fixture->catalog->upkeep; wait++) {
            usleep(5000);
            run_turn(fixture);
        }
    }
    assert_true(file_size(fixture->path, "") > 20 * 1024 * 1024);
    assert_true(file_size(fixture->path, "-wal") < 8 * 1024 * 1024);
}

static void wait_for_upkeep(struct catalog_fixture *fixture)
{
    for (int i = 0, n = patience_tries(400); i < n && fixture->catalog->upkeep; i++) {
        usleep(5000);
        run_turn(fixture);
    }
    assert_null(fixture->catalog->upkeep);
}

static void test_upkeep_removes_what_is_old(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct worker workers[] = {{.url = "http://a:1"}, {.url = "http://b:1"}};
    struct fleet fleet = {
        .router = "http://r:1", .dialect = "vllm-router", .workers = workers, .n_workers = 2};
    assert_int_equal(catalog_saw_fleet(fixture->catalog, &fleet), 0);
    fleet.router = "http://gone:1";
    fleet.n_workers = 0;
    assert_int_equal(catalog_saw_fleet(fixture->catalog, &fleet), 0);
    add_trace(fixture, RECORD_NONE, "http://b:1", 5, 1);
    run_turn(fixture);
    /* Long ago; and a log of events that has had its million. */
    execute(fixture->path,
            "update worker_row set last_seen_at = 1, router_id = 1; update router_row set last_seen_at = 1;"
            "with recursive n (i) as (select 1 union all select i + 1 from n where i < 1200)"
            "insert into event_row (at, kind, actor, text) select i, 'k', 'a', 't' from n;"
            "insert into event_row (event_id, at, kind, actor, text) values (1001100, 1, 'k', 'a', 't')");
    catalog_upkeep(fixture->catalog);
    catalog_upkeep(fixture->catalog);
    assert_true(fixture->catalog->upkeep_due);
    wait_for_upkeep(fixture);
    assert_int_equal(file_size(fixture->path, "-wal"), 0);
    assert_int_equal(ask(fixture->path, "select count(*) from events"), 101);
    assert_int_equal(ask(fixture->path, "select min(event_id) from events"), 1101);
    assert_int_equal(ask(fixture->path, "select count(*) from workers where url = 'http://b:1'"), 1);
    assert_int_equal(ask(fixture->path, "select count(*) from workers"), 1);
    assert_int_equal(ask(fixture->path, "select count(*) from routers where url = 'http://r:1'"), 1);
    assert_int_equal(ask(fixture->path, "select count(*) from routers"), 1);
    assert_true(ask(fixture->path, "select count(*) from sqlite_stat1") > 0);
    /* The loop's connection goes on after all that. */
    add_session(fixture, STATE_REQUESTED);
    assert_int_equal(catalog_commit(fixture->catalog, true), 0);
}

static void test_upkeep_comes_again(void **state)
{
    struct catalog_fixture *fixture = *state;

    catalog_upkeep_every(fixture->catalog, NS_PER_MS, NS_PER_MS);
    for (int64_t last = 1000001; last <= 1000003; last += 2) {
        _cleanup_(freep) char *sql = xasprintf("insert into event_row (event_id, at, kind, actor, text) "
                                               "values (%d, 1, 'k', 'a', 't'), (%d, 1, 'k', 'a', 't')",
                                               (int)last - 1000000, (int)last);
        execute(fixture->path, sql);
        for (int i = 0, n = patience_tries(400);
             i < n && ask(fixture->path, "select min(event_id) from events") < 1000000; i++) {
            usleep(5000);
            run_turn(fixture);
        }
        assert_true(ask(fixture->path, "select min(event_id) from events") >= 1000000);
    }
}

static void test_close_during_upkeep(void **state)
{
    struct catalog_fixture *fixture = *state;
    add_session(fixture, STATE_REQUESTED);
    catalog_upkeep(fixture->catalog);
    catalog_upkeep(fixture->catalog);
    fixture->catalog = catalog_close(fixture->catalog);
    fixture_open(fixture);
    assert_int_equal(ask(fixture->path, "select count(*) from sessions"), 1);
}

#define FIXTURE_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_begin_open, fixture_end)
#define EMPTY_TEST(f)   cmocka_unit_test_setup_teardown(f, fixture_begin, fixture_end)

int main(void)
{
    /* What a test mounts is seen by this process only. */
    if (unshare(CLONE_NEWNS) == 0)
        mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL);
    const struct CMUnitTest tests[] = {
        EMPTY_TEST(test_makes_directory_and_files),
        FIXTURE_TEST(test_keeps_the_log_when_closed),
        FIXTURE_TEST(test_refuses_a_second_opener),
        FIXTURE_TEST(test_refuses_a_newer_version),
        EMPTY_TEST(test_refuses_foreign_databases),
        EMPTY_TEST(test_refuses_what_is_no_database),
        FIXTURE_TEST(test_refuses_damaged_files),
        EMPTY_TEST(test_explains_missing_rights),
        FIXTURE_TEST(test_migrates_after_a_copy),
        EMPTY_TEST(test_migrates_each_version),
        FIXTURE_TEST(test_turn_is_one_transaction),
        FIXTURE_TEST(test_functions_write_and_queue),
        FIXTURE_TEST(test_commit_at_once),
        FIXTURE_TEST(test_close_commits),
        FIXTURE_TEST(test_syncs_only_where_asked),
        FIXTURE_TEST(test_refused_value_spares_the_turn),
        FIXTURE_TEST(test_idle_catalog_waits_for_nothing),
        FIXTURE_TEST(test_events_are_heard_after_the_commit),
        FIXTURE_TEST(test_file_size_limit),
        EMPTY_TEST(test_full_disk),
        FIXTURE_TEST(test_another_writer),
        FIXTURE_TEST(test_events_wait_for_the_lock),
        FIXTURE_TEST(test_the_lock_is_looked_at),
        FIXTURE_TEST(test_too_much_waits_for_the_lock),
        FIXTURE_TEST(test_what_waits_is_written_at_the_end),
        FIXTURE_TEST(test_checkpoints_itself),
        FIXTURE_TEST(test_upkeep_removes_what_is_old),
        FIXTURE_TEST(test_upkeep_comes_again),
        FIXTURE_TEST(test_close_during_upkeep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
