/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/report.h"
#include "trace/sql/plan.h"
#include "trace/sql/virtual_tables.h"
#include <errno.h>

/* idxNum, from xBestIndex to xFilter. */
enum { ALL_TRACES, ONE_TRACE };
/* Rows of a report, for SQLite's planner. */
#define ROWS_ESTIMATE   100
#define TRACES_ESTIMATE 1000

struct report_cursor {
    sqlite3_vtab_cursor base;
    int64_t *ids;
    size_t n_ids, next_id;
    int64_t id; /* of the trace whose rows these are */
    struct report_rows rows;
    size_t row;
    sqlite3_int64 n_before; /* rows of the traces before it */
};

static const struct report *report_of(const struct report_cursor *c)
{
    return ((const struct vtab *)c->base.pVtab)->spec;
}

static struct traces *report_traces(const struct report_cursor *c)
{
    return ((const struct vtab *)c->base.pVtab)->traces;
}

static const char *unit_sql_type(enum report_unit unit)
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

/* A report with a column for the rank keeps it. */
static bool has_rank(const struct report *report)
{
    for (size_t i = 0; i < report->n_columns; i++)
        if (streq(report->columns[i].name, "rank") || streq(report->columns[i].name, "worker"))
            return true;
    return false;
}

static int report_table_declare(sqlite3 *db, const void *spec, const struct traces *traces)
{
    const struct report *report = spec;
    sqlite3_str *s = sqlite3_str_new(db);

    sqlite3_str_appendall(s, "create table x(");
    for (size_t i = 0; i < report->n_columns; i++)
        sqlite3_str_appendf(s, "%s\"%s\" %s", i > 0 ? ", " : "", report->columns[i].name,
                            unit_sql_type(report->columns[i].unit));
    sqlite3_str_appendf(
        s, "%s)", traces_are_one(traces) && has_rank(report) ? ", trace_id integer" : traces_columns(traces));
    return vtab_declare(db, s);
}

static int report_table_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    const struct report *report = ((const struct vtab *)vtab)->spec;

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

static int report_table_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
    struct report_cursor *c = calloc(1, sizeof(*c));

    if (!c)
        return SQLITE_NOMEM;
    *ret = &c->base;
    return SQLITE_OK;
}

static int report_table_close(sqlite3_vtab_cursor *cursor)
{
    struct report_cursor *c = (struct report_cursor *)cursor;

    report_rows_done(&c->rows);
    free(c->ids);
    free(c);
    return SQLITE_OK;
}

static int report_cursor_make_rows(struct report_cursor *c, struct trace *trace)
{
    int64_t number = columns_meta(trace->columns, META_rank);
    struct rank rank = {.columns = trace->columns, .label = "", .number = number == COLUMN_NULL ? 0 : number};
    struct analysis a = {.ranks = &rank, .n = 1, .view = VIEW_ALL};

    report_rows_done(&c->rows);
    int r = report_make(report_of(c), &a, &c->rows);
    analysis_done(&a);
    if (r == -ENODATA) {
        report_rows_done(&c->rows);
        return SQLITE_OK;
    }
    if (r < 0)
        return vtab_fail(c->base.pVtab, r, trace_damage(trace));
    return SQLITE_OK;
}

/* Advances to the first row of the next trace that has rows. */
static int report_cursor_next_trace(struct report_cursor *c)
{
    int r = SQLITE_OK;

    while (r == SQLITE_OK && c->row == report_rows_count(&c->rows) && c->next_id < c->n_ids) {
        struct trace *trace;
        char *error = NULL;

        c->n_before += (sqlite3_int64)c->row;
        c->row = 0;
        c->id = c->ids[c->next_id++];
        int failed = traces_get(report_traces(c), c->id, &trace, &error);
        if (failed < 0)
            return vtab_fail(c->base.pVtab, failed, error);
        r = trace_look(trace) ? SQLITE_INTERRUPT : report_cursor_make_rows(c, trace);
        traces_put(report_traces(c), trace);
    }
    return r;
}

static int report_table_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int n,
                               sqlite3_value **values)
{
    struct report_cursor *c = (struct report_cursor *)cursor;
    struct range ids = {INT64_MIN, INT64_MAX};
    char *error = NULL;

    report_rows_done(&c->rows);
    free(TAKE_PTR(c->ids));
    c->n_ids = c->next_id = c->row = 0;
    c->n_before = 0;
    if (number == ONE_TRACE)
        range_narrow_trace(&ids, SQLITE_INDEX_CONSTRAINT_EQ, values[0]);
    int r = traces_within(report_traces(c), ids.min, ids.max, &c->ids, &c->n_ids, &error);
    return r < 0 ? vtab_fail(cursor->pVtab, r, error) : report_cursor_next_trace(c);
}

static int report_table_next(sqlite3_vtab_cursor *cursor)
{
    struct report_cursor *c = (struct report_cursor *)cursor;

    c->row++;
    return report_cursor_next_trace(c);
}

static int report_table_eof(sqlite3_vtab_cursor *cursor)
{
    struct report_cursor *c = (struct report_cursor *)cursor;

    return c->row == report_rows_count(&c->rows);
}

static int report_table_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret)
{
    struct report_cursor *c = (struct report_cursor *)cursor;

    *ret = c->n_before + (sqlite3_int64)c->row;
    return SQLITE_OK;
}

static int report_table_column(sqlite3_vtab_cursor *cursor, sqlite3_context *ctx, int i)
{
    struct report_cursor *c = (struct report_cursor *)cursor;

    if (i >= (int)report_of(c)->n_columns) {
        traces_result(report_traces(c), c->id, i - (int)report_of(c)->n_columns, ctx);
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

static const sqlite3_module report_table_methods = {
    .iVersion = 1,
    .xConnect = vtab_connect,
    .xBestIndex = report_table_best_index,
    .xDisconnect = vtab_disconnect,
    .xOpen = report_table_open,
    .xClose = report_table_close,
    .xFilter = report_table_filter,
    .xNext = report_table_next,
    .xEof = report_table_eof,
    .xColumn = report_table_column,
    .xRowid = report_table_rowid,
};

int report_tables_register(sqlite3 *db, struct traces *traces)
{
    int r = SQLITE_OK;

    for (size_t i = 0; reports[i] && r == SQLITE_OK; i++)
        r = vtab_register(db, report_table_names[i], &report_table_methods, reports[i], report_table_declare,
                          traces);
    return r;
}
