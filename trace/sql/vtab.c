/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/values.h"
#include "trace/sql/walk.h"

#include <errno.h>

/* What SQLite's module is registered with. */
struct module {
    const struct sql_table *table;
    struct traces *traces;
};

struct cursor {
    sqlite3_vtab_cursor base;
    struct terms terms,
        own_terms; /* those of the query, and as they are for the trace; texts are the former's */
    struct walk walk;
    struct cells cells;
    struct row row;
    bool at_end;
    int64_t *ids; /* of the traces that are walked through */
    size_t n_ids, next_id;
};

static struct vtab *vtab_of(struct cursor *c)
{
    return (struct vtab *)c->base.pVtab;
}

int vtab_fail(sqlite3_vtab *vtab, int error, char *message)
{
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = message ? sqlite3_mprintf("%s", message) : NULL;
    free(message);
    return error == -ENOMEM ? SQLITE_NOMEM : error == -EBADMSG ? SQLITE_CORRUPT : SQLITE_ERROR;
}

/* What was damaged read as absent: nothing that was computed from it may count. */
static int check_damage(struct cursor *c)
{
    char *damage = c->row.trace ? trace_damage(c->row.trace) : NULL;

    return damage ? vtab_fail(c->base.pVtab, -EBADMSG, damage) : SQLITE_OK;
}

static const char *type_of(const struct sql_column *column)
{
    static const char *const types[] = {
        [KIND_INT] = "integer", [KIND_NS] = "integer", [KIND_ROW] = "integer",
        [KIND_TEXT] = "text",   [KIND_REAL] = "real",  [KIND_FLOAT] = "real",
    };

    if (column->type)
        return column->type;
    return column->column < _COLUMN_MAX ? types[column_specs[column->column].kind] : "integer";
}

static int declare(sqlite3 *db, const struct sql_table *table, const struct traces *traces)
{
    bool many = traces_many(traces);
    sqlite3_str *s = sqlite3_str_new(db);
    char *sql;
    int r;

    sqlite3_str_appendall(s, "create table x(");
    for (size_t i = 0; i < table->n_columns; i++) {
        const struct sql_column *column = &table->columns[i];
        /* The catalog's own trace_id goes before a column that happens to have this name. */
        bool taken = many && streq(column->name, "trace_id");

        sqlite3_str_appendf(s, "%s\"%s%s%s\" %s%s", i > 0 ? ", " : "", taken ? table->name : "",
                            taken ? "_" : "", column->name, type_of(column), column->hidden ? " hidden" : "");
    }
    sqlite3_str_appendf(s, "%s)", traces_columns(traces));
    sql = sqlite3_str_finish(s);
    if (!sql)
        return SQLITE_NOMEM;
    r = sqlite3_declare_vtab(db, sql);
    sqlite3_free(sql);
    return r;
}

int vtab_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                 char **ret_error)
{
    struct module *module = aux;
    struct vtab *v;
    int r = declare(db, module->table, module->traces);

    if (r == SQLITE_OK)
        r = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    if (r != SQLITE_OK)
        return r;
    v = calloc(1, sizeof(*v));
    if (!v)
        return SQLITE_NOMEM;
    v->table = module->table;
    v->traces = traces_ref(module->traces);
    *ret = &v->base;
    return SQLITE_OK;
}

int vtab_disconnect(sqlite3_vtab *vtab)
{
    struct vtab *v = (struct vtab *)vtab;

    traces_unref(v->traces);
    free(v);
    return SQLITE_OK;
}

int vtab_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    struct vtab *v = (struct vtab *)vtab;

    return plan_best_index(v->table, traces_many(v->traces), info);
}

static int x_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
    struct vtab *v = (struct vtab *)vtab;
    struct cursor *c = calloc(1, sizeof(*c));

    if (!c)
        return SQLITE_NOMEM;
    c->at_end = true;
    c->row.vtab = vtab;
    c->row.table = v->table;
    c->row.cells = &c->cells;
    /* A mapping outlives what is asked of it only where it is never closed. */
    c->row.text_lifetime = traces_many(v->traces) ? SQLITE_TRANSIENT : SQLITE_STATIC;
    *ret = &c->base;
    return SQLITE_OK;
}

static void leave_trace(struct cursor *c)
{
    traces_put(vtab_of(c)->traces, c->row.trace);
    c->row.trace = NULL;
    cells_use(&c->cells, NULL);
}

static int x_close(sqlite3_vtab_cursor *cursor)
{
    struct cursor *c = (struct cursor *)cursor;

    leave_trace(c);
    walk_done(&c->walk);
    terms_done(&c->terms);
    cells_done(&c->cells);
    free(c->ids);
    free(c);
    return SQLITE_OK;
}

/* What is asked for by the number of a row. */
static const enum seek row_seeks[] = {SEEK_ROW, SEEK_SLICE, SEEK_TRACK, SEEK_DESCENDANTS, SEEK_ANCESTORS};

static int enter_trace(struct cursor *c, int64_t id)
{
    struct vtab *v = vtab_of(c);

    if (!c->row.trace || c->row.trace->id != id) {
        char *error = NULL;
        int r;

        leave_trace(c);
        r = traces_get(v->traces, id, &c->row.trace, &error);
        if (r < 0)
            return vtab_fail(c->base.pVtab, r, error);
        cells_use(&c->cells, c->row.trace->columns);
    }
    c->row.before = c->row.number = ROW_NONE;
    c->own_terms = c->terms;
    for (size_t i = 0; i < ARRAY_SIZE(row_seeks) && traces_are_one(v->traces); i++)
        c->own_terms.numbers[row_seeks[i]] = rows_within(id, c->terms.numbers[row_seeks[i]]);
    return walk_start(&c->walk, v->table, c->row.trace, &c->cells, &c->own_terms);
}

/* To the next row, if need be of the next trace. */
static int advance(struct cursor *c)
{
    for (;;) {
        int r = check_damage(c);

        if (r != SQLITE_OK)
            return r;
        c->row.before = c->row.number;
        if (walk_next(&c->walk, &c->row.number))
            return SQLITE_OK;
        if (c->walk.over)
            return SQLITE_INTERRUPT;
        r = check_damage(c);
        if (r == SQLITE_OK && c->next_id < c->n_ids) {
            r = enter_trace(c, c->ids[c->next_id++]);
            if (r == SQLITE_OK)
                continue;
        }
        c->at_end = true;
        return r;
    }
}

/* The number of a row alone says which trace it is of. */
static struct range traces_of_rows(struct range traces, struct range rows)
{
    if (rows.min > rows.max)
        return rows;
    if (rows.min > INT64_MIN)
        traces.min = MAX(traces.min, rows.min >> ROW_BITS);
    if (rows.max < INT64_MAX)
        traces.max = MIN(traces.max, rows.max >> ROW_BITS);
    return traces;
}

static int select_traces(struct cursor *c)
{
    struct range wanted = c->terms.numbers[SEEK_TRACE];
    char *error = NULL;
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(row_seeks) && traces_are_one(vtab_of(c)->traces); i++)
        wanted = traces_of_rows(wanted, c->terms.numbers[row_seeks[i]]);
    c->next_id = 0;
    if (c->n_ids == 1 &&
        (!traces_many(vtab_of(c)->traces) || (wanted.min == c->ids[0] && wanted.max == c->ids[0])))
        return SQLITE_OK;
    free(c->ids);
    r = traces_within(vtab_of(c)->traces, wanted.min, wanted.max, &c->ids, &c->n_ids, &error);
    return r < 0 ? vtab_fail(c->base.pVtab, r, error) : SQLITE_OK;
}

static int x_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int n, sqlite3_value **values)
{
    struct cursor *c = (struct cursor *)cursor;
    int r = plan_terms(c->row.table, number, text, values, n, &c->terms);

    c->at_end = true;
    if (r == SQLITE_OK)
        r = select_traces(c);
    if (r != SQLITE_OK || c->n_ids == 0)
        return r;
    r = enter_trace(c, c->ids[c->next_id++]);
    if (r != SQLITE_OK)
        return r;
    c->at_end = false;
    return advance(c);
}

static int x_next(sqlite3_vtab_cursor *cursor)
{
    return advance((struct cursor *)cursor);
}

static int x_eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct cursor *)cursor)->at_end;
}

static int x_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret)
{
    const struct row *row = &((struct cursor *)cursor)->row;

    *ret = numbered_in(row->trace->id, row->number);
    return SQLITE_OK;
}

uint64_t row_slice(const struct row *row)
{
    int64_t slice;

    if (row->table->rows == TABLE_slice)
        return row->number;
    slice = row->table->slice ? cells_get(row->cells, row->table->slice, row->number) : COLUMN_NULL;
    return slice < 0 ? ROW_NONE : (uint64_t)slice;
}

/* The row of the column's own table that the value is in. */
static uint64_t locate(const struct row *row, const struct sql_column *column)
{
    enum column_table table = column_specs[column->column].table;
    uint64_t slice;

    if (column->through) {
        int64_t other = cells_get(row->cells, column->through, row->number);

        slice = other < 0 ? ROW_NONE : (uint64_t)other;
    } else if (table == row->table->rows) {
        return row->number;
    } else {
        slice = row_slice(row);
    }
    return table == TABLE_slice || slice == ROW_NONE ? slice : cells_of_slice(row->cells, table, slice);
}

bool result_text(const struct row *row, sqlite3_context *ctx, int64_t number)
{
    struct text text = columns_text(row->trace->columns, number);

    if (number == COLUMN_NULL)
        return false;
    sqlite3_result_text64(ctx, text.p ? text.p : "", text.size, row->text_lifetime, SQLITE_UTF8);
    return text.size > 0;
}

/* Digits as they were written; what is no finite number is absent here, and a text in table args. */
static bool result_real(const struct row *row, sqlite3_context *ctx, int64_t number)
{
    struct text text = columns_text(row->trace->columns, number);
    char digits[64], *end;
    double value;

    if (text.size == 0 || text.size >= sizeof(digits))
        return false;
    memcpy(digits, text.p, text.size);
    digits[text.size] = '\0';
    value = strtod(digits, &end);
    if (end == digits + text.size && value - value == 0)
        sqlite3_result_double(ctx, value);
    return true;
}

/* The number of a row of any table. */
static void result_row(const struct row *row, sqlite3_context *ctx, uint64_t number)
{
    bool are_one = traces_are_one(((const struct vtab *)row->vtab)->traces);

    sqlite3_result_int64(ctx, are_one ? numbered_in(row->trace->id, number) : (sqlite3_int64)number);
}

/* False where what came out may be due to damage. */
static bool result_value(const struct row *row, sqlite3_context *ctx, enum column column, int64_t value)
{
    double real;

    switch (column_specs[column].kind) {
    case KIND_TEXT:
        return result_text(row, ctx, value);
    case KIND_REAL:
        return result_real(row, ctx, value);
    case KIND_FLOAT:
        memcpy(&real, &value, sizeof(real));
        sqlite3_result_double(ctx, real);
        return true;
    case KIND_ROW:
        result_row(row, ctx, (uint64_t)value);
        return true;
    default:
        sqlite3_result_int64(ctx, value);
        return true;
    }
}

static int x_column(sqlite3_vtab_cursor *cursor, sqlite3_context *ctx, int i)
{
    struct cursor *c = (struct cursor *)cursor;
    const struct sql_column *column = &c->row.table->columns[i];
    uint64_t row;
    int64_t value;

    if ((size_t)i >= c->row.table->n_columns) {
        traces_result(vtab_of(c)->traces, c->row.trace->id, i - (int)c->row.table->n_columns, ctx);
        return SQLITE_OK;
    }
    switch (column->column) {
    case VALUE_FUNCTION:
        column->function(&c->row, ctx);
        return check_damage(c);
    case VALUE_ROW:
        result_row(&c->row, ctx, c->row.number);
        return SQLITE_OK;
    case VALUE_SLICE:
        row = row_slice(&c->row);
        if (row != ROW_NONE)
            result_row(&c->row, ctx, row);
        return SQLITE_OK;
    case VALUE_NULL:
        return SQLITE_OK;
    case VALUE_ZERO:
        sqlite3_result_int64(ctx, 0);
        return SQLITE_OK;
    }
    if (!walk_knows(&c->walk, column, &value)) {
        row = locate(&c->row, column);
        value = row == ROW_NONE ? COLUMN_NULL : cells_get(&c->cells, column->column, row);
    }
    if (value == COLUMN_NULL || !result_value(&c->row, ctx, column->column, value))
        return check_damage(c);
    return SQLITE_OK;
}

static const sqlite3_module methods_of_rows = {
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

static void module_free(void *arg)
{
    struct module *m = arg;

    traces_unref(m->traces);
    free(m);
}

int vtab_register(sqlite3 *db, const sqlite3_module *methods, const struct sql_table *table,
                  struct traces *traces)
{
    struct module *m = calloc(1, sizeof(*m));

    if (!m)
        return SQLITE_NOMEM;
    m->table = table;
    m->traces = traces_ref(traces);
    /* SQLite frees m also where this fails. */
    return sqlite3_create_module_v2(db, table->name, methods, m, module_free);
}

int vtab_register_tables(sqlite3 *db, struct traces *traces)
{
    int r = SQLITE_OK;

    for (size_t i = 0; i < sql_tables_count && r == SQLITE_OK; i++)
        r = vtab_register(db, &methods_of_rows, &sql_tables[i], traces);
    return r;
}
