/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records by their lists of fields: initialized, copied, bound to statements, read from rows, and rendered as the
 * JSON of the API (proto/openapi.yaml).
 */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include <errno.h>

/* Items of the list of a record; its struct is called `this_record` there. */
#define FIELD(type, member)      {FIELD_##type, offsetof(this_record, member), #member},
#define FIELD_URL(member, table) {FIELD_TEXT, offsetof(this_record, member), #table},
#define FIELD_KEPT(member)       {FIELD_TEXT, offsetof(this_record, member), #member},

static void fields_init(const struct record_fields *l, void *record);

/* clang-format off */
#define DEFINE_RECORD(record, list, FIELDS, last_type, last, id)                                                      \
    const struct record_fields *list(void)                                                                               \
    {                                                                                                                 \
        typedef struct record this_record;                                                                            \
        static const struct record_field items[] = {FIELDS(FIELD, FIELD_URL, FIELD_KEPT) FIELD(last_type, last) FIELD(ID, id)};          \
        static const struct record_fields of = {items, ARRAY_SIZE(items), sizeof(this_record)};                          \
        return &of;                                                                                                   \
    }                                                                                                                 \
    void record##_init(struct record *r)                                                                              \
    {                                                                                                                 \
        fields_init(list(), r);                                                                                       \
    }                                                                                                                 \
    void record##_done(struct record *r)                                                                              \
    {                                                                                                                 \
        fields_done(list(), r);                                                                                       \
    }
DEFINE_RECORD(session_record, session_fields, SESSION_FIELDS, BOOL, pinned, session_id)
DEFINE_RECORD(target_record, target_fields, TARGET_FIELDS, TEXT, remedy, target_id)
DEFINE_RECORD(trace_record, trace_fields, TRACE_FIELDS, BOOL, pinned, trace_id)
DEFINE_RECORD(run_record, run_fields, RUN_FIELDS, ARRAY, warmed, run_id)
DEFINE_RECORD(request_row, request_fields, REQUEST_FIELDS, ARRAY, gaps_us, request_id)
DEFINE_RECORD(host_record, host_fields, HOST_FIELDS, NUMBER, clock_error_ns, host_id)
DEFINE_RECORD(lease_record, lease_fields, LEASE_FIELDS, REF, session_id, lease_id)
DEFINE_RECORD(part_record, part_fields, PART_FIELDS, BOOL, open, part_id)
DEFINE_RECORD(remote_trace_record, remote_trace_fields, REMOTE_TRACE_FIELDS, OBJECT, facts, trace_id)
/* clang-format on */

#define AT(type, record, f) (*(type *)((char *)(record) + (f)->offset))

static bool field_is_text(enum record_field_type t)
{
    return t == FIELD_TEXT || t == FIELD_OBJECT || t == FIELD_ARRAY || t == FIELD_WORKER_JSON ||
           t == FIELD_INNER_TEXT;
}

static bool field_is_word(enum record_field_type t)
{
    return t == FIELD_STATE || t == FIELD_TRACE_STATE || t == FIELD_TRACE_KIND || t == FIELD_RUN_STATE;
}

/* The word of a field that is an enum. All enums have the size of int. */
static const char *field_word(const struct record_field *f, const void *record)
{
    int v = AT(const int, record, f);
    return f->type == FIELD_STATE         ? state_name(v)
           : f->type == FIELD_TRACE_STATE ? trace_state_name(v)
           : f->type == FIELD_RUN_STATE   ? run_state_name(v)
                                          : trace_kind_name(v);
}

static int field_value_of_word(const struct record_field *f, const char *word)
{
    return f->type == FIELD_STATE         ? state_from_name(word)
           : f->type == FIELD_TRACE_STATE ? trace_state_from_name(word)
           : f->type == FIELD_RUN_STATE   ? run_state_from_name(word)
                                          : trace_kind_from_name(word);
}

static void fields_init(const struct record_fields *l, void *record)
{
    for (const struct record_field *f = l->fields; f < l->fields + l->n; f++) {
        if (field_is_text(f->type))
            AT(char *, record, f) = NULL;
        else if (field_is_word(f->type))
            AT(int, record, f) = 0;
        else if (f->type == FIELD_BOOL)
            AT(bool, record, f) = false;
        else
            AT(int64_t, record, f) = f->type == FIELD_ID || f->type == FIELD_COUNT ? 0 : RECORD_NONE;
    }
}

void fields_done(const struct record_fields *l, void *record)
{
    for (const struct record_field *f = l->fields; f < l->fields + l->n; f++)
        if (field_is_text(f->type))
            free(AT(char *, record, f));
    fields_init(l, record);
}

static void fields_copy(const struct record_fields *l, void *to, const void *from)
{
    for (const struct record_field *f = l->fields; f < l->fields + l->n; f++) {
        if (field_is_text(f->type))
            AT(char *, to, f) = xstrdup(AT(char *const, from, f));
        else if (field_is_word(f->type))
            AT(int, to, f) = AT(const int, from, f);
        else if (f->type == FIELD_BOOL)
            AT(bool, to, f) = AT(const bool, from, f);
        else
            AT(int64_t, to, f) = AT(const int64_t, from, f);
    }
}

static void field_bind(const struct record_field *f, sqlite3_stmt *s, int i, const void *record)
{
    if (field_is_word(f->type))
        sqlite3_bind_text(s, i, field_word(f, record), -1, SQLITE_STATIC);
    else if (f->type == FIELD_BOOL)
        sqlite3_bind_int(s, i, AT(const bool, record, f));
    else if (f->type == FIELD_ID && AT(const int64_t, record, f) == 0)
        sqlite3_bind_null(s, i);
    else if (f->type == FIELD_OBJECT && !AT(char *const, record, f))
        sqlite3_bind_text(s, i, "{}", -1, SQLITE_STATIC);
    else if (field_is_text(f->type))
        bind_text(s, i, AT(char *const, record, f));
    else
        bind_number(s, i, AT(const int64_t, record, f));
}

void fields_bind(const struct record_fields *l, sqlite3_stmt *s, const void *record)
{
    for (size_t i = 0; i < l->n; i++)
        field_bind(&l->fields[i], s, (int)i + 1, record);
}

void fields_read(const struct record_fields *l, sqlite3_stmt *s, void *record)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct record_field *f = &l->fields[i];
        if (field_is_text(f->type))
            AT(char *, record, f) = column_text_copy(s, (int)i);
        else if (field_is_word(f->type))
            AT(int, record, f) = MAX(field_value_of_word(f, column_text(s, (int)i)), 0);
        else if (f->type == FIELD_BOOL)
            AT(bool, record, f) = sqlite3_column_int(s, (int)i) != 0;
        else
            AT(int64_t, record, f) = column_number(s, (int)i);
    }
}

static json_t *field_parse(const struct record_field *f, const void *record)
{
    const char *text = AT(char *const, record, f);
    char error[200];
    return text ? json_parse(text, strlen(text), error) : NULL;
}

/* -- Of the JSON of a worker, what names it and its software -- */

static const char *const software_keys[] = {"identity", "name", "node", "engine", "version", "role", "model"};

/* The closing quote of the text that begins at a quote; the end of everything where it has none. */
static const char *json_text_end(const char *p)
{
    for (p++; *p && *p != '"'; p++)
        p += *p == '\\' && p[1];
    return p;
}

/* The comma or the bracket after a value. */
static const char *json_value_end(const char *p)
{
    for (int depth = 0; *p && (depth > 0 || (*p != ',' && *p != '}')); p++) {
        if (*p == '"')
            p = json_text_end(p);
        if (!*p)
            break;
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
    }
    return p;
}

/* Parses only these members: a session has thousands of workers. Trusts that profd wrote the text (compact, complete,
 * each key once and as it is). False where it has spaces or is cut off, so that the caller parses all of it. */
static bool software_find(const char *worker, json_t *values[static ARRAY_SIZE(software_keys)])
{
    const char *key = worker;

    while ((*key == '{' || *key == ',') && key[1] == '"') {
        const char *key_end = json_text_end(++key), *value = *key_end ? key_end + 2 : key_end;
        if (!*key_end || key_end[1] != ':')
            return false;
        const char *end = json_value_end(value);
        for (size_t i = 0; i < ARRAY_SIZE(software_keys); i++)
            if (*value == '"' && strncmp(software_keys[i], key + 1, (size_t)(key_end - key - 1)) == 0 &&
                software_keys[i][key_end - key - 1] == '\0' && !values[i])
                values[i] = json_loadb(value, (size_t)(end - value), JSON_DECODE_ANY, NULL);
        key = end;
    }
    return streq(key, "}");
}

static void field_put_software(const struct record_field *f, const void *record, json_t *object)
{
    const char *text = AT(char *const, record, f);
    json_t *values[ARRAY_SIZE(software_keys)] = {NULL};

    if (!text)
        return;
    if (software_find(text, values)) {
        for (size_t i = 0; i < ARRAY_SIZE(software_keys); i++)
            if (values[i])
                json_object_set_new(object, software_keys[i], values[i]);
        return;
    }
    _cleanup_json_ worker = field_parse(f, record);
    for (size_t i = 0; i < ARRAY_SIZE(software_keys); i++) {
        json_decref(values[i]);
        json_put_str(object, software_keys[i], json_get_str(worker, software_keys[i]));
    }
}

static void field_put_json(const struct record_field *f, const void *record, json_t *object, json_t *ranks)
{
    switch (f->type) {
    case FIELD_ID:
    case FIELD_REF:
    case FIELD_INNER:
    case FIELD_INNER_TEXT:
        break;
    case FIELD_SESSION:
        put_ref(object, "session", 's', AT(const int64_t, record, f));
        break;
    case FIELD_NUMBER:
    case FIELD_COUNT:
    case FIELD_RANK:
        if (AT(const int64_t, record, f) != RECORD_NONE)
            json_put_int(f->type == FIELD_RANK ? ranks : object, f->name, AT(const int64_t, record, f));
        break;
    case FIELD_BOOL:
        json_put_bool(object, f->name, AT(const bool, record, f));
        break;
    case FIELD_TEXT:
        json_put_str(object, f->name, AT(char *const, record, f));
        break;
    case FIELD_OBJECT:
    case FIELD_ARRAY:
        json_object_set_new(object, f->name, field_parse(f, record));
        break;
    case FIELD_WORKER_JSON:
        field_put_software(f, record, object);
        break;
    case FIELD_STATE:
    case FIELD_TRACE_STATE:
    case FIELD_TRACE_KIND:
    case FIELD_RUN_STATE:
        json_put_str(object, f->name, field_word(f, record));
        break;
    }
}

void fields_put_json(const struct record_fields *l, const void *record, json_t *object)
{
    _cleanup_json_ ranks = json_object();
    for (size_t i = 0; i < l->n; i++)
        field_put_json(&l->fields[i], record, object, ranks);
    if (json_object_size(ranks) > 0)
        json_object_set(object, "ranks", ranks);
}

void fields_renew_json(const struct record_fields *l, const void *record, json_t *object)
{
    for (size_t i = 0; i < l->n; i++)
        json_object_del(object, l->fields[i].name);
    fields_put_json(l, record, object);
}

void bind_text(sqlite3_stmt *s, int i, const char *text)
{
    sqlite3_bind_text(s, i, text, -1, SQLITE_STATIC);
}

void bind_number(sqlite3_stmt *s, int i, int64_t number)
{
    if (number == RECORD_NONE)
        sqlite3_bind_null(s, i);
    else
        sqlite3_bind_int64(s, i, number);
}

int64_t column_number(sqlite3_stmt *s, int i)
{
    return sqlite3_column_type(s, i) == SQLITE_NULL ? RECORD_NONE : sqlite3_column_int64(s, i);
}

const char *column_text(sqlite3_stmt *s, int i)
{
    return (const char *)sqlite3_column_text(s, i);
}

char *column_text_copy(sqlite3_stmt *s, int i)
{
    return xstrdup(column_text(s, i));
}

void put_ref(json_t *object, const char *key, char kind, int64_t id)
{
    if (id != RECORD_NONE)
        json_object_set_new(object, key, json_sprintf("%c%lld", kind, (long long)id));
}

void session_record_copy(struct session_record *to, const struct session_record *from)
{
    fields_copy(session_fields(), to, from);
}

void target_record_copy(struct target_record *to, const struct target_record *from)
{
    fields_copy(target_fields(), to, from);
}

/* -- Traces ------------------------------------------------------------------------------------------- */

json_t *trace_record_to_json(const struct trace_record *r)
{
    json_t *j = json_object();
    put_ref(j, "trace", 't', r->trace_id);
    fields_put_json(trace_fields(), r, j);
    return j;
}

/* -- Targets ------------------------------------------------------------------------------------------ */

static int target_put_traces(struct catalog *c, int64_t target_id, json_t *target)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_TARGET_TRACES);
    json_t *traces = json_array();
    int64_t bytes = 0;
    int r;

    bind_number(s, 1, target_id);
    while ((r = next_row(c, s)) == 1) {
        json_array_append_new(traces, json_sprintf("t%lld", (long long)column_number(s, 0)));
        bytes += column_number(s, 1);
    }
    json_object_set_new(target, "traces", traces);
    json_put_int(target, "bytes", bytes);
    return r;
}

void target_json_renew(json_t *target, const struct target_record *r)
{
    fields_renew_json(target_fields(), r, target);
    json_object_del(target, "session");
}

static int session_put_targets(struct catalog *c, int64_t session_id, json_t *session)
{
    _cleanup_(records_done) struct record_list targets = {0};
    sqlite3_stmt *s = statement(c, STATEMENT_TARGETS);
    json_t *list = json_array();

    json_object_set_new(session, "targets", list);
    bind_number(s, 1, session_id);
    int r = records_read(c, s, target_fields(), &targets);
    for (size_t i = 0; i < targets.n && r == 0; i++) {
        const struct target_record *target = record_at(&targets, i);
        json_t *j = json_object();
        json_put_int(j, "target", target->target_id);
        target_json_renew(j, target);
        json_array_append_new(list, j);
        r = target_put_traces(c, target->target_id, j);
    }
    return r;
}

/* -- Sessions ----------------------------------------------------------------------------------------- */

/* Under which name a target's state is counted. */
static const char *target_count_name(int state)
{
    return state >= 0 && state_is_final(state) ? state_name(state) : "active";
}

static void counts_add(json_t *counts, const char *key, int64_t n)
{
    json_put_int(counts, key, json_get_int(counts, key, 0) + n);
}

static void counts_clear(json_t *counts)
{
    json_put_int(counts, "targets", 0);
    json_put_int(counts, "active", 0);
    for (enum state st = STATE_COMPLETE; st < _STATE_MAX; st++)
        json_put_int(counts, state_name(st), 0);
}

static int counts_read_targets(struct catalog *c, int64_t id, json_t *counts)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_COUNT_TARGETS);
    int r;

    counts_clear(counts);
    bind_number(s, 1, id);
    while ((r = next_row(c, s)) == 1) {
        int64_t n = column_number(s, 1);
        counts_add(counts, target_count_name(state_from_name(column_text(s, 0))), n);
        counts_add(counts, "targets", n);
    }
    return r;
}

static int counts_read_traces(struct catalog *c, int64_t id, json_t *counts)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_COUNT_TRACES);
    static const char *const names[] = {"traces", "bytes", "disk_bytes", "remote_bytes"};

    bind_number(s, 1, id);
    int r = next_row(c, s);
    for (size_t i = 0; i < ARRAY_SIZE(names) && r == 1; i++)
        json_put_int(counts, names[i], column_number(s, (int)i));
    return MIN(r, 0);
}

/* Within a transaction nothing is kept: its end may be a rollback, which the count of changes does not show.
 */
static int counts_of_session(struct catalog *c, int64_t id, json_t **ret)
{
    struct kept_counts *kept = &c->kept_counts[(uint64_t)id % KEPT_COUNTS];
    int64_t changes = sqlite3_total_changes64(c->db);
    bool decided = sqlite3_get_autocommit(c->db);

    if (decided && kept->counts && kept->session_id == id && kept->changes == changes) {
        *ret = json_incref(kept->counts);
        return 0;
    }
    _cleanup_json_ counts = json_object();
    int r = counts_read_targets(c, id, counts);
    if (r == 0)
        r = counts_read_traces(c, id, counts);
    if (r < 0)
        return r;
    if (decided) {
        json_decref(kept->counts);
        *kept = (struct kept_counts){id, changes, json_incref(counts)};
    }
    *ret = TAKE_PTR(counts);
    return 0;
}

static int session_put_run(struct catalog *c, int64_t session_id, json_t *session)
{
    int64_t run_id;
    int r = catalog_find_run_of_session(c, session_id, &run_id);

    if (r == 0)
        json_put_int(session, "run", run_id);
    return r == -ENOENT ? 0 : r;
}

static int session_to_json(struct catalog *c, const struct session_record *r, json_t **ret)
{
    _cleanup_json_ j = json_object();
    json_t *counts = NULL;
    put_ref(j, "session", 's', r->session_id);
    fields_put_json(session_fields(), r, j);
    int e = session_put_run(c, r->session_id, j);
    if (e == 0)
        e = counts_of_session(c, r->session_id, &counts);
    if (e < 0)
        return e;
    json_put_int(counts, "skipped", (int64_t)json_array_size(json_object_get(j, "skipped")));
    json_object_set_new(j, "counts", counts);
    *ret = TAKE_PTR(j);
    return 0;
}

int catalog_session_json(struct catalog *c, int64_t id, bool with_targets, json_t **ret)
{
    struct session_record record;
    _cleanup_json_ j = NULL;
    int r = catalog_get_session(c, id, &record);
    if (r < 0)
        return r;
    r = session_to_json(c, &record, &j);
    session_record_done(&record);
    if (r == 0 && with_targets)
        r = session_put_targets(c, id, j);
    if (r == 0)
        *ret = TAKE_PTR(j);
    return r;
}

int catalog_set_labels(struct catalog *c, char kind, int64_t id, const char *labels)
{
    return set_text(c,
                    kind == 's'   ? STATEMENT_LABEL_SESSION
                    : kind == 'r' ? STATEMENT_LABEL_RUN
                                  : STATEMENT_LABEL_TRACE,
                    id, labels);
}

void session_json_renew(json_t *session, const struct session_record *r, const enum state *targets, size_t n)
{
    /* The counts may be kept for who asks next. */
    json_t *counts = json_copy(json_object_get(session, "counts"));

    fields_renew_json(session_fields(), r, session);
    counts_clear(counts);
    for (size_t i = 0; i < n; i++)
        counts_add(counts, target_count_name((int)targets[i]), 1);
    json_put_int(counts, "targets", (int64_t)n);
    json_object_set_new(session, "counts", counts);
}

static int session_listing(const char *state, enum statement *ret)
{
    if (state && !streq(state, "active") && state_from_name(state) < 0)
        return -EINVAL;
    *ret = !state                   ? STATEMENT_SESSIONS
           : streq(state, "active") ? STATEMENT_SESSIONS_ACTIVE
                                    : STATEMENT_SESSIONS_IN_STATE;
    return 0;
}

int catalog_sessions_json(struct catalog *c, int64_t limit, int64_t before_id, const char *state,
                          json_t **ret)
{
    _cleanup_json_ list = json_array();
    _cleanup_(records_done) struct record_list sessions = {0};
    enum statement which;
    int r = session_listing(state, &which);

    if (r < 0)
        return r;
    sqlite3_stmt *s = statement(c, which);
    bind_number(s, 1, before_id == RECORD_NONE ? INT64_MAX : before_id);
    bind_number(s, 2, limit);
    if (which == STATEMENT_SESSIONS_IN_STATE)
        bind_text(s, 3, state);
    r = records_read(c, s, session_fields(), &sessions);
    for (size_t i = 0; i < sessions.n && r == 0; i++) {
        json_t *j = NULL;
        r = session_to_json(c, record_at(&sessions, i), &j);
        /* They may be about each of its workers: the session itself has them. */
        json_object_del(j, "remarks");
        json_object_del(j, "skipped");
        if (r == 0)
            json_array_append_new(list, j);
    }
    if (r == 0)
        *ret = TAKE_PTR(list);
    return r;
}
