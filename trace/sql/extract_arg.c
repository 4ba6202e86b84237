/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/args.h"
#include "trace/sql/json_scalar.h"
#include "trace/sql/values.h"

#include <errno.h>

/* Columns that one key can stand in: one for each kind of event at most. */
#define PLACES_MAX ARG_GROUPS
#define ROOT       "args."

/* A key as it was given, looked up once for a statement. */
struct wanted {
    char *key; /* in full */
    size_t size;
    enum column places[PLACES_MAX];
    size_t n;
};

struct extract {
    struct traces *traces;
    struct trace *trace; /* the last one, kept open */
    struct cells cells;
    struct arg_set args; /* of this slice, ROW_NONE: of none */
    uint64_t slice;
};

static void wanted_free(void *arg)
{
    struct wanted *w = arg;

    if (w)
        free(w->key);
    free(w);
}

/* Whether a key is `name`, or the element of it that the argument's column holds. */
static bool is_key(const struct arg_spec *spec, const char *name, const char *key)
{
    char index[16] = "";
    size_t n = strlen(name);

    if (spec->array >= 0)
        snprintf(index, sizeof(index), "[%d]", spec->array);
    return strncmp(key, name, n) == 0 && streq(key + n, index);
}

static struct wanted *wanted_new(const char *key)
{
    struct wanted *w = calloc(1, sizeof(*w));
    const char *plain = starts_with(key, ROOT) ? key + strlen(ROOT) : key;

    if (!w || asprintf(&w->key, ROOT "%s", plain) < 0) {
        free(w);
        return NULL;
    }
    w->size = strlen(w->key);
    for (size_t i = 0; i < column_args_count && w->n < PLACES_MAX; i++) {
        const struct arg_spec *spec = &column_args[i];

        for (size_t k = 0; k < ARRAY_SIZE(spec->keys) && spec->keys[k]; k++) {
            if (is_key(spec, spec->keys[k], plain)) {
                w->places[w->n++] = spec->column;
                break;
            }
        }
    }
    return w;
}

/* A text that could be a string's or a value's own JSON: only the event tells. */
static bool is_ambiguous(struct text text)
{
    int64_t integer;
    double real;

    return text.size > 0 &&
           (text.p[0] == '[' || text.p[0] == '{' || json_scalar(text, &integer, &real) != JSON_WORD);
}

static void result_copy(sqlite3_context *ctx, struct text text)
{
    sqlite3_result_text64(ctx, text.p ? text.p : "", text.size, SQLITE_TRANSIENT, SQLITE_UTF8);
}

/* False where the column does not say it for certain. */
static bool result_known(sqlite3_context *ctx, const struct columns *c, enum column column, int64_t value)
{
    enum column_kind kind = column_specs[column].kind;
    struct text text;
    int64_t integer;
    double real;

    if (kind == KIND_INT) {
        sqlite3_result_int64(ctx, value);
        return true;
    }
    text = columns_text(c, value);
    if (kind == KIND_TEXT) {
        if (text.size == 0 || is_ambiguous(text))
            return false;
        result_copy(ctx, text);
        return true;
    }
    switch (json_scalar(text, &integer, &real)) {
    case JSON_INT:
        sqlite3_result_int64(ctx, integer);
        return true;
    case JSON_REAL:
        sqlite3_result_double(ctx, real);
        return true;
    default:
        return false;
    }
}

static bool from_columns(struct extract *e, sqlite3_context *ctx, const struct wanted *w, uint64_t slice)
{
    for (size_t i = 0; i < w->n; i++) {
        uint64_t row = cells_of_slice(&e->cells, column_specs[w->places[i]].table, slice);
        int64_t value = row == ROW_NONE ? COLUMN_NULL : cells_get(&e->cells, w->places[i], row);

        if (value != COLUMN_NULL)
            return result_known(ctx, e->trace->columns, w->places[i], value);
    }
    return false;
}

static void result_arg(sqlite3_context *ctx, const struct arg *a)
{
    switch (a->type) {
    case ARG_REAL:
        sqlite3_result_double(ctx, a->real);
        break;
    case ARG_STRING:
    case ARG_JSON:
        result_copy(ctx, a->text);
        break;
    default:
        sqlite3_result_int64(ctx, a->integer);
    }
}

static int from_text(struct extract *e, sqlite3_context *ctx, const struct wanted *w, uint64_t slice)
{
    if (e->slice != slice) {
        int r;

        e->slice = ROW_NONE;
        r = args_read(e->trace, slice, &e->args);
        if (r < 0)
            return r;
        e->slice = slice;
    }
    for (size_t i = 0; i < e->args.n; i++) {
        const struct arg *a = &e->args.items[i];

        if (a->key.size == w->size && memcmp(a->key.p, w->key, w->size) == 0) {
            result_arg(ctx, a);
            break;
        }
    }
    return 0;
}

static int use_trace(struct extract *e, int64_t id, char **ret_error)
{
    *ret_error = NULL;
    if (e->trace && e->trace->id == id)
        return 0;
    traces_put(e->traces, TAKE_PTR(e->trace));
    e->slice = ROW_NONE;
    int r = traces_get(e->traces, id, &e->trace, ret_error);
    cells_use(&e->cells, r < 0 ? NULL : e->trace->columns);
    return r;
}

static void fail(sqlite3_context *ctx, int error, char *message)
{
    if (error == -ENOMEM)
        sqlite3_result_error_nomem(ctx);
    else
        sqlite3_result_error(ctx, message ? message : "extract_arg: the arguments cannot be read", -1);
    free(message);
}

static struct wanted *wanted_of(sqlite3_context *ctx, sqlite3_value *value)
{
    struct wanted *w = sqlite3_get_auxdata(ctx, 1);

    if (w)
        return w;
    w = wanted_new((const char *)sqlite3_value_text(value));
    if (w)
        sqlite3_set_auxdata(ctx, 1, w, wanted_free);
    /* SQLite may have kept it or freed it at once. */
    return sqlite3_get_auxdata(ctx, 1);
}

static void extract_arg(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct extract *e = sqlite3_user_data(ctx);
    const struct wanted *w;
    char *error = NULL;
    uint64_t slice;
    int64_t set, flags;
    int r;

    if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    if (sqlite3_value_type(argv[0]) != SQLITE_INTEGER) {
        sqlite3_result_error(ctx, "extract_arg: the first argument should be an arg_set_id", -1);
        return;
    }
    if (sqlite3_value_type(argv[1]) != SQLITE_TEXT) {
        sqlite3_result_error(ctx, "extract_arg: the second argument should be a key", -1);
        return;
    }
    w = wanted_of(ctx, argv[1]);
    if (!w) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    set = sqlite3_value_int64(argv[0]);
    slice = (uint64_t)set & ((UINT64_C(1) << ROW_BITS) - 1);
    r = use_trace(e, set >> ROW_BITS, &error);
    if (r < 0) {
        fail(ctx, r, error);
        return;
    }
    flags = columns_get(e->trace->columns, COL_slice_flags, slice);
    if (flags == COLUMN_NULL || !(flags & SLICE_HAS_ARGS))
        return;
    r = from_columns(e, ctx, w, slice) ? 0 : from_text(e, ctx, w, slice);
    if (r == 0 && (error = trace_damage(e->trace)))
        r = -EBADMSG;
    if (r < 0)
        fail(ctx, r, error);
}

static void extract_free(void *arg)
{
    struct extract *e = arg;

    traces_put(e->traces, e->trace);
    traces_unref(e->traces);
    cells_done(&e->cells);
    arg_set_done(&e->args);
    free(e);
}

int args_register_function(sqlite3 *db, struct traces *traces)
{
    struct extract *e = calloc(1, sizeof(*e));

    if (!e)
        return SQLITE_NOMEM;
    e->traces = traces_ref(traces);
    e->slice = ROW_NONE;
    /* SQLite frees e also where this fails. */
    return sqlite3_create_function_v2(db, "extract_arg", 2,
                                      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, e, extract_arg,
                                      NULL, NULL, extract_free);
}
