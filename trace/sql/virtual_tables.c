/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/virtual_tables.h"

#include "trace/reports/report.h"
#include "trace/sql/args.h"
#include "trace/sql/sums.h"
#include "trace/sql/values.h"
#include "trace/sql/walk.h"
#include <errno.h>

/* The data of a registered module. */
struct vtab_module {
    const void *spec;
    vtab_declare_fn *declare;
    struct traces *traces;
};

struct table_cursor {
    sqlite3_vtab_cursor base;
    struct terms terms, trace_terms; /* of the query, and of the current trace, which share their texts */
    struct walk walk;
    struct cells cells;
    struct row row;
    bool at_end;
    int64_t *ids; /* of the traces that are walked through */
    size_t n_ids, next_id;
};

static struct vtab *vtab_of(struct table_cursor *c)
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

/* Damaged values are read as missing, so results that were computed from them are refused. */
static int table_check_damage(struct table_cursor *c)
{
    char *damage = c->row.trace ? trace_damage(c->row.trace) : NULL;

    return damage ? vtab_fail(c->base.pVtab, -EBADMSG, damage) : SQLITE_OK;
}

static const char *column_sql_type(const struct sql_column *column)
{
    static const char *const types[] = {
        [KIND_INT] = "integer", [KIND_NS] = "integer", [KIND_ROW] = "integer",
        [KIND_TEXT] = "text",   [KIND_REAL] = "real",  [KIND_FLOAT] = "real",
    };

    if (column->type)
        return column->type;
    return column->column < _COLUMN_MAX ? types[column_specs[column->column].kind] : "integer";
}

int vtab_declare(sqlite3 *db, sqlite3_str *declaration)
{
    char *sql = sqlite3_str_finish(declaration);

    if (!sql)
        return SQLITE_NOMEM;
    int r = sqlite3_declare_vtab(db, sql);
    sqlite3_free(sql);
    return r;
}

static int table_declare(sqlite3 *db, const void *spec, const struct traces *traces)
{
    const struct sql_table *table = spec;
    bool many = traces_many(traces);
    sqlite3_str *s = sqlite3_str_new(db);

    sqlite3_str_appendall(s, "create table x(");
    for (size_t i = 0; i < table->n_columns; i++) {
        const struct sql_column *column = &table->columns[i];
        /* The catalog's trace_id takes precedence over a column of this name. */
        bool taken = many && streq(column->name, "trace_id");

        sqlite3_str_appendf(s, "%s\"%s%s%s\" %s%s", i > 0 ? ", " : "", taken ? table->name : "",
                            taken ? "_" : "", column->name, column_sql_type(column),
                            column->hidden ? " hidden" : "");
    }
    sqlite3_str_appendf(s, "%s)", traces_columns(traces));
    return vtab_declare(db, s);
}

int vtab_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                 char **ret_error)
{
    struct vtab_module *module = aux;
    struct vtab *v;
    int r = module->declare(db, module->spec, module->traces);

    if (r == SQLITE_OK)
        r = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    if (r != SQLITE_OK)
        return r;
    v = calloc(1, sizeof(*v));
    if (!v)
        return SQLITE_NOMEM;
    v->spec = module->spec;
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

    return plan_best_index(v->spec, traces_many(v->traces), info);
}

static int table_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
    struct vtab *v = (struct vtab *)vtab;
    struct table_cursor *c = calloc(1, sizeof(*c));

    if (!c)
        return SQLITE_NOMEM;
    c->at_end = true;
    c->row.table = v->spec;
    c->row.cells = &c->cells;
    /* Only a mapping that is never closed outlives its texts. */
    c->row.text_lifetime = traces_many(v->traces) ? SQLITE_TRANSIENT : SQLITE_STATIC;
    *ret = &c->base;
    return SQLITE_OK;
}

static void table_leave_trace(struct table_cursor *c)
{
    traces_put(vtab_of(c)->traces, c->row.trace);
    c->row.trace = NULL;
    cells_use(&c->cells, NULL);
}

static int table_close(sqlite3_vtab_cursor *cursor)
{
    struct table_cursor *c = (struct table_cursor *)cursor;

    table_leave_trace(c);
    walk_done(&c->walk);
    terms_done(&c->terms);
    cells_done(&c->cells);
    free(c->ids);
    free(c);
    return SQLITE_OK;
}

/* Constraints on the number of a row. */
static const enum seek row_seeks[] = {SEEK_ROW, SEEK_SLICE, SEEK_TRACK, SEEK_DESCENDANTS, SEEK_ANCESTORS};

static int table_enter_trace(struct table_cursor *c, int64_t id)
{
    struct vtab *v = vtab_of(c);

    if (!c->row.trace || c->row.trace->id != id) {
        char *error = NULL;
        int r;

        table_leave_trace(c);
        r = traces_get(v->traces, id, &c->row.trace, &error);
        if (r < 0)
            return vtab_fail(c->base.pVtab, r, error);
        cells_use(&c->cells, c->row.trace->columns);
    }
    c->row.before = c->row.number = ROW_NONE;
    c->trace_terms = c->terms;
    for (size_t i = 0; i < ARRAY_SIZE(row_seeks) && traces_are_one(v->traces); i++)
        c->trace_terms.numbers[row_seeks[i]] = rows_within(id, c->terms.numbers[row_seeks[i]]);
    return walk_start(&c->walk, c->row.table, c->row.trace, &c->cells, &c->trace_terms);
}

/* Advances to the next row, of the next trace if necessary. */
static int table_advance(struct table_cursor *c)
{
    for (;;) {
        int r = table_check_damage(c);

        if (r != SQLITE_OK)
            return r;
        c->row.before = c->row.number;
        if (walk_next(&c->walk, &c->row.number))
            return SQLITE_OK;
        if (c->walk.over)
            return SQLITE_INTERRUPT;
        r = table_check_damage(c);
        if (r == SQLITE_OK && c->next_id < c->n_ids) {
            r = table_enter_trace(c, c->ids[c->next_id++]);
            if (r == SQLITE_OK)
                continue;
        }
        c->at_end = true;
        return r;
    }
}

static int table_select_traces(struct table_cursor *c)
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

static int table_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int n,
                        sqlite3_value **values)
{
    struct table_cursor *c = (struct table_cursor *)cursor;
    int r = plan_terms(c->row.table, number, text, values, n, &c->terms);

    c->at_end = true;
    if (r == SQLITE_OK)
        r = table_select_traces(c);
    if (r != SQLITE_OK || c->n_ids == 0)
        return r;
    r = table_enter_trace(c, c->ids[c->next_id++]);
    if (r != SQLITE_OK)
        return r;
    c->at_end = false;
    return table_advance(c);
}

static int table_next(sqlite3_vtab_cursor *cursor)
{
    return table_advance((struct table_cursor *)cursor);
}

static int table_eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct table_cursor *)cursor)->at_end;
}

static int table_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret)
{
    const struct row *row = &((struct table_cursor *)cursor)->row;

    *ret = numbered_in(row->trace->id, row->number);
    return SQLITE_OK;
}

static int table_column(sqlite3_vtab_cursor *cursor, sqlite3_context *ctx, int i)
{
    struct table_cursor *c = (struct table_cursor *)cursor;
    uint64_t row;
    int64_t value;

    if ((size_t)i >= c->row.table->n_columns) {
        traces_result(vtab_of(c)->traces, c->row.trace->id, i - (int)c->row.table->n_columns, ctx);
        return SQLITE_OK;
    }
    const struct sql_column *column = &c->row.table->columns[i];
    switch (column->column) {
    case VALUE_FUNCTION:
        column->function(&c->row, ctx);
        return table_check_damage(c);
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
        row = row_of_column(&c->row, column);
        value = row == ROW_NONE ? COLUMN_NULL : cells_get(&c->cells, column->column, row);
    }
    if (value == COLUMN_NULL || !result_value(&c->row, ctx, column->column, value))
        return table_check_damage(c);
    return SQLITE_OK;
}

static const sqlite3_module table_methods = {
    .iVersion = 1,
    .xConnect = vtab_connect,
    .xBestIndex = vtab_best_index,
    .xDisconnect = vtab_disconnect,
    .xOpen = table_open,
    .xClose = table_close,
    .xFilter = table_filter,
    .xNext = table_next,
    .xEof = table_eof,
    .xColumn = table_column,
    .xRowid = table_rowid,
};

static void vtab_module_free(void *arg)
{
    struct vtab_module *m = arg;

    traces_unref(m->traces);
    free(m);
}

int vtab_register(sqlite3 *db, const char *name, const sqlite3_module *methods, const void *spec,
                  vtab_declare_fn *declare, struct traces *traces)
{
    struct vtab_module *m = calloc(1, sizeof(*m));

    if (!m)
        return SQLITE_NOMEM;
    m->spec = spec;
    m->declare = declare ? declare : table_declare;
    m->traces = traces_ref(traces);
    /* SQLite frees m also where this fails. */
    return sqlite3_create_module_v2(db, name, methods, m, vtab_module_free);
}

int sql_register(sqlite3 *db, struct sql_source source)
{
    _cleanup_(traces_unrefp) struct traces *traces = NULL;
    int r = SQLITE_OK;

    if (traces_new(db, source, &traces) < 0)
        return SQLITE_NOMEM;
    for (size_t i = 0; i < sql_tables_count && r == SQLITE_OK; i++)
        r = vtab_register(db, sql_tables[i].name, &table_methods, &sql_tables[i], NULL, traces);
    /* Statements over a catalog come from other programs, which do not rewrite them. */
    if (r == SQLITE_OK && (traces_are_one(traces) || !traces_many(traces)))
        r = sums_register(db, traces);
    if (r == SQLITE_OK)
        r = args_register_table(db, traces);
    if (r == SQLITE_OK)
        r = args_register_function(db, traces);
    if (r == SQLITE_OK)
        r = report_tables_register(db, traces);
    return r;
}

const char *sql_table_name(size_t i)
{
    if (i < sql_tables_count)
        return sql_tables[i].name;
    i -= sql_tables_count;
    if (i == 0)
        return "args";
    for (const char *const *name = report_table_names; *name; name++)
        if (--i == 0)
            return *name;
    return NULL;
}
