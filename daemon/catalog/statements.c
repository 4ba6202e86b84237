/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQL of the catalog, and the running of statements over records: insert, save, read, list.
 */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include <errno.h>

/* clang-format off */
/* Items of the field lists (records.c) in the places where SQL wants them. The table that is read is called t. */
#define COLUMN(type, name)       #name ", "
#define COLUMN_URL(name, table)  #table "_id, "
#define VALUE(type, name)        ":" #name ", "
#define VALUE_URL(name, table)   ID_OF_URL(name, table) ", "
#define SET(type, name)          #name " = :" #name ", "
#define SET_URL(name, table)     #table "_id = " ID_OF_URL(name, table) ", "
#define SELECT(type, name)       "t." #name ", "
#define SELECT_URL(name, table)                                                                                       \
    "(select url from " #table "_row x where x." #table "_id = t." #table "_id), "
#define ID_OF_URL(name, table)   "(select " #table "_id from " #table "_row where url = :" #name ")"

#define INSERT_INTO(table, FIELDS, last, id)                                                                          \
    "insert into " table " (" FIELDS(COLUMN, COLUMN_URL) last ", " id ") "                                            \
    "values (" FIELDS(VALUE, VALUE_URL) ":" last ", :" id ")"
#define UPDATE(table, FIELDS, last, id)                                                                               \
    "update " table " set " FIELDS(SET, SET_URL) last " = :" last " where " id " = :" id
#define SELECT_FROM(table, FIELDS, last, id) "select " FIELDS(SELECT, SELECT_URL) "t." last ", t." id " from " table " t "

#define SESSION      "session_row", SESSION_FIELDS, "pinned", "session_id"
#define TARGET       "target_row", TARGET_FIELDS, "remedy", "target_id"
#define TRACE        "trace_row", TRACE_FIELDS, "pinned", "trace_id"
#define RUN          "run_row", RUN_FIELDS, "warmed", "run_id"
#define REQUEST      "request_row", REQUEST_FIELDS, "gaps_us", "request_id"
/* Gives a macro the items of a list of those above as its arguments. */
#define WITH(macro, ...)         macro(__VA_ARGS__)

#define UNFINISHED_RUN "('requested', 'warming', 'loading', 'draining')"
#define UNFINISHED   "('requested', 'starting', 'recording', 'stopping', 'collecting')"

/*
 * ?1, ?2: recorded_at and id of the row before; ?3: since; ?4: limit; ?5: session; ?6: worker's URL. A plus before a
 * column keeps its index out of the plan: a session is always few rows, a worker may be many.
 */
#define TRACES_WHERE(condition)                                                                                       \
    WITH(SELECT_FROM, TRACE) "where " condition "(t.recorded_at, t.trace_id) < (?1, ?2) and t.recorded_at >= ?3 "                 \
    "order by t.recorded_at desc, t.trace_id desc limit ?4"
#define OF_SESSION   "t.session_id = ?5 and "
#define UNCLAIMED    "t.session_id is null and "
#define OF_WORKER    "t.worker_id = (select worker_id from worker_row where url = ?6) and "

/* The user or worker in whose share a row t counts; ?1: workers that were not seen since then count as others (0). */
#define HOLDER                                                                                                        \
    "(case when t.holder < 0 and not exists (select 1 from worker_row w where w.worker_id = -t.holder "               \
    "and w.last_seen_at >= ?1) then 0 else t.holder end)"
#define EVICTABLE                                                                                                     \
    "(t.stored = 1 or t.columns is not null) and t.pinned = 0 and (t.session_id is null or exists (select 1 "         \
    "from session_row s where s.session_id = t.session_id and s.pinned = 0 and s.state not in " UNFINISHED "))"

#define SELECT_EVENT "select event_id, at, kind, actor, session_id, target_id, trace_id, text, run_id from event_row "

static const char *const texts[STATEMENT_EXTRA] = {
    [STATEMENT_BEGIN] = "begin immediate",
    [STATEMENT_COMMIT] = "commit",
    [STATEMENT_ROLLBACK] = "rollback",
    [STATEMENT_HAS_ROWS] =
        "select exists (select 1 from session_row) or exists (select 1 from run_row where removed = 0) "
        "or exists (select 1 from trace_row)",
    [STATEMENT_PROBE] = "update usage_row set traces = traces",

    [STATEMENT_SAW_ROUTER] =
        "insert into router_row (url, dialect, fleet, first_seen_at, last_seen_at, last_used_at) "
        "values (?1, ?2, ?3, ?4, ?4, ?5) on conflict (url) do update set dialect = excluded.dialect, "
        "fleet = excluded.fleet, last_seen_at = excluded.last_seen_at, "
        "last_used_at = coalesce(excluded.last_used_at, last_used_at)",
    [STATEMENT_SAW_WORKER] =
        "insert into worker_row (url, router_id, engine, version, role, health, model, profilable, reason, remedy, "
        "trace_dir, last_seen_at) "
        "values (?1, (select router_id from router_row where url = ?2), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) "
        "on conflict (url) do update set router_id = excluded.router_id, engine = excluded.engine, "
        "version = coalesce(excluded.version, version), role = excluded.role, health = excluded.health, "
        "model = coalesce(excluded.model, model), profilable = excluded.profilable, reason = excluded.reason, "
        "remedy = excluded.remedy, trace_dir = coalesce(excluded.trace_dir, trace_dir), "
        "last_seen_at = excluded.last_seen_at",
    [STATEMENT_KNOW_WORKER] =
        "insert into worker_row (url, engine, role, health, profilable, last_seen_at) "
        "values (?1, 'unknown', 'unknown', 'unknown', 0, ?2) on conflict (url) do nothing",
    [STATEMENT_LAST_ROUTER] =
        "select url from router_row where last_used_at is not null order by last_used_at desc limit 1",
    [STATEMENT_ROUTERS] =
        "select url, dialect, fleet, first_seen_at, last_seen_at, last_used_at, "
        "(select count(*) from worker_row w where w.router_id = r.router_id) from router_row r "
        "order by last_used_at desc nulls last, last_seen_at desc, router_id desc",
    [STATEMENT_COUNT_FLEET] =
        "select (select count(*) from router_row where fleet is null and last_seen_at >= ?1), "
        "(select count(*) from worker_row where last_seen_at >= ?1)",

    [STATEMENT_ADD_SESSION] = WITH(INSERT_INTO, SESSION),
    [STATEMENT_SAVE_SESSION] = WITH(UPDATE, SESSION),
    [STATEMENT_GET_SESSION] = WITH(SELECT_FROM, SESSION) "where t.session_id = ?1",
    [STATEMENT_SESSION_OF_NAME] = WITH(SELECT_FROM, SESSION) "where t.name = ?1",
    [STATEMENT_PIN_SESSION] = "update session_row set pinned = ?2 where session_id = ?1",
    [STATEMENT_REMOVE_SESSION] = "delete from session_row where session_id = ?1",
    [STATEMENT_SESSIONS] = WITH(SELECT_FROM, SESSION) "where t.session_id < ?1 order by t.session_id desc limit ?2",
    [STATEMENT_SESSIONS_IN_STATE] =
        WITH(SELECT_FROM, SESSION) "where t.session_id < ?1 and t.state = ?3 order by t.session_id desc limit ?2",
    [STATEMENT_SESSIONS_ACTIVE] =
        WITH(SELECT_FROM, SESSION) "where t.session_id < ?1 and t.state in " UNFINISHED " order by t.session_id desc limit ?2",
    [STATEMENT_SESSIONS_HALF_REMOVED] =
        WITH(SELECT_FROM, SESSION) "where t.session_id < ?1 and exists (select 1 from event_row e "
        "where e.session_id = t.session_id and e.kind = 'session-removing') order by t.session_id desc limit ?2",

    [STATEMENT_ADD_TARGET] = WITH(INSERT_INTO, TARGET),
    [STATEMENT_SAVE_TARGET] = WITH(UPDATE, TARGET),
    [STATEMENT_TARGETS] = WITH(SELECT_FROM, TARGET) "where t.session_id = ?1 order by t.target_id",
    [STATEMENT_COUNT_TARGETS] = "select state, count(*) from target_row where session_id = ?1 group by state",
    [STATEMENT_COUNT_TRACES] = "select count(*), coalesce(sum(iif(disk_size > 0, disk_size, size)), 0) from trace_row where session_id = ?1",
    [STATEMENT_TARGET_TRACES] = "select trace_id, size from trace_row where target_id = ?1 order by trace_id",

    [STATEMENT_COUNT_WORK] =
        "select count(*), coalesce(sum((select sum(c.count) from trace_category_row c where c.trace_id = t.trace_id "
        "and c.category in ('cpu_op', 'kernel', 'gpu_memcpy', 'gpu_memset'))), 0) from trace_row t "
        "where t.target_id = ?1 and t.kind = 'trace' and t.state = 'complete' and t.slices is not null",

    [STATEMENT_ADD_TRACE] = WITH(INSERT_INTO, TRACE),
    [STATEMENT_SAVE_TRACE] = WITH(UPDATE, TRACE),
    [STATEMENT_GET_TRACE] = WITH(SELECT_FROM, TRACE) "where t.trace_id = ?1",
    [STATEMENT_TRACE_OF_PATH] = WITH(SELECT_FROM, TRACE) "where t.path = ?1",
    [STATEMENT_TRACE_OF_ORIGIN] = WITH(SELECT_FROM, TRACE) "where t.origin = ?1 order by t.trace_id desc limit 1",
    [STATEMENT_TRACE_OF_SHA256] =
        WITH(SELECT_FROM, TRACE) "where t.sha256 = ?1 and t.state <> 'missing' order by t.trace_id limit 1",
    [STATEMENT_TRACE_WITHOUT_COLUMNS] =
        WITH(SELECT_FROM, TRACE) "where t.trace_id < ?1 and (t.columns_version is null or t.columns_version < ?2) "
        "and t.state in ('complete', 'truncated', 'corrupt', 'duplicate') order by t.trace_id desc limit 1",
    [STATEMENT_WAS_REMOVED] =
        "select 1 from removed_row where origin = ?1 and size = ?2 and recorded_at = ?3 and coalesce(inode, ?4) is ?4",
    [STATEMENT_PIN_TRACE] = "update trace_row set pinned = ?2 where trace_id = ?1",
    [STATEMENT_SET_INSTANCE] = "update trace_row set instance = ?2 where trace_id = ?1",
    [STATEMENT_REMOVE_TRACE] = "delete from trace_row where trace_id = ?1",
    [STATEMENT_TRACES] = TRACES_WHERE(""),
    [STATEMENT_TRACES_OF_WORKER] = TRACES_WHERE(OF_WORKER),
    [STATEMENT_TRACES_OF_SESSION] = TRACES_WHERE(OF_SESSION),
    [STATEMENT_TRACES_OF_SESSION_WORKER] = TRACES_WHERE(OF_SESSION "+" OF_WORKER),
    [STATEMENT_TRACES_UNCLAIMED] = TRACES_WHERE(UNCLAIMED),
    [STATEMENT_TRACES_UNCLAIMED_OF_WORKER] = TRACES_WHERE(UNCLAIMED OF_WORKER),
    [STATEMENT_EVICTABLE] =
        WITH(SELECT_FROM, TRACE) "where " EVICTABLE " and (t.collected_at, t.trace_id) > (?1, ?2) "
        "order by t.collected_at, t.trace_id limit ?3",
    [STATEMENT_EVICTABLE_OF_HOLDER] =
        WITH(SELECT_FROM, TRACE) "where " EVICTABLE " and t.holder = ?3 and (t.collected_at, t.trace_id) > (?1, ?2) "
        "order by t.collected_at, t.trace_id limit 1",
    [STATEMENT_EVICTABLE_OF_OTHERS] =
        WITH(SELECT_FROM, TRACE) "where " EVICTABLE " and (t.collected_at, t.trace_id) > (?2, ?3) and " HOLDER " = 0 "
        "order by t.collected_at, t.trace_id limit 1",
    [STATEMENT_PROTECTED] =
        WITH(SELECT_FROM, TRACE) "where t.trace_id in (select trace_id from trace_row where pinned = 1 "
        "union select k.trace_id from session_row s join trace_row k using (session_id) where s.pinned = 1 "
        "union select k.trace_id from session_row s join trace_row k using (session_id) where s.state in " UNFINISHED ") "
        "and (t.stored = 1 or t.columns is not null) and t.collected_at <= ?1 order by t.collected_at, t.trace_id limit ?2",
    [STATEMENT_TWIN] =
        "select trace_id from trace_row indexed by trace_session where session_id = ?1 and size = ?2 and sha256 = ?3 "
        "and kind = 'trace' and state = 'complete' and trace_id is not ?5 "
        "and (?4 is null or worker_id = (select worker_id from worker_row where url = ?4)) limit 1",
    [STATEMENT_USAGE] = "select traces, bytes from usage_row",
    [STATEMENT_SET_DISK_SIZE] =
        "update trace_row set disk_size = ?2 where trace_id = ?1 and stored = 1 and disk_size <> ?2",
    [STATEMENT_HOLDERS] =
        "select h, (select url from worker_row x where x.worker_id = -h), sum(traces), sum(bytes) "
        "from (select " HOLDER " as h, t.traces, t.bytes from holder_row t) group by h having sum(bytes) > 0 "
        "order by sum(bytes) desc, h",
    [STATEMENT_HOLDER_OF_WORKER] = "select -worker_id from worker_row where url = ?2 and last_seen_at >= ?1",

    [STATEMENT_ADD_NAME] = "insert into name_row (name) values (?1) on conflict (name) do nothing",
    [STATEMENT_ADD_TRACE_NAME] =
        "insert into trace_name_row (trace_id, category, name_id, count, sum_ns, min_ns, max_ns) "
        "values (?1, ?2, (select name_id from name_row where name = ?3), ?4, ?5, ?6, ?7) on conflict do nothing",
    [STATEMENT_TRACE_NAMES] =
        "select category, name, count, sum_ns, min_ns, max_ns from trace_names where trace_id = ?1 "
        "order by sum_ns desc, name",
    [STATEMENT_REMOVE_TRACE_NAMES] = "delete from trace_name_row where trace_id = ?1",
    [STATEMENT_ADD_TRACE_CATEGORY] =
        "insert into trace_category_row (trace_id, category, count, sum_ns) values (?1, ?2, ?3, ?4) "
        "on conflict do nothing",
    [STATEMENT_TRACE_CATEGORIES] =
        "select category, count, sum_ns from trace_categories where trace_id = ?1 order by sum_ns desc, category",
    [STATEMENT_REMOVE_TRACE_CATEGORIES] = "delete from trace_category_row where trace_id = ?1",

    [STATEMENT_ADD_RUN] = WITH(INSERT_INTO, RUN),
    [STATEMENT_SAVE_RUN] = WITH(UPDATE, RUN),
    [STATEMENT_SET_RUN_SUMMARY] = "update run_row set summary = ?2 where run_id = ?1",
    [STATEMENT_GET_RUN_SUMMARY] = "select summary from run_row where run_id = ?1",
    [STATEMENT_GET_RUN] = WITH(SELECT_FROM, RUN) "where t.run_id = ?1 and t.removed = 0",
    [STATEMENT_RUNS] =
        WITH(SELECT_FROM, RUN) "where t.run_id < ?1 and t.removed = 0 order by t.run_id desc limit ?2",
    [STATEMENT_RUNS_OF_SESSION] =
        WITH(SELECT_FROM, RUN) "where t.run_id < ?1 and t.session_id = ?3 and t.removed = 0 order by t.run_id desc limit ?2",
    [STATEMENT_RUNS_ACTIVE] = WITH(SELECT_FROM, RUN) "where t.state in " UNFINISHED_RUN " order by t.run_id",
    [STATEMENT_RUN_OF_SESSION] =
        "select run_id from run_row where session_id = ?1 and removed = 0 order by run_id desc limit 1",
    [STATEMENT_REMOVE_RUN] = "update run_row set removed = 1 where run_id = ?1 and removed = 0",
    [STATEMENT_ADD_REQUEST] = WITH(INSERT_INTO, REQUEST),
    [STATEMENT_REQUESTS] =
        WITH(SELECT_FROM, REQUEST) "where t.run_id = ?1 and t.number > ?2 order by t.number limit ?3",

    [STATEMENT_ADD_EVENT] =
        "insert into event_row (at, kind, actor, session_id, target_id, trace_id, text, run_id) "
        "values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [STATEMENT_EVENTS_AFTER] = SELECT_EVENT "where event_id > ?2 order by event_id limit ?3",
    [STATEMENT_EVENTS_NEWEST] =
        "select * from (" SELECT_EVENT "order by event_id desc limit ?3) order by event_id",
    [STATEMENT_SESSION_EVENTS_AFTER] =
        SELECT_EVENT "where session_id = ?1 and event_id > ?2 order by event_id limit ?3",
    [STATEMENT_SESSION_EVENTS_NEWEST] =
        "select * from (" SELECT_EVENT "where session_id = ?1 order by event_id desc limit ?3) order by event_id",
    [STATEMENT_RUN_EVENTS_AFTER] = SELECT_EVENT "where run_id = ?1 and event_id > ?2 order by event_id limit ?3",
    [STATEMENT_RUN_EVENTS_NEWEST] =
        "select * from (" SELECT_EVENT "where run_id = ?1 order by event_id desc limit ?3) order by event_id",
};
/* clang-format on */

/* -- Running ------------------------------------------------------------------------------------------ */

const char *statement_text(enum statement s)
{
    return s < STATEMENT_EXTRA ? texts[s] : extra_statements[s - STATEMENT_EXTRA];
}

int statements_prepare(sqlite3 *db, sqlite3_stmt **statements)
{
    const char *text;

    for (int i = 0; i < _STATEMENT_MAX && (text = statement_text((enum statement)i)); i++) {
        int rc = sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT, &statements[i], NULL);
        if (rc != SQLITE_OK)
            return rc;
    }
    return SQLITE_OK;
}

void statements_finalize(sqlite3_stmt **statements)
{
    for (int i = 0; i < _STATEMENT_MAX; i++) {
        sqlite3_finalize(statements[i]);
        statements[i] = NULL;
    }
}

int add_record(struct catalog *c, enum statement which, const struct field_list *l, const void *record,
               int64_t *ret_id)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    fields_bind(l, s, record);
    int r = run_write(c, s);
    if (r < 0)
        return r;
    *ret_id = sqlite3_last_insert_rowid(c->db);
    return 0;
}

int append_record(struct catalog *c, enum statement which, const struct field_list *l, const void *record)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    fields_bind(l, s, record);
    return write_or_defer(c, s, NULL);
}

int save_record(struct catalog *c, enum statement which, const struct field_list *l, const void *record)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    fields_bind(l, s, record);
    int r = run_write(c, s);
    if (r < 0)
        return r;
    return sqlite3_changes(c->db) > 0 ? 0 : -ENOENT;
}

int get_record(struct catalog *c, sqlite3_stmt *s, const struct field_list *l, void *record)
{
    int r = next_row(c, s);
    if (r <= 0)
        return r < 0 ? r : -ENOENT;
    fields_read(l, s, record);
    return 0;
}

int read_numbers(struct catalog *c, sqlite3_stmt *s, int64_t *ret_first, int64_t *ret_second)
{
    int r = next_row(c, s);
    if (r <= 0)
        return r < 0 ? r : -ENOENT;
    *ret_first = column_number(s, 0);
    if (ret_second)
        *ret_second = column_number(s, 1);
    return 0;
}

int get_record_by_id(struct catalog *c, enum statement which, int64_t id, const struct field_list *l,
                     void *record)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    bind_number(s, 1, id);
    return get_record(c, s, l, record);
}

int set_text(struct catalog *c, enum statement which, int64_t id, const char *text)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    bind_number(s, 1, id);
    bind_text(s, 2, text);
    return run_write(c, s);
}

int change_row(struct catalog *c, enum statement which, int64_t id, int64_t value)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    bind_number(s, 1, id);
    if (value != RECORD_NONE)
        bind_number(s, 2, value);
    int r = run_write(c, s);
    if (r < 0)
        return r;
    return sqlite3_changes(c->db) > 0 ? 0 : -ENOENT;
}

int records_read(struct catalog *c, sqlite3_stmt *s, const struct field_list *l, struct records *ret)
{
    struct records list = {.fields = l};
    size_t cap = 0;
    int r;

    while ((r = next_row(c, s)) == 1) {
        if (list.n == cap) {
            cap = cap ? cap * 2 : 16;
            list.items = xrealloc(list.items, cap, l->record_size);
        }
        fields_read(l, s, record_at(&list, list.n++));
    }
    statement_resetp(&s);
    if (r < 0)
        records_done(&list);
    *ret = list;
    return r;
}

void *record_at(const struct records *r, size_t i)
{
    return r->items + i * r->fields->record_size;
}

void records_done(struct records *r)
{
    for (size_t i = 0; i < r->n; i++)
        fields_done(r->fields, record_at(r, i));
    free(r->items);
    *r = (struct records){0};
}
