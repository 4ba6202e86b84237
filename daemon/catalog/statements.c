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
#define COLUMN_KEPT(name)        #name ", "
#define VALUE(type, name)        ":" #name ", "
#define VALUE_URL(name, table)   ID_OF_URL(name, table) ", "
#define VALUE_KEPT(name)         "coalesce(:" #name ", " CATALOG_NEW_UUID "), "
#define SET(type, name)          #name " = :" #name ", "
#define SET_URL(name, table)     #table "_id = " ID_OF_URL(name, table) ", "
#define SET_KEPT(name)           #name " = coalesce(" #name ", :" #name "), "
#define SELECT(type, name)       "t." #name ", "
#define SELECT_KEPT(name)        "t." #name ", "
#define SELECT_URL(name, table)                                                                                       \
    "(select url from " #table "_row x where x." #table "_id = t." #table "_id), "
#define ID_OF_URL(name, table)   "(select " #table "_id from " #table "_row where url = :" #name ")"

#define INSERT_INTO(table, FIELDS, last, id)                                                                          \
    "insert into " table " (" FIELDS(COLUMN, COLUMN_URL, COLUMN_KEPT) last ", " id ") "                                            \
    "values (" FIELDS(VALUE, VALUE_URL, VALUE_KEPT) ":" last ", :" id ")"
#define UPDATE(table, FIELDS, last, id)                                                                               \
    "update " table " set " FIELDS(SET, SET_URL, SET_KEPT) last " = :" last " where " id " = :" id
#define SELECT_FROM(table, FIELDS, last, id)                                                                          \
    "select " FIELDS(SELECT, SELECT_URL, SELECT_KEPT) "t." last ", t." id " from " table " t "

#define SESSION      "session_row", SESSION_FIELDS, "pinned", "session_id"
#define TARGET       "target_row", TARGET_FIELDS, "remedy", "target_id"
#define TRACE        "trace_row", TRACE_FIELDS, "pinned", "trace_id"
#define RUN          "run_row", RUN_FIELDS, "warmed", "run_id"
#define REQUEST      "request_row", REQUEST_FIELDS, "gaps_us", "request_id"
#define HOST         "host_row", HOST_FIELDS, "clock_error_ns", "host_id"
#define LEASE        "lease_row", LEASE_FIELDS, "session_id", "lease_id"
#define PART         "part_row", PART_FIELDS, "open", "part_id"
#define REMOTE_TRACE "remote_trace_row", REMOTE_TRACE_FIELDS, "facts", "trace_id"
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

/* The same of traces on other hosts: their worker is that of their target. */
#define REMOTE_TRACES_WHERE(condition)                                                                                \
    WITH(SELECT_FROM, REMOTE_TRACE) "where " condition "(t.recorded_at, t.trace_id) < (?1, ?2) and t.recorded_at >= ?3 "            \
    "order by t.recorded_at desc, t.trace_id desc limit ?4"
#define OF_REMOTE_WORKER                                                                                              \
    "t.target_id in (select target_id from target_row where worker_id = (select worker_id from worker_row where url = ?6)) and "

/* The user or worker in whose share a row t counts; ?1: workers that were not seen since then count as others (0). */
#define HOLDER                                                                                                        \
    "(case when t.holder < 0 and not exists (select 1 from worker_row w where w.worker_id = -t.holder "               \
    "and w.last_seen_at >= ?1) then 0 else t.holder end)"
#define EVICTABLE(and_archived)                                                                                       \
    "(t.stored = 1 or t.columns is not null) and t.pinned = 0 " and_archived                                          \
    "and (t.session_id is null or exists (select 1 "                                                                  \
    "from session_row s where s.session_id = t.session_id and s.pinned = 0 and s.state not in " UNFINISHED "))"
/* Nothing is removed for the budget that an archive is to have, and does not have yet. */
#define AND_ARCHIVED "and (t.archived_at is not null or t.stored = 0) "

/*
 * The next one after the time and id of two parameters. SQLite finds a pair with a row's id by its first member only, and would
 * read all traces of one moment again for each of them: those of the same time are looked for on their own.
 */
#define NEXT_OF(and_archived, condition, position, order)                                                              \
    "(select t.trace_id from trace_row t where " EVICTABLE(and_archived) "and " condition "and " position                 \
    " order by " order " limit 1)"
#define NEXT_EVICTABLE(and_archived, condition, at, id)                                                                \
    WITH(SELECT_FROM, TRACE) "where t.trace_id = coalesce("                                                           \
    NEXT_OF(and_archived, condition, "t.collected_at = " at " and t.trace_id > " id, "t.trace_id") ", "                \
    NEXT_OF(and_archived, condition, "t.collected_at > " at, "t.collected_at, t.trace_id") ")"

#define SELECT_EVENT "select event_id, at, kind, actor, session_id, target_id, trace_id, text, run_id from event_row "

/* Of change_mark. */
#define TABLE_OF_MARK "iif(m.kind = 't', 'trace_row', 'event_row')"
#define UNNUMBERED(table, id)                                                                                         \
    "select id, max(id, min(newest, max(id, oldest - 1) + ?2)) from (select m.id, coalesce(q.seq, 0) as newest, "     \
    "coalesce((select min(" id ") from " table "), q.seq + 1, 0) as oldest "                                          \
    "from change_mark m left join sqlite_sequence q on q.name = '" table "' where m.kind = ?1)"
/* ?1: kind. A row that has a number keeps it. */
#define NUMBER_ROWS(table, id)                                                                                        \
    "insert or ignore into change_row (kind, id, at) select ?1, t." id ", unixepoch() * 1000000000 from " table " t where "

#define STATEMENT(name, ...) [STATEMENT_##name] = __VA_ARGS__,
static const char *const texts[STATEMENT_EXTRA] = {
#include "daemon/catalog/statement_list.inc"
};
#undef STATEMENT
/* clang-format on */

/* -- Running ------------------------------------------------------------------------------------------ */

const char *statement_text(enum statement s)
{
    return s < STATEMENT_EXTRA ? texts[s] : extra_statements[s - STATEMENT_EXTRA];
}

/* NULL, with its result code: it cannot be prepared. */
static sqlite3_stmt *statement_prepare(sqlite3 *db, enum statement which, int *ret_code)
{
    sqlite3_stmt *s = NULL;

    *ret_code = sqlite3_prepare_v3(db, statement_text(which), -1, SQLITE_PREPARE_PERSISTENT, &s, NULL);
    return s;
}

int statements_check(sqlite3 *db)
{
    int code = SQLITE_OK;

    for (int i = 0; i < _STATEMENT_MAX && statement_text((enum statement)i) && code == SQLITE_OK; i++)
        sqlite3_finalize(statement_prepare(db, (enum statement)i, &code));
    return code;
}

sqlite3_stmt *statement(struct catalog *c, enum statement which)
{
    int code;

    if (!c->statements[which])
        c->statements[which] = statement_prepare(c->db, which, &code);
    return c->statements[which];
}

void statements_finalize(sqlite3_stmt **statements)
{
    for (int i = 0; i < _STATEMENT_MAX; i++) {
        sqlite3_finalize(statements[i]);
        statements[i] = NULL;
    }
}

int add_record(struct catalog *c, enum statement which, const struct record_fields *l, const void *record,
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

int append_record(struct catalog *c, enum statement which, const struct record_fields *l, const void *record)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    fields_bind(l, s, record);
    return write_or_defer(c, s, NULL);
}

int save_record(struct catalog *c, enum statement which, const struct record_fields *l, const void *record)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    fields_bind(l, s, record);
    int r = run_write(c, s);
    if (r < 0)
        return r;
    return sqlite3_changes(c->db) > 0 ? 0 : -ENOENT;
}

int get_record(struct catalog *c, sqlite3_stmt *s, const struct record_fields *l, void *record)
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

int get_record_by_id(struct catalog *c, enum statement which, int64_t id, const struct record_fields *l,
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

int records_read(struct catalog *c, sqlite3_stmt *s, const struct record_fields *l, struct record_list *ret)
{
    struct record_list list = {.fields = l};
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

void *record_at(const struct record_list *r, size_t i)
{
    return r->items + i * r->fields->record_size;
}

void records_done(struct record_list *r)
{
    for (size_t i = 0; i < r->n; i++)
        fields_done(r->fields, record_at(r, i));
    free(r->items);
    *r = (struct record_list){0};
}
