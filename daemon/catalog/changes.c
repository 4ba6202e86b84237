/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/catalog/changes.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/catalog/internal.h"
#include <errno.h>
#include <inttypes.h>
#include <time.h>

/* Rows that get numbers in one call: 5 ms of the loop. */
#define NUMBERED_MAX 1000

/* -- On the loop -------------------------------------------------------------------------------------- */

int catalog_changes_last(struct catalog *c, int64_t *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_CHANGES_LAST);
    return read_numbers(c, s, ret, NULL);
}

int catalog_changes_behind(struct catalog *c, int64_t after, int64_t *ret_n, int64_t *ret_oldest_at)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_CHANGES_BEHIND);

    bind_number(s, 1, after);
    bind_number(s, 2, CHANGES_COUNTED_MAX);
    *ret_oldest_at = RECORD_NONE;
    return read_numbers(c, s, ret_n, ret_oldest_at);
}

/* 1: some got numbers, or the mark passed rows that are gone. */
static int changes_number_kind(struct catalog *c, const char *kind, enum statement unnumbered,
                               enum statement number)
{
    _cleanup_reset_ sqlite3_stmt *find = statement(c, unnumbered);
    _cleanup_reset_ sqlite3_stmt *add = statement(c, number);
    _cleanup_reset_ sqlite3_stmt *move = statement(c, STATEMENT_MOVE_MARK);
    int64_t mark, upto;

    bind_text(find, 1, kind);
    bind_number(find, 2, NUMBERED_MAX);
    int r = read_numbers(c, find, &mark, &upto);
    if (r < 0 || upto == mark)
        return r;
    bind_text(add, 1, kind);
    bind_number(add, 2, mark);
    bind_number(add, 3, upto);
    r = run_write(c, add);
    if (r < 0)
        return r;
    bind_text(move, 1, kind);
    bind_number(move, 2, upto);
    r = run_write(c, move);
    return r < 0 ? r : 1;
}

int catalog_number_changes(struct catalog *c)
{
    int traces = changes_number_kind(c, "t", STATEMENT_TRACES_UNNUMBERED, STATEMENT_NUMBER_TRACES);
    int events = changes_number_kind(c, "e", STATEMENT_EVENTS_UNNUMBERED, STATEMENT_NUMBER_EVENTS);

    return traces < 0 ? traces : events < 0 ? events : MAX(traces, events);
}

int changes_number_session(struct catalog *c, int64_t session_id)
{
    _cleanup_reset_ sqlite3_stmt *find = statement(c, STATEMENT_SESSION_TRACES_UNNUMBERED);
    _cleanup_reset_ sqlite3_stmt *add = statement(c, STATEMENT_NUMBER_SESSION_TRACES);
    int64_t any;

    bind_number(find, 1, session_id);
    int r = read_numbers(c, find, &any, NULL);
    if (r < 0 || any == 0)
        return r;
    bind_text(add, 1, "t");
    bind_number(add, 2, session_id);
    return run_write(c, add);
}

/* -- Values ------------------------------------------------------------------------------------------- */

char *changes_time(char ret[static CHANGES_TIME_MAX], int64_t wall_ns)
{
    int64_t us = wall_ns / NS_PER_US - (wall_ns % NS_PER_US < 0);
    int64_t s = us / 1000000 - (us % 1000000 < 0);
    time_t seconds = (time_t)s;
    struct tm tm;

    gmtime_r(&seconds, &tm);
    snprintf(ret, CHANGES_TIME_MAX, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", tm.tm_year + 1900, tm.tm_mon + 1,
             tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(us - s * 1000000));
    return ret;
}

static bool value_is_time(const char *column)
{
    size_t n = strlen(column);
    return streq(column, "at") || (n > 3 && streq(column + n - 3, "_at"));
}

/* Columns whose text is JSON: in PostgreSQL they are jsonb. */
static bool value_is_json(const char *column)
{
    static const char *const names[] = {"options", "labels", "remarks", "skipped", "candidates", "workload",
                                        "targets", "notes",  "warmed",  "summary", "defects"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (streq(column, names[i]))
            return true;
    return false;
}

/* What cannot be parsed becomes a text. jansson refuses what jsonb does: NUL in texts, halves of surrogate pairs. */
static json_t *value_parse(const char *text)
{
    json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);
    return j ? j : json_text(text);
}

static json_t *value_of(sqlite3_stmt *s, int i)
{
    const char *column = sqlite3_column_name(s, i), *text;
    char time[CHANGES_TIME_MAX];

    switch (sqlite3_column_type(s, i)) {
    case SQLITE_INTEGER:
        return value_is_time(column) ? json_string(changes_time(time, sqlite3_column_int64(s, i)))
                                     : json_integer(sqlite3_column_int64(s, i));
    case SQLITE_FLOAT:
        return json_number(sqlite3_column_double(s, i));
    case SQLITE_TEXT:
        text = (const char *)sqlite3_column_text(s, i);
        return value_is_json(column) ? value_parse(text) : json_text(text);
    default:
        return NULL;
    }
}

/* Without what is null. Of columns of one name the last counts. */
static json_t *row_of(sqlite3_stmt *s)
{
    json_t *row = json_object();

    for (int i = 0; i < sqlite3_column_count(s); i++) {
        json_t *value = value_of(s, i);
        if (value)
            json_object_set_new(row, sqlite3_column_name(s, i), value);
        else
            json_object_del(row, sqlite3_column_name(s, i));
    }
    return row;
}

/* [name, count, sum, min, max]: a quarter of the bytes of objects. */
static json_t *row_as_array(sqlite3_stmt *s)
{
    json_t *row = json_array();

    for (int i = 0; i < sqlite3_column_count(s); i++) {
        json_t *value = value_of(s, i);
        json_array_append_new(row, value ? value : json_null());
    }
    return row;
}

/* -- Kinds -------------------------------------------------------------------------------------------- */

/* Of change_row. ?1 is the id. */
static const struct change_kind {
    char kind;
    bool stays; /* a row that is gone here stays in the mirror */
    const char *member, *sql;
} change_kinds[] = {
    {'o', false, "routers", "select * from routers where router_id = ?1"},
    {'w', false, "workers", "select * from workers where worker_id = ?1"},
    {'s', false, "sessions", "select * from sessions where session_id = ?1"},
    /* The host where it is not this one: this one may be renamed. */
    {'g', false, "targets",
     "select v.*, t.host as host, t.host_uuid as host_uuid from targets v join target_row t using "
     "(target_id) "
     "where target_id = ?1"},
    {'t', false, "traces",
     "select v.*, t.defects, s.uuid as session_uuid from traces v join trace_row t using (trace_id) "
     "left join session_row s on s.session_id = t.session_id where trace_id = ?1"},
    {'r', false, "runs", "select * from runs where run_id = ?1"},
    {'f', false, "functions",
     "select f.function_id, f.trace_id, f.session_id, w.url as worker, f.moment, f.name, f.file, f.line, "
     "f.calls, f.tsub_ns, "
     "f.ttot_ns, f.tavg_ns from function_row f left join worker_row w using (worker_id) where f.function_id "
     "= ?1"},
    {'e', true, "events", "select * from events where event_id = ?1"},
};
#define N_KINDS ARRAY_SIZE(change_kinds)

/* What a trace has in addition; ?1 is its id. */
static const struct trace_part {
    const char *member, *sql;
    bool as_arrays;
} trace_parts[] = {
    {"kernel_sums",
     "select name, count, sum_ns, min_ns, max_ns from trace_names where trace_id = ?1 and category = "
     "'kernel' "
     "order by sum_ns desc, name limit 20",
     true},
    {"category_sums",
     "select category, count, sum_ns from trace_categories where trace_id = ?1 order by category", false},
    {"step_sums",
     "select nullif(phase, '') as phase, steps, sum_ns, p50_ns, p99_ns, max_ns from trace_step_row where "
     "trace_id = ?1 "
     "order by phase",
     false},
    {"findings",
     "select number, rule, label, what, cost_ns, share from trace_finding_row where trace_id = ?1 order by "
     "number",
     false},
};
#define N_PARTS ARRAY_SIZE(trace_parts)

/* -- A batch ------------------------------------------------------------------------------------------ */

/* The objects of one kind, as they are printed. */
struct change_list {
    FILE *out;
    char *text;
    size_t size;
    int64_t n;
};

struct change_reader {
    const struct changes_request *request;
    sqlite3 *db;
    sqlite3_stmt *rows[N_KINDS], *parts[N_PARTS];
    struct change_list lists[N_KINDS], deleted[N_KINDS];
    size_t bytes;
    int64_t to, at, rows_read, last;
};

static void change_list_done(struct change_list *l)
{
    fclosep(&l->out);
    free(l->text);
}

static void change_reader_done(struct change_reader *r)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        sqlite3_finalize(r->rows[i]);
        change_list_done(&r->lists[i]);
        change_list_done(&r->deleted[i]);
    }
    for (size_t i = 0; i < N_PARTS; i++)
        sqlite3_finalize(r->parts[i]);
    sqlite3_close(r->db);
}

static void change_list_add(struct change_reader *r, struct change_list *l, char *take_text)
{
    if (!l->out)
        l->out = xmemstream(&l->text, &l->size);
    fprintf(l->out, "%s%s", l->n++ > 0 ? "," : "", take_text);
    r->bytes += strlen(take_text) + 1;
    free(take_text);
}

static int change_prepare(struct change_reader *r, sqlite3_stmt **s, const char *sql, int64_t id)
{
    int rc = *s ? SQLITE_OK : sqlite3_prepare_v2(r->db, sql, -1, s, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_reset(*s);
    return rc == SQLITE_OK ? sqlite3_bind_int64(*s, 1, id) : rc;
}

static int change_add_parts(struct change_reader *r, int64_t trace_id, json_t *trace)
{
    int rc = SQLITE_DONE;

    for (size_t i = 0; i < N_PARTS && rc == SQLITE_DONE; i++) {
        _cleanup_json_ rows = json_array();
        rc = change_prepare(r, &r->parts[i], trace_parts[i].sql, trace_id);
        while (rc == SQLITE_OK && (rc = sqlite3_step(r->parts[i])) == SQLITE_ROW) {
            json_array_append_new(rows,
                                  trace_parts[i].as_arrays ? row_as_array(r->parts[i]) : row_of(r->parts[i]));
            rc = SQLITE_OK;
        }
        if (json_array_size(rows) > 0)
            json_object_set(trace, trace_parts[i].member, rows);
    }
    return rc;
}

/* An SQLite code: SQLITE_DONE. */
static int change_add(struct change_reader *r, size_t k, int64_t id)
{
    int rc = change_prepare(r, &r->rows[k], change_kinds[k].sql, id);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(r->rows[k]);
    if (rc == SQLITE_DONE && !change_kinds[k].stays)
        change_list_add(r, &r->deleted[k], xasprintf("%" PRId64, id));
    if (rc != SQLITE_ROW)
        return rc;
    _cleanup_json_ row = row_of(r->rows[k]);
    rc = change_kinds[k].kind == 't' ? change_add_parts(r, id, row) : SQLITE_DONE;
    if (rc != SQLITE_DONE)
        return rc;
    char *text = json_dumps(row, JSON_COMPACT);
    if (!text)
        return SQLITE_NOMEM;
    change_list_add(r, &r->lists[k], text);
    r->rows_read++;
    return SQLITE_DONE;
}

static int change_walk(struct change_reader *r, sqlite3_stmt *changes)
{
    int64_t n = 0;
    int rc;

    while ((rc = sqlite3_step(changes)) == SQLITE_ROW) {
        const char *kind = (const char *)sqlite3_column_text(changes, 1);
        if (n++ == r->request->rows_max || r->bytes >= r->request->bytes_max)
            return SQLITE_DONE;
        /* A kind of a newer profd is passed over. */
        rc = SQLITE_DONE;
        for (size_t k = 0; k < N_KINDS && rc == SQLITE_DONE; k++)
            if (kind && *kind == change_kinds[k].kind)
                rc = change_add(r, k, sqlite3_column_int64(changes, 2));
        if (rc != SQLITE_DONE)
            return rc;
        r->to = sqlite3_column_int64(changes, 0);
        r->at = sqlite3_column_int64(changes, 3);
    }
    return rc;
}

/* The members of the object that are about the batch. */
static int change_put_header(struct change_reader *r, FILE *out)
{
    sqlite3_stmt *s = NULL;
    char at[CHANGES_TIME_MAX];
    int rc = sqlite3_prepare_v2(
        r->db, "select replaces, (select user_version from pragma_user_version) from catalog_row", -1, &s,
        NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        json_t *header = json_object();
        json_put_str(header, "replaces", column_text(s, 0));
        json_put_int(header, "last", r->last);
        json_put_int(header, "catalog_version", sqlite3_column_int64(s, 1));
        json_put_int(header, "rows", r->rows_read);
        json_put_str(header, "changed_at", changes_time(at, r->at));
        json_put_str(header, "profd", r->request->profd);
        char *text = json_dumps(header, JSON_COMPACT);
        fprintf(out, "%.*s", (int)strlen(text) - 1, text);
        free(text);
        json_decref(header);
        rc = SQLITE_DONE;
    }
    sqlite3_finalize(s);
    return rc;
}

static void change_put_lists(FILE *out, struct change_list lists[static N_KINDS], const char *separator)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        if (!lists[k].out)
            continue;
        fflush(lists[k].out);
        fprintf(out, "%s\"%s\":[%s]", separator, change_kinds[k].member, lists[k].text);
        separator = ",";
    }
}

static int change_print(struct change_reader *r, char **ret)
{
    char *text = NULL;
    size_t size;
    bool any_deleted = false;
    FILE *out = xmemstream(&text, &size);
    int rc = change_put_header(r, out);

    change_put_lists(out, r->lists, ",");
    for (size_t k = 0; k < N_KINDS; k++)
        any_deleted |= r->deleted[k].out != NULL;
    if (any_deleted) {
        fputs(",\"deleted\":{", out);
        change_put_lists(out, r->deleted, "");
        fputc('}', out);
    }
    fputc('}', out);
    fclose(out);
    if (rc == SQLITE_DONE)
        *ret = text;
    else
        free(text);
    return rc;
}

static int change_read_last(struct change_reader *r)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(r->db, statement_text(STATEMENT_CHANGES_LAST), -1, &s, NULL);

    if (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        r->last = sqlite3_column_int64(s, 0);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(s);
    return rc;
}

static int change_read_all(struct change_reader *r, char **ret)
{
    sqlite3_stmt *changes = NULL;
    int rc = sqlite3_prepare_v2(r->db, "select seq, kind, id, at from change_row where seq > ?1 order by seq",
                                -1, &changes, NULL);

    if (rc == SQLITE_OK) {
        sqlite3_bind_int64(changes, 1, r->request->after);
        rc = change_walk(r, changes);
    }
    sqlite3_finalize(changes);
    if (rc == SQLITE_DONE && r->to > r->request->after)
        rc = change_print(r, ret);
    return rc;
}

int changes_read(const struct changes_request *request, struct changes *ret, struct problem *p)
{
    _cleanup_(change_reader_done) struct change_reader r = {.request = request, .to = request->after};
    int rc = sqlite3_open_v2(request->path, &r.db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);

    *ret = (struct changes){.to = request->after};
    if (rc == SQLITE_OK) {
        sqlite3_extended_result_codes(r.db, 1);
        sqlite3_busy_timeout(r.db, READ_BUSY_MS);
        /* One state of the catalog for all rows. */
        rc = sqlite3_exec(r.db, "begin", NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK)
        rc = change_read_last(&r);
    if (rc == SQLITE_OK)
        rc = change_read_all(&r, &ret->json);
    if (rc != SQLITE_DONE)
        return sqlite_problem(r.db, sqlite_errno(r.db, rc), request->path, p);
    ret->to = r.to;
    ret->rows = r.rows_read;
    ret->last = r.last;
    return 0;
}

void changes_done(struct changes *c)
{
    free(c->json);
    c->json = NULL;
}
