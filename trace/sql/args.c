/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/args.h"

#include "base/array.h"
#include "trace/sql/arg_set.h"
#include "trace/sql/plan.h"
#include "trace/sql/values.h"
#include <errno.h>

/* -- Table args ----------------------------------------------------------------------------------------- */

/* Up to this number of slices, each is looked up separately. */
#define FEW_SLICES 16
/* The id of a row consists of the numbers of trace, slice and argument, shifted by these numbers of bits. */
#define TRACE_SHIFT 52
#define SLICE_SHIFT 20

enum {
    ARGS_ID,
    ARGS_ARG_SET_ID,
    ARGS_FLAT_KEY,
    ARGS_KEY,
    ARGS_INT_VALUE,
    ARGS_STRING_VALUE,
    ARGS_REAL_VALUE,
    ARGS_VALUE_TYPE,
    ARGS_DISPLAY_VALUE,
};

static const struct sql_column args_columns[] = {
    [ARGS_ID] = {"id", VALUE_FUNCTION},
    [ARGS_ARG_SET_ID] = {"arg_set_id", VALUE_FUNCTION, SEEK_ARG_SET},
    [ARGS_FLAT_KEY] = {"flat_key", VALUE_FUNCTION, .type = "text"},
    [ARGS_KEY] = {"key", VALUE_FUNCTION, .type = "text"},
    [ARGS_INT_VALUE] = {"int_value", VALUE_FUNCTION},
    [ARGS_STRING_VALUE] = {"string_value", VALUE_FUNCTION, .type = "text"},
    [ARGS_REAL_VALUE] = {"real_value", VALUE_FUNCTION, .type = "real"},
    [ARGS_VALUE_TYPE] = {"value_type", VALUE_FUNCTION, .type = "text"},
    [ARGS_DISPLAY_VALUE] = {"display_value", VALUE_FUNCTION, .type = "text"},
};

static const struct sql_table args_table = {
    .name = "args",
    .rows = TABLE_slice,
    .columns = args_columns,
    .n_columns = ARRAY_SIZE(args_columns),
};

struct event_offset {
    uint64_t offset, slice;
};

struct args_cursor {
    sqlite3_vtab_cursor base;
    struct terms terms;
    struct trace *trace;
    struct cells cells;
    int64_t *ids;
    size_t n_ids, next_id;
    /* Events with arguments, in the order of the original. */
    struct event_offset *events;
    size_t n_events, events_cap, args_next_event;
    uint64_t slice;
    struct arg_set args;
    size_t arg; /* index in args; args.n: at the end */
};

int args_read(struct trace *trace, uint64_t slice, struct arg_set *ret)
{
    int64_t offset = columns_get(trace->columns, COL_slice_offset, slice);
    struct text text;
    int r = offset < 0 ? -ENOENT : heads_text(&trace->heads, (uint64_t)offset, &text);

    if (r == -ENOENT)
        return arg_set_of_columns(ret, trace->columns, slice);
    return r < 0 ? r : arg_set_of_text(ret, text);
}

static struct traces *traces_of(struct args_cursor *c)
{
    return ((struct vtab *)c->base.pVtab)->traces;
}

static int args_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
    struct args_cursor *c = calloc(1, sizeof(*c));

    if (!c)
        return SQLITE_NOMEM;
    *ret = &c->base;
    return SQLITE_OK;
}

static void args_leave_trace(struct args_cursor *c)
{
    traces_put(traces_of(c), c->trace);
    c->trace = NULL;
    cells_use(&c->cells, NULL);
}

static int args_close(sqlite3_vtab_cursor *cursor)
{
    struct args_cursor *c = (struct args_cursor *)cursor;

    args_leave_trace(c);
    terms_done(&c->terms);
    cells_done(&c->cells);
    arg_set_done(&c->args);
    free(c->events);
    free(c->ids);
    free(c);
    return SQLITE_OK;
}

static int args_compare_offsets(const void *a, const void *b)
{
    const struct event_offset *x = a, *y = b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int args_list_events(struct args_cursor *c, uint64_t first, uint64_t end)
{
    c->n_events = c->args_next_event = 0;
    c->cells.dense = end - first > FEW_SLICES;
    if (!ARRAY_RESERVE(c->events, c->events_cap, end - first))
        return SQLITE_NOMEM;
    for (uint64_t slice = first; slice < end; slice++) {
        int64_t flags = cells_get(&c->cells, COL_slice_flags, slice);

        if (trace_is_over(c->trace, slice - first))
            return SQLITE_INTERRUPT;
        if (flags != COLUMN_NULL && flags & SLICE_HAS_ARGS)
            c->events[c->n_events++] =
                (struct event_offset){(uint64_t)cells_get(&c->cells, COL_slice_offset, slice), slice};
    }
    if (c->n_events > 1)
        qsort(c->events, c->n_events, sizeof(c->events[0]), args_compare_offsets);
    return SQLITE_OK;
}

static int args_enter_trace(struct args_cursor *c, int64_t id)
{
    if (!c->trace || c->trace->id != id) {
        char *error = NULL;

        args_leave_trace(c);
        int r = traces_get(traces_of(c), id, &c->trace, &error);
        if (r < 0)
            return vtab_fail(c->base.pVtab, r, error);
        cells_use(&c->cells, c->trace->columns);
    }
    /* The slices of this trace within the constraint on arg_set_id. */
    struct range slices = rows_within(id, c->terms.numbers[SEEK_ARG_SET]);
    uint64_t rows = columns_rows(c->trace->columns, TABLE_slice), first = MIN((uint64_t)slices.min, rows);
    return args_list_events(c, first, MAX(MIN((uint64_t)slices.max + 1, rows), first));
}

static int args_fail(struct args_cursor *c, int error)
{
    static const char too_large[] =
        "an event has more than 64 MiB of arguments; the original contains its text";
    static const char unreadable[] = "the original of the trace cannot be read";

    return vtab_fail(c->base.pVtab, error,
                     error == -ENOMEM ? NULL : strdup(error == -EFBIG ? too_large : unreadable));
}

/* Advances to the first argument of the next event that has arguments. */
static int args_next_event(struct args_cursor *c)
{
    int r = SQLITE_OK;

    c->arg = c->args.n = 0;
    while (c->arg == c->args.n) {
        if (trace_is_over(c->trace, c->args_next_event))
            return SQLITE_INTERRUPT;
        if (c->args_next_event < c->n_events) {
            c->slice = c->events[c->args_next_event++].slice;
            r = args_read(c->trace, c->slice, &c->args);
            if (r < 0)
                return args_fail(c, r);
            continue;
        }
        char *damage = c->trace ? trace_damage(c->trace) : NULL;
        if (damage)
            return vtab_fail(c->base.pVtab, -EBADMSG, damage);
        if (c->next_id == c->n_ids)
            return SQLITE_OK;
        r = args_enter_trace(c, c->ids[c->next_id++]);
        if (r != SQLITE_OK)
            return r;
    }
    return r;
}

static int args_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int n,
                       sqlite3_value **values)
{
    struct args_cursor *c = (struct args_cursor *)cursor;
    int r = plan_terms(&args_table, number, text, values, n, &c->terms);
    struct range traces;
    char *error = NULL;

    c->next_id = c->n_ids = c->n_events = c->args_next_event = c->arg = c->args.n = 0;
    if (r != SQLITE_OK)
        return r;
    traces = traces_of_rows(c->terms.numbers[SEEK_TRACE], c->terms.numbers[SEEK_ARG_SET]);
    free(TAKE_PTR(c->ids));
    r = traces_within(traces_of(c), traces.min, traces.max, &c->ids, &c->n_ids, &error);
    return r < 0 ? vtab_fail(cursor->pVtab, r, error) : args_next_event(c);
}

static int args_next(sqlite3_vtab_cursor *cursor)
{
    struct args_cursor *c = (struct args_cursor *)cursor;

    return ++c->arg < c->args.n ? SQLITE_OK : args_next_event(c);
}

static int args_eof(sqlite3_vtab_cursor *cursor)
{
    struct args_cursor *c = (struct args_cursor *)cursor;

    return c->arg == c->args.n;
}

static int args_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret)
{
    struct args_cursor *c = (struct args_cursor *)cursor;

    *ret = (sqlite3_int64)(((uint64_t)c->trace->id << TRACE_SHIFT) + (c->slice << SLICE_SHIFT) + c->arg);
    return SQLITE_OK;
}

/* Copies the text, which the next row overwrites. */
static void result_copy(sqlite3_context *ctx, struct text text)
{
    sqlite3_result_text64(ctx, text.p ? text.p : "", text.size, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static void result_display(sqlite3_context *ctx, const struct arg *a)
{
    char number[32];

    switch (a->type) {
    case ARG_INT:
        sqlite3_snprintf(sizeof(number), number, "%lld", a->integer);
        break;
    case ARG_REAL:
        sqlite3_snprintf(sizeof(number), number, "%!.15g", a->real);
        break;
    case ARG_BOOL:
        sqlite3_snprintf(sizeof(number), number, "%s", a->integer ? "true" : "false");
        break;
    default:
        result_copy(ctx, a->text);
        return;
    }
    sqlite3_result_text(ctx, number, -1, SQLITE_TRANSIENT);
}

static int args_column(sqlite3_vtab_cursor *cursor, sqlite3_context *ctx, int i)
{
    struct args_cursor *c = (struct args_cursor *)cursor;
    const struct arg *a = &c->args.items[c->arg];
    sqlite3_int64 id;

    switch (i) {
    case ARGS_ID:
        args_rowid(cursor, &id);
        sqlite3_result_int64(ctx, id);
        break;
    case ARGS_ARG_SET_ID:
        sqlite3_result_int64(ctx, numbered_in(c->trace->id, c->slice));
        break;
    case ARGS_FLAT_KEY:
        result_copy(ctx, a->flat_key);
        break;
    case ARGS_KEY:
        result_copy(ctx, a->key);
        break;
    case ARGS_INT_VALUE:
        if (a->type == ARG_INT || a->type == ARG_BOOL)
            sqlite3_result_int64(ctx, a->integer);
        break;
    case ARGS_STRING_VALUE:
        if (a->type == ARG_STRING || a->type == ARG_JSON)
            result_copy(ctx, a->text);
        break;
    case ARGS_REAL_VALUE:
        if (a->type == ARG_REAL)
            sqlite3_result_double(ctx, a->real);
        break;
    case ARGS_VALUE_TYPE:
        sqlite3_result_text(ctx, arg_type_name(a->type), -1, SQLITE_STATIC);
        break;
    case ARGS_DISPLAY_VALUE:
        result_display(ctx, a);
        break;
    default:
        traces_result(traces_of(c), c->trace->id, i - (int)args_table.n_columns, ctx);
    }
    return SQLITE_OK;
}

static const sqlite3_module args_methods = {
    .iVersion = 1,
    .xConnect = vtab_connect,
    .xBestIndex = vtab_best_index,
    .xDisconnect = vtab_disconnect,
    .xOpen = args_open,
    .xClose = args_close,
    .xFilter = args_filter,
    .xNext = args_next,
    .xEof = args_eof,
    .xColumn = args_column,
    .xRowid = args_rowid,
};

int args_register_table(sqlite3 *db, struct traces *traces)
{
    return vtab_register(db, args_table.name, &args_methods, &args_table, NULL, traces);
}

/* -- extract_arg() -------------------------------------------------------------------------------------- */

/* Columns of one key: at most one for each kind of event. */
#define ARG_COLUMNS_MAX ARG_GROUPS
#define ARG_ROOT        "args."

/* A key, looked up once for each statement. */
struct arg_key {
    char *key; /* in full */
    size_t size;
    enum column columns[ARG_COLUMNS_MAX];
    size_t n;
};

struct extract {
    struct traces *traces;
    struct trace *trace; /* the last one, kept open */
    struct cells cells;
    struct arg_set args; /* of this slice, ROW_NONE: of none */
    uint64_t slice;
};

static void arg_key_free(void *arg)
{
    struct arg_key *w = arg;

    if (w)
        free(w->key);
    free(w);
}

/* Whether a key is `name`, or the element of it that the column contains. */
static bool arg_key_is(const struct arg_spec *spec, const char *name, const char *key)
{
    char index[16] = "";
    size_t n = strlen(name);

    if (spec->array >= 0)
        snprintf(index, sizeof(index), "[%d]", spec->array);
    return strncmp(key, name, n) == 0 && streq(key + n, index);
}

static struct arg_key *arg_key_new(const char *key)
{
    struct arg_key *w = calloc(1, sizeof(*w));
    const char *plain = starts_with(key, ARG_ROOT) ? key + strlen(ARG_ROOT) : key;

    if (!w || asprintf(&w->key, ARG_ROOT "%s", plain) < 0) {
        free(w);
        return NULL;
    }
    w->size = strlen(w->key);
    for (size_t i = 0; i < column_args_count && w->n < ARG_COLUMNS_MAX; i++) {
        const struct arg_spec *spec = &column_args[i];

        for (size_t k = 0; k < ARRAY_SIZE(spec->keys) && spec->keys[k]; k++) {
            if (arg_key_is(spec, spec->keys[k], plain)) {
                w->columns[w->n++] = spec->column;
                break;
            }
        }
    }
    return w;
}

/* Whether a text could be a string or the JSON of a value: only the event shows which. */
static bool is_ambiguous(struct text text)
{
    int64_t integer;
    double real;

    return text.size > 0 &&
           (text.p[0] == '[' || text.p[0] == '{' || json_scalar(text, &integer, &real) != SCALAR_WORD);
}

/* False if the column does not determine the type. */
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
    case SCALAR_INT:
        sqlite3_result_int64(ctx, integer);
        return true;
    case SCALAR_REAL:
        sqlite3_result_double(ctx, real);
        return true;
    default:
        return false;
    }
}

static bool extract_from_columns(struct extract *e, sqlite3_context *ctx, const struct arg_key *w,
                                 uint64_t slice)
{
    for (size_t i = 0; i < w->n; i++) {
        uint64_t row = cells_of_slice(&e->cells, column_specs[w->columns[i]].table, slice);
        int64_t value = row == ROW_NONE ? COLUMN_NULL : cells_get(&e->cells, w->columns[i], row);

        if (value != COLUMN_NULL)
            return result_known(ctx, e->trace->columns, w->columns[i], value);
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

static int extract_from_text(struct extract *e, sqlite3_context *ctx, const struct arg_key *w, uint64_t slice)
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

static int extract_use_trace(struct extract *e, int64_t id, char **ret_error)
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

static void extract_fail(sqlite3_context *ctx, int error, char *message)
{
    if (error == -ENOMEM)
        sqlite3_result_error_nomem(ctx);
    else
        sqlite3_result_error(ctx, message ? message : "extract_arg: the arguments cannot be read", -1);
    free(message);
}

static struct arg_key *arg_key_of(sqlite3_context *ctx, sqlite3_value *value)
{
    struct arg_key *w = sqlite3_get_auxdata(ctx, 1);

    if (w)
        return w;
    w = arg_key_new((const char *)sqlite3_value_text(value));
    if (w)
        sqlite3_set_auxdata(ctx, 1, w, arg_key_free);
    /* SQLite may have kept it or freed it at once. */
    return sqlite3_get_auxdata(ctx, 1);
}

static void extract_arg(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct extract *e = sqlite3_user_data(ctx);
    const struct arg_key *w;
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
    w = arg_key_of(ctx, argv[1]);
    if (!w) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    set = sqlite3_value_int64(argv[0]);
    slice = (uint64_t)set & ((UINT64_C(1) << ROW_BITS) - 1);
    r = extract_use_trace(e, set >> ROW_BITS, &error);
    if (r < 0) {
        extract_fail(ctx, r, error);
        return;
    }
    flags = columns_get(e->trace->columns, COL_slice_flags, slice);
    if (flags == COLUMN_NULL || !(flags & SLICE_HAS_ARGS))
        return;
    r = extract_from_columns(e, ctx, w, slice) ? 0 : extract_from_text(e, ctx, w, slice);
    if (r == 0 && (error = trace_damage(e->trace)))
        r = -EBADMSG;
    if (r < 0)
        extract_fail(ctx, r, error);
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
