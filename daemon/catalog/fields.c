/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/catalog/fields.h"

#include "base/alloc.h"
#include <inttypes.h>

#define FIELD(record, type, member)                                                                          \
    {                                                                                                        \
        FIELD_##type, offsetof(struct record, member), #member                                               \
    }

#define SESSION_FIELD(type, member)  FIELD(session_record, type, member),
#define SESSION_URL(member, table)   {FIELD_TEXT, offsetof(struct session_record, member), #table},
#define TARGET_FIELD(type, member)   FIELD(target_record, type, member),
#define TARGET_URL(member, table)    {FIELD_TEXT, offsetof(struct target_record, member), #table},
#define TRACE_FIELD(type, member)    FIELD(trace_record, type, member),
#define TRACE_URL(member, table)     {FIELD_TEXT, offsetof(struct trace_record, member), #table},
#define RUN_FIELD(type, member)      FIELD(run_record, type, member),
#define RUN_URL(member, table)       {FIELD_TEXT, offsetof(struct run_record, member), #table},
#define REQUEST_FIELD(type, member)  FIELD(request_row, type, member),
#define REQUEST_URL(member, table)   {FIELD_TEXT, offsetof(struct request_row, member), #table},
#define FUNCTION_FIELD(type, member) FIELD(function_record, type, member),
#define FUNCTION_URL(member, table)  {FIELD_TEXT, offsetof(struct function_record, member), #table},

static const struct field session_list[] = {
    SESSION_FIELDS(SESSION_FIELD, SESSION_URL) FIELD(session_record, BOOL, pinned),
    FIELD(session_record, ID, session_id),
};
static const struct field target_list[] = {
    TARGET_FIELDS(TARGET_FIELD, TARGET_URL) FIELD(target_record, TEXT, remedy),
    FIELD(target_record, ID, target_id),
};
static const struct field trace_list[] = {
    TRACE_FIELDS(TRACE_FIELD, TRACE_URL) FIELD(trace_record, BOOL, pinned),
    FIELD(trace_record, ID, trace_id),
};
static const struct field run_list[] = {
    RUN_FIELDS(RUN_FIELD, RUN_URL) FIELD(run_record, ARRAY, warmed),
    FIELD(run_record, ID, run_id),
};
static const struct field request_list[] = {
    REQUEST_FIELDS(REQUEST_FIELD, REQUEST_URL) FIELD(request_row, ARRAY, gaps_us),
    FIELD(request_row, ID, request_id),
};
static const struct field function_list[] = {
    FUNCTION_FIELDS(FUNCTION_FIELD, FUNCTION_URL) FIELD(function_record, COUNT, tavg_ns),
    FIELD(function_record, ID, function_id),
};

const struct field_list session_fields = {session_list, ARRAY_SIZE(session_list)};
const struct field_list target_fields = {target_list, ARRAY_SIZE(target_list)};
const struct field_list trace_fields = {trace_list, ARRAY_SIZE(trace_list)};
const struct field_list run_fields = {run_list, ARRAY_SIZE(run_list)};
const struct field_list request_fields = {request_list, ARRAY_SIZE(request_list)};
const struct field_list function_fields = {function_list, ARRAY_SIZE(function_list)};

static const char *const trace_kinds[] = {
    [TRACE_KIND_TRACE] = "trace",
    [TRACE_KIND_FRONTEND] = "frontend",
    [TRACE_KIND_ATTACHMENT] = "attachment",
};

static const char *trace_kind_name(enum trace_kind k)
{
    return trace_kinds[k];
}

static int trace_kind_from_name(const char *word)
{
    for (size_t i = 0; i < ARRAY_SIZE(trace_kinds); i++)
        if (streq(trace_kinds[i], word))
            return (int)i;
    return -1;
}

#define AT(type, record, f) (*(type *)((char *)(record) + (f)->offset))

static bool is_text(enum field_type t)
{
    return t == FIELD_TEXT || t == FIELD_OBJECT || t == FIELD_ARRAY || t == FIELD_WORKER_JSON ||
           t == FIELD_INNER_TEXT;
}

static bool is_word(enum field_type t)
{
    return t == FIELD_STATE || t == FIELD_TRACE_STATE || t == FIELD_TRACE_KIND || t == FIELD_RUN_STATE;
}

/* The word of a field that is an enum. All enums have the size of int. */
static const char *word_of(const struct field *f, const void *record)
{
    int v = AT(const int, record, f);
    return f->type == FIELD_STATE         ? state_name(v)
           : f->type == FIELD_TRACE_STATE ? trace_state_name(v)
           : f->type == FIELD_RUN_STATE   ? run_state_name(v)
                                          : trace_kind_name(v);
}

static int value_of_word(const struct field *f, const char *word)
{
    return f->type == FIELD_STATE         ? state_from_name(word)
           : f->type == FIELD_TRACE_STATE ? trace_state_from_name(word)
           : f->type == FIELD_RUN_STATE   ? run_state_from_name(word)
                                          : trace_kind_from_name(word);
}

static void fields_init(const struct field_list *l, void *record)
{
    for (const struct field *f = l->fields; f < l->fields + l->n; f++) {
        if (is_text(f->type))
            AT(char *, record, f) = NULL;
        else if (is_word(f->type))
            AT(int, record, f) = 0;
        else if (f->type == FIELD_BOOL)
            AT(bool, record, f) = false;
        else
            AT(int64_t, record, f) = f->type == FIELD_ID || f->type == FIELD_COUNT ? 0 : RECORD_NONE;
    }
}

void fields_done(const struct field_list *l, void *record)
{
    for (const struct field *f = l->fields; f < l->fields + l->n; f++)
        if (is_text(f->type))
            free(AT(char *, record, f));
    fields_init(l, record);
}

void fields_copy(const struct field_list *l, void *to, const void *from)
{
    for (const struct field *f = l->fields; f < l->fields + l->n; f++) {
        if (is_text(f->type))
            AT(char *, to, f) = xstrdup(AT(char *const, from, f));
        else if (is_word(f->type))
            AT(int, to, f) = AT(const int, from, f);
        else if (f->type == FIELD_BOOL)
            AT(bool, to, f) = AT(const bool, from, f);
        else
            AT(int64_t, to, f) = AT(const int64_t, from, f);
    }
}

static void bind_field(const struct field *f, sqlite3_stmt *s, int i, const void *record)
{
    if (is_word(f->type))
        sqlite3_bind_text(s, i, word_of(f, record), -1, SQLITE_STATIC);
    else if (f->type == FIELD_BOOL)
        sqlite3_bind_int(s, i, AT(const bool, record, f));
    else if (f->type == FIELD_ID && AT(const int64_t, record, f) == 0)
        sqlite3_bind_null(s, i);
    else if (f->type == FIELD_OBJECT && !AT(char *const, record, f))
        sqlite3_bind_text(s, i, "{}", -1, SQLITE_STATIC);
    else if (is_text(f->type))
        bind_text(s, i, AT(char *const, record, f));
    else
        bind_number(s, i, AT(const int64_t, record, f));
}

void fields_bind(const struct field_list *l, sqlite3_stmt *s, const void *record)
{
    for (size_t i = 0; i < l->n; i++)
        bind_field(&l->fields[i], s, (int)i + 1, record);
}

void fields_read(const struct field_list *l, sqlite3_stmt *s, void *record)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct field *f = &l->fields[i];
        if (is_text(f->type))
            AT(char *, record, f) = column_text_copy(s, (int)i);
        else if (is_word(f->type))
            AT(int, record, f) = MAX(value_of_word(f, column_text(s, (int)i)), 0);
        else if (f->type == FIELD_BOOL)
            AT(bool, record, f) = sqlite3_column_int(s, (int)i) != 0;
        else
            AT(int64_t, record, f) = column_number(s, (int)i);
    }
}

static void put_parsed(json_t *object, const char *key, const char *text)
{
    char error[200];
    json_t *value = text ? json_parse(text, strlen(text), error) : NULL;
    if (value)
        json_object_set_new(object, key, value);
}

static void put_software(json_t *object, const char *text)
{
    static const char *const keys[] = {"engine", "version", "role", "model"};
    char error[200];
    _cleanup_json_ worker = text ? json_parse(text, strlen(text), error) : NULL;
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        json_put_str(object, keys[i], json_get_str(worker, keys[i]));
}

static void put_field(const struct field *f, const void *record, json_t *object, json_t *ranks)
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
        put_parsed(object, f->name, AT(char *const, record, f));
        break;
    case FIELD_WORKER_JSON:
        put_software(object, AT(char *const, record, f));
        break;
    case FIELD_STATE:
    case FIELD_TRACE_STATE:
    case FIELD_TRACE_KIND:
    case FIELD_RUN_STATE:
        json_put_str(object, f->name, word_of(f, record));
        break;
    }
}

void fields_put_json(const struct field_list *l, const void *record, json_t *object)
{
    _cleanup_json_ ranks = json_object();
    for (size_t i = 0; i < l->n; i++)
        put_field(&l->fields[i], record, object, ranks);
    if (json_object_size(ranks) > 0)
        json_object_set(object, "ranks", ranks);
}

void fields_renew_json(const struct field_list *l, const void *record, json_t *object)
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
    char text[32];
    if (id == RECORD_NONE)
        return;
    snprintf(text, sizeof(text), "%c%" PRId64, kind, id);
    json_put_str(object, key, text);
}

void session_record_init(struct session_record *r)
{
    fields_init(&session_fields, r);
}

void session_record_done(struct session_record *r)
{
    fields_done(&session_fields, r);
}

void session_record_copy(struct session_record *to, const struct session_record *from)
{
    fields_copy(&session_fields, to, from);
}

void target_record_init(struct target_record *r)
{
    fields_init(&target_fields, r);
}

void target_record_done(struct target_record *r)
{
    fields_done(&target_fields, r);
}

void target_record_copy(struct target_record *to, const struct target_record *from)
{
    fields_copy(&target_fields, to, from);
}

void trace_record_init(struct trace_record *r)
{
    fields_init(&trace_fields, r);
}

void trace_record_done(struct trace_record *r)
{
    fields_done(&trace_fields, r);
}

void run_record_init(struct run_record *r)
{
    fields_init(&run_fields, r);
}

void run_record_done(struct run_record *r)
{
    fields_done(&run_fields, r);
}

void request_row_init(struct request_row *r)
{
    fields_init(&request_fields, r);
}

void request_row_done(struct request_row *r)
{
    fields_done(&request_fields, r);
}

void function_record_init(struct function_record *r)
{
    fields_init(&function_fields, r);
}

void function_record_done(struct function_record *r)
{
    fields_done(&function_fields, r);
}
