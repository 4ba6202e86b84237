/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/report_table.h"

#include "trace/reports/report.h"
#include "trace/sql/terms.h"
#include "trace/sql/vtab.h"
#include <errno.h>

/* How xBestIndex tells xFilter that one trace is asked for. */
enum { ALL_TRACES, ONE_TRACE };
/* Rows of a report, for SQLite's planner. */
#define ROWS_ESTIMATE   100
#define TRACES_ESTIMATE 1000

/* What SQLite's module is registered with. */
struct module {
    const struct report *report;
    struct traces *traces;
};

struct report_vtab {
    sqlite3_vtab base;
    const struct report *report;
    struct traces *traces;
};

struct cursor {
    sqlite3_vtab_cursor base;
    int64_t *ids;
    size_t n_ids, next_id;
    int64_t id; /* of the trace whose rows these are */
    struct report_rows rows;
    size_t row;
    sqlite3_int64 n_before; /* rows of the traces before it */
};

static struct report_vtab *vtab_of(struct cursor *c)
{
    return (struct report_vtab *)c->base.pVtab;
}

static const char *type_of(enum report_unit unit)
{
    switch (unit) {
    case UNIT_TEXT:
        return "text";
    case UNIT_BYTES_PER_S:
    case UNIT_SHARE:
    case UNIT_FACTOR:
        return "real";
    default:
        return "integer";
    }
}

/* A report that has a rank of its own keeps it. */
static bool has_rank(const struct report *report)
{
    for (size_t i = 0; i < report->n_columns; i++)
        if (streq(report->columns[i].name, "rank") || streq(report->columns[i].name, "worker"))
            return true;
    return false;
}

static int declare(sqlite3 *db, const struct report *report, const struct traces *traces)
{
    sqlite3_str *s = sqlite3_str_new(db);

    sqlite3_str_appendall(s, "create table x(");
    for (size_t i = 0; i < report->n_columns; i++)
        sqlite3_str_appendf(s, "%s\"%s\" %s", i > 0 ? ", " : "", report->columns[i].name,
                            type_of(report->columns[i].unit));
    sqlite3_str_appendf(
        s, "%s)", traces_are_one(traces) && has_rank(report) ? ", trace_id integer" : traces_columns(traces));
    char *sql = sqlite3_str_finish(s);
    if (!sql)
        return SQLITE_NOMEM;
    int r = sqlite3_declare_vtab(db, sql);
    sqlite3_free(sql);
    return r;
}

static int x_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                     char **ret_error)
{
    struct module *module = aux;
    int r = declare(db, module->report, module->traces);

    if (r == SQLITE_OK)
        r = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    struct report_vtab *v = r == SQLITE_OK ? calloc(1, sizeof(*v)) : NULL;
    if (!v)
        return r == SQLITE_OK ? SQLITE_NOMEM : r;
    v->report = module->report;
    v->traces = traces_ref(module->traces);
    *ret = &v->base;
    return SQLITE_OK;
}

static int x_disconnect(sqlite3_vtab *vtab)
{
    struct report_vtab *v = (struct report_vtab *)vtab;

    traces_unref(v->traces);
    free(v);
    return SQLITE_OK;
}

static int x_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const struct report *report = ((struct report_vtab *)vtab)->report;

    info->idxNum = ALL_TRACES;
    info->estimatedRows = ROWS_ESTIMATE * TRACES_ESTIMATE;
    info->estimatedCost = (double)info->estimatedRows;
    for (int i = 0; i < info->nConstraint; i++)
        if (info->aConstraint[i].usable && info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ &&
            info->aConstraint[i].iColumn == (int)report->n_columns) {
            info->aConstraintUsage[i].argvIndex = 1;
            /* SQLite would compare 't12' with a number. */
            info->aConstraintUsage[i].omit = 1;
            info->idxNum = ONE_TRACE;
            info->estimatedRows = ROWS_ESTIMATE;
            info->estimatedCost = ROWS_ESTIMATE;
            break;
        }
    return SQLITE_OK;
}

static int x_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
    struct cursor *c = calloc(1, sizeof(*c));

    if (!c)
        return SQLITE_NOMEM;
    *ret = &c->base;
    return SQLITE_OK;
}

static int x_close(sqlite3_vtab_cursor *cursor)
{
    struct cursor *c = (struct cursor *)cursor;

    report_rows_done(&c->rows);
    free(c->ids);
    free(c);
    return SQLITE_OK;
}

static int make_rows(struct cursor *c, struct trace *trace)
{
    int64_t number = columns_meta(trace->columns, META_rank);
    struct rank rank = {.columns = trace->columns, .label = "", .number = number == COLUMN_NULL ? 0 : number};
    struct analysis a = {.ranks = &rank, .n = 1, .view = VIEW_ALL};

    report_rows_done(&c->rows);
    int r = report_make(vtab_of(c)->report, &a, &c->rows);
    analysis_done(&a);
    if (r == -ENODATA) {
        report_rows_done(&c->rows);
        return SQLITE_OK;
    }
    if (r < 0)
        return vtab_fail(c->base.pVtab, r, trace_damage(trace));
    return SQLITE_OK;
}

/* To the first row of the next trace that has one. */
static int next_trace(struct cursor *c)
{
    int r = SQLITE_OK;

    while (r == SQLITE_OK && c->row == report_rows_count(&c->rows) && c->next_id < c->n_ids) {
        struct trace *trace;
        char *error = NULL;

        c->n_before += (sqlite3_int64)c->row;
        c->row = 0;
        c->id = c->ids[c->next_id++];
        int failed = traces_get(vtab_of(c)->traces, c->id, &trace, &error);
        if (failed < 0)
            return vtab_fail(c->base.pVtab, failed, error);
        r = trace_look(trace) ? SQLITE_INTERRUPT : make_rows(c, trace);
        traces_put(vtab_of(c)->traces, trace);
    }
    return r;
}

static int x_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int n, sqlite3_value **values)
{
    struct cursor *c = (struct cursor *)cursor;
    struct range ids = {INT64_MIN, INT64_MAX};
    char *error = NULL;

    report_rows_done(&c->rows);
    free(TAKE_PTR(c->ids));
    c->n_ids = c->next_id = c->row = 0;
    c->n_before = 0;
    if (number == ONE_TRACE)
        range_narrow_trace(&ids, SQLITE_INDEX_CONSTRAINT_EQ, values[0]);
    int r = traces_within(vtab_of(c)->traces, ids.min, ids.max, &c->ids, &c->n_ids, &error);
    return r < 0 ? vtab_fail(cursor->pVtab, r, error) : next_trace(c);
}

static int x_next(sqlite3_vtab_cursor *cursor)
{
    struct cursor *c = (struct cursor *)cursor;

    c->row++;
    return next_trace(c);
}

static int x_eof(sqlite3_vtab_cursor *cursor)
{
    struct cursor *c = (struct cursor *)cursor;

    return c->row == report_rows_count(&c->rows);
}

static int x_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret)
{
    struct cursor *c = (struct cursor *)cursor;

    *ret = c->n_before + (sqlite3_int64)c->row;
    return SQLITE_OK;
}

static int x_column(sqlite3_vtab_cursor *cursor, sqlite3_context *ctx, int i)
{
    struct cursor *c = (struct cursor *)cursor;

    if (i >= (int)vtab_of(c)->report->n_columns) {
        traces_result(vtab_of(c)->traces, c->id, i - (int)vtab_of(c)->report->n_columns, ctx);
        return SQLITE_OK;
    }
    const struct cell *cell = report_rows_at(&c->rows, c->row, (size_t)i);
    switch (cell->type) {
    case CELL_INT:
        sqlite3_result_int64(ctx, cell->integer);
        break;
    case CELL_REAL:
        sqlite3_result_double(ctx, cell->real);
        break;
    case CELL_TEXT:
        sqlite3_result_text(ctx, cell->text, -1, SQLITE_TRANSIENT);
        break;
    default:
        break;
    }
    return SQLITE_OK;
}

static const sqlite3_module methods = {
    .iVersion = 1,
    .xConnect = x_connect,
    .xBestIndex = x_best_index,
    .xDisconnect = x_disconnect,
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

int report_tables_register(sqlite3 *db, struct traces *traces)
{
    int r = SQLITE_OK;

    for (size_t i = 0; reports[i] && r == SQLITE_OK; i++) {
        struct module *m = calloc(1, sizeof(*m));
        if (!m)
            return SQLITE_NOMEM;
        m->report = reports[i];
        m->traces = traces_ref(traces);
        /* SQLite frees m also where this fails. */
        r = sqlite3_create_module_v2(db, report_table_names[i], &methods, m, module_free);
    }
    return r;
}
