/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/args.h"
#include "trace/sql/plan.h"
#include "trace/sql/values.h"

#include <errno.h>

/* Slices that are few enough to look each up by itself. */
#define FEW_SLICES 16
/* A row's id is made of the numbers of trace, slice and argument; these are the bits below the first two. */
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

static const struct sql_column columns[] = {
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
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
};

struct placed {
    uint64_t place, slice;
};

struct cursor {
    sqlite3_vtab_cursor base;
    struct terms terms;
    struct trace *trace;
    struct cells cells;
    int64_t *ids;
    size_t n_ids, next_id;
    /* The trace's events with arguments, as they stand in the file. */
    struct placed *events;
    size_t n_events, events_cap, next_event;
    uint64_t slice;
    struct arg_set args;
    size_t arg; /* of args; at its end the walk is over */
};

int args_read(struct trace *trace, uint64_t slice, struct arg_set *ret)
{
    int64_t place = columns_get(trace->columns, COL_slice_place, slice);
    struct text text;
    int r = place < 0 ? -ENOENT : heads_text(&trace->heads, (uint64_t)place, &text);

    if (r == -ENOENT)
        return arg_set_of_columns(ret, trace->columns, slice);
    return r < 0 ? r : arg_set_of_text(ret, text);
}

static struct traces *traces_of(struct cursor *c)
{
    return ((struct vtab *)c->base.pVtab)->traces;
}

static int x_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
    struct cursor *c = calloc(1, sizeof(*c));

    if (!c)
        return SQLITE_NOMEM;
    *ret = &c->base;
    return SQLITE_OK;
}

static void leave_trace(struct cursor *c)
{
    traces_put(traces_of(c), c->trace);
    c->trace = NULL;
    cells_use(&c->cells, NULL);
}

static int x_close(sqlite3_vtab_cursor *cursor)
{
    struct cursor *c = (struct cursor *)cursor;

    leave_trace(c);
    terms_done(&c->terms);
    cells_done(&c->cells);
    arg_set_done(&c->args);
    free(c->events);
    free(c->ids);
    free(c);
    return SQLITE_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;

    return (x->place > y->place) - (x->place < y->place);
}

static int list_events(struct cursor *c, uint64_t first, uint64_t end)
{
    c->n_events = c->next_event = 0;
    c->cells.dense = end - first > FEW_SLICES;
    if (end - first > c->events_cap) {
        free(c->events);
        c->events = calloc(end - first, sizeof(c->events[0]));
        c->events_cap = c->events ? end - first : 0;
        if (!c->events)
            return SQLITE_NOMEM;
    }
    for (uint64_t slice = first; slice < end; slice++) {
        int64_t flags = cells_get(&c->cells, COL_slice_flags, slice);

        if (trace_is_over(c->trace, slice - first))
            return SQLITE_INTERRUPT;
        if (flags != COLUMN_NULL && flags & SLICE_HAS_ARGS)
            c->events[c->n_events++] =
                (struct placed){(uint64_t)cells_get(&c->cells, COL_slice_place, slice), slice};
    }
    if (c->n_events > 1)
        qsort(c->events, c->n_events, sizeof(c->events[0]), by_place);
    return SQLITE_OK;
}

/* The slices of this trace that are asked for by their arguments' numbers. */
static void asked_slices(struct cursor *c, uint64_t *ret_first, uint64_t *ret_end)
{
    struct range slices = rows_within(c->trace->id, c->terms.numbers[SEEK_ARG_SET]);
    uint64_t rows = columns_rows(c->trace->columns, TABLE_slice);

    *ret_first = MIN((uint64_t)slices.min, rows);
    *ret_end = MAX(MIN((uint64_t)slices.max + 1, rows), *ret_first);
}

static int enter_trace(struct cursor *c, int64_t id)
{
    uint64_t first, end;

    if (!c->trace || c->trace->id != id) {
        char *error = NULL;
        int r;

        leave_trace(c);
        r = traces_get(traces_of(c), id, &c->trace, &error);
        if (r < 0)
            return vtab_fail(c->base.pVtab, r, error);
        cells_use(&c->cells, c->trace->columns);
    }
    asked_slices(c, &first, &end);
    return list_events(c, first, end);
}

static int fail(struct cursor *c, int error)
{
    static const char too_large[] =
        "the arguments of an event are too many to be taken apart; its text is in the "
        "original";
    static const char unreadable[] = "the original of the trace cannot be read";

    return vtab_fail(c->base.pVtab, error,
                     error == -ENOMEM ? NULL : strdup(error == -EFBIG ? too_large : unreadable));
}

static int check_damage(struct cursor *c)
{
    char *damage = trace_damage(c->trace);

    return damage ? vtab_fail(c->base.pVtab, -EBADMSG, damage) : SQLITE_OK;
}

/* To the first argument of the next event that has one. */
static int next_event(struct cursor *c)
{
    int r = SQLITE_OK;

    c->arg = c->args.n = 0;
    while (c->arg == c->args.n) {
        if (trace_is_over(c->trace, c->next_event))
            return SQLITE_INTERRUPT;
        if (c->next_event < c->n_events) {
            c->slice = c->events[c->next_event++].slice;
            r = args_read(c->trace, c->slice, &c->args);
            if (r < 0)
                return fail(c, r);
            continue;
        }
        r = c->trace ? check_damage(c) : SQLITE_OK;
        if (r != SQLITE_OK || c->next_id == c->n_ids)
            return r;
        r = enter_trace(c, c->ids[c->next_id++]);
        if (r != SQLITE_OK)
            return r;
    }
    return r;
}

/* An argument's number alone says which trace it is of. */
static struct range asked_traces(const struct cursor *c)
{
    struct range traces = c->terms.numbers[SEEK_TRACE], sets = c->terms.numbers[SEEK_ARG_SET];

    if (sets.min > sets.max)
        return sets;
    if (sets.min > INT64_MIN)
        traces.min = MAX(traces.min, sets.min >> ROW_BITS);
    if (sets.max < INT64_MAX)
        traces.max = MIN(traces.max, sets.max >> ROW_BITS);
    return traces;
}

static int x_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int n, sqlite3_value **values)
{
    struct cursor *c = (struct cursor *)cursor;
    int r = plan_terms(&args_table, number, text, values, n, &c->terms);
    struct range traces;
    char *error = NULL;

    c->next_id = c->n_ids = c->n_events = c->next_event = c->arg = c->args.n = 0;
    if (r != SQLITE_OK)
        return r;
    traces = asked_traces(c);
    free(TAKE_PTR(c->ids));
    r = traces_within(traces_of(c), traces.min, traces.max, &c->ids, &c->n_ids, &error);
    return r < 0 ? vtab_fail(cursor->pVtab, r, error) : next_event(c);
}

static int x_next(sqlite3_vtab_cursor *cursor)
{
    struct cursor *c = (struct cursor *)cursor;

    return ++c->arg < c->args.n ? SQLITE_OK : next_event(c);
}

static int x_eof(sqlite3_vtab_cursor *cursor)
{
    struct cursor *c = (struct cursor *)cursor;

    return c->arg == c->args.n;
}

static int x_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret)
{
    struct cursor *c = (struct cursor *)cursor;

    *ret = (sqlite3_int64)(((uint64_t)c->trace->id << TRACE_SHIFT) + (c->slice << SLICE_SHIFT) + c->arg);
    return SQLITE_OK;
}

/* The next row's texts take their place. */
static void result_copy(sqlite3_context *ctx, struct text text)
{
    sqlite3_result_text64(ctx, text.p, text.size, SQLITE_TRANSIENT, SQLITE_UTF8);
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

static int x_column(sqlite3_vtab_cursor *cursor, sqlite3_context *ctx, int i)
{
    struct cursor *c = (struct cursor *)cursor;
    const struct arg *a = &c->args.items[c->arg];
    sqlite3_int64 id;

    switch (i) {
    case ARGS_ID:
        x_rowid(cursor, &id);
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

static const sqlite3_module methods = {
    .iVersion = 1,
    .xConnect = vtab_connect,
    .xBestIndex = vtab_best_index,
    .xDisconnect = vtab_disconnect,
    .xOpen = x_open,
    .xClose = x_close,
    .xFilter = x_filter,
    .xNext = x_next,
    .xEof = x_eof,
    .xColumn = x_column,
    .xRowid = x_rowid,
};

int args_register_table(sqlite3 *db, struct traces *traces)
{
    return vtab_register(db, &methods, &args_table, traces);
}
