/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/ranks/sum_tables.h"

#include "trace/export/merge_ranks.h"
#include "trace/parquet/rows.h"
#include "trace/reports/report.h"
#include "version.h"
#include <errno.h>

#define NS_PER_US 1000

struct sum_table {
    const char *name;
    const struct parquet_column *columns;
    size_t n_columns;
    /* Adds the rows of one trace; each begins with sum_put_trace(). */
    int (*add)(const struct export_trace *t, struct parquet_rows *rows, int64_t *n_rows);
};

/* -- What identifies the trace ------------------------------------------------------------------------------ */

/* A column keeps its id forever, and new ones are added at the end of each table. */
/* clang-format off */
#define TRACE_COLUMNS                                                                                        \
    {"catalog", 1, PARQUET_TEXT}, {"session", 2, PARQUET_TEXT}, {"trace", 3, PARQUET_TEXT},                  \
    {"host", 4, PARQUET_TEXT}, {"worker", 5, PARQUET_TEXT}, {"instance", 6, PARQUET_TEXT},                   \
    {"rank", 7, PARQUET_INT64}, {"trace_id", 8, PARQUET_INT64}, {"started_at", 9, PARQUET_MICROS}
/* clang-format on */
#define TRACE_COLUMNS_N 9

static void sum_put_number(struct parquet_rows *rows, size_t column, int64_t value)
{
    if (value != COLUMN_NULL)
        parquet_rows_set_number(rows, column, value);
}

/* The begin of the first slice in microseconds since 1970, rounded down; COLUMN_NULL: the trace does not have it. */
static int64_t sum_started_at(const struct columns *c)
{
    int64_t shift = align_wall_shift(c), ts = columns_get(c, COL_slice_ts, 0), at;

    if (shift == COLUMN_NULL || ts == COLUMN_NULL || __builtin_add_overflow(ts, shift, &at))
        return COLUMN_NULL;
    return at / NS_PER_US - (at % NS_PER_US < 0);
}

static void sum_put_trace(struct parquet_rows *rows, const struct export_trace *t, int64_t started_at)
{
    static const struct export_identity unknown = {.rank = COLUMN_NULL, .trace_id = COLUMN_NULL};
    const struct export_identity *id = t->identity ? t->identity : &unknown;
    const char *const texts[] = {id->catalog, id->session, id->trace, id->host, id->worker, id->instance};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        parquet_rows_set_string(rows, i, texts[i]);
    sum_put_number(rows, ARRAY_SIZE(texts), id->rank);
    sum_put_number(rows, ARRAY_SIZE(texts) + 1, id->trace_id);
    sum_put_number(rows, ARRAY_SIZE(texts) + 2, started_at);
}

/* -- kernel ------------------------------------------------------------------------------------------------- */

/* After those of the trace, columns of the report by their names. */
static const struct parquet_column kernel_columns[] = {
    TRACE_COLUMNS,
    {"name", 10, PARQUET_TEXT},
    {"category", 11, PARQUET_TEXT},
    {"count", 12, PARQUET_INT64},
    {"sum_ns", 13, PARQUET_INT64},
    {"min_ns", 14, PARQUET_INT64},
    {"max_ns", 15, PARQUET_INT64},
    {"p50_ns", 16, PARQUET_INT64},
    {"p99_ns", 17, PARQUET_INT64},
    {"mean_ns", 18, PARQUET_DOUBLE},
    {"std_ns", 19, PARQUET_DOUBLE},
    {"share", 20, PARQUET_DOUBLE},
};

static void kernel_put_cell(struct parquet_rows *rows, size_t column, const struct cell *cell)
{
    bool is_real = kernel_columns[column].type == PARQUET_DOUBLE;

    if (cell->type == CELL_TEXT && kernel_columns[column].type == PARQUET_TEXT)
        parquet_rows_set_string(rows, column, cell->text);
    else if (cell->type == CELL_INT && is_real)
        parquet_rows_set_real(rows, column, (double)cell->integer);
    else if (cell->type == CELL_REAL && is_real)
        parquet_rows_set_real(rows, column, cell->real);
    else if (cell->type == CELL_INT && kernel_columns[column].type == PARQUET_INT64)
        parquet_rows_set_number(rows, column, cell->integer);
}

static int kernel_add_rows(const struct export_trace *t, const struct report *report,
                           const struct report_rows *from, struct parquet_rows *rows)
{
    int64_t started_at = sum_started_at(t->columns);
    size_t of[ARRAY_SIZE(kernel_columns)];
    int r = 0;

    for (size_t i = TRACE_COLUMNS_N; i < ARRAY_SIZE(kernel_columns); i++)
        of[i] = report_column_find(report, kernel_columns[i].name);
    for (size_t row = 0; row < report_rows_count(from) && r == 0; row++) {
        sum_put_trace(rows, t, started_at);
        for (size_t i = TRACE_COLUMNS_N; i < ARRAY_SIZE(kernel_columns); i++)
            if (of[i] < report->n_columns)
                kernel_put_cell(rows, i, report_rows_at(from, row, of[i]));
        r = parquet_rows_end_row(rows);
    }
    return r;
}

static int kernel_add(const struct export_trace *t, struct parquet_rows *rows, int64_t *n_rows)
{
    const struct report *report = report_find("kernels");
    struct rank rank = {.columns = t->columns, .label = ""};
    struct analysis a = {.ranks = &rank, .n = 1, .view = VIEW_ALL};
    struct report_rows made;

    int r = report_make(report, &a, &made);
    if (r >= 0) {
        *n_rows += (int64_t)report_rows_count(&made);
        r = kernel_add_rows(t, report, &made, rows);
    }
    report_rows_done(&made);
    analysis_done(&a);
    return r == -ENODATA ? 0 : r;
}

/* -- name --------------------------------------------------------------------------------------------------- */

static const struct parquet_column name_columns[] = {
    TRACE_COLUMNS,
    {"category", 10, PARQUET_TEXT},
    {"name", 11, PARQUET_TEXT},
    {"count", 12, PARQUET_INT64},
    {"sum_ns", 13, PARQUET_INT64},
    {"min_ns", 14, PARQUET_INT64},
    {"max_ns", 15, PARQUET_INT64},
};

static const enum column name_values[] = {COL_name_category, COL_name_name, COL_name_count,
                                          COL_name_sum,      COL_name_min,  COL_name_max};

static int name_add(const struct export_trace *t, struct parquet_rows *rows, int64_t *n_rows)
{
    int64_t started_at = sum_started_at(t->columns);
    uint64_t n = columns_rows(t->columns, TABLE_name);
    int r = 0;

    for (uint64_t row = 0; row < n && r == 0; row++) {
        sum_put_trace(rows, t, started_at);
        for (size_t i = 0; i < ARRAY_SIZE(name_values); i++) {
            int64_t value = columns_get(t->columns, name_values[i], row);
            struct text text = columns_text(t->columns, value);
            if (column_specs[name_values[i]].kind != KIND_TEXT)
                sum_put_number(rows, TRACE_COLUMNS_N + i, value);
            else if (value != COLUMN_NULL)
                parquet_rows_set_text(rows, TRACE_COLUMNS_N + i, text.p, text.size);
        }
        r = parquet_rows_end_row(rows);
    }
    *n_rows += (int64_t)n;
    return r;
}

/* ----------------------------------------------------------------------------------------------------------- */

static const struct sum_table sum_tables[] = {
    {"kernel", kernel_columns, ARRAY_SIZE(kernel_columns), kernel_add},
    {"name", name_columns, ARRAY_SIZE(name_columns), name_add},
};

const struct sum_table *sum_table_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(sum_tables); i++)
        if (streq(sum_tables[i].name, name))
            return &sum_tables[i];
    return NULL;
}

int sum_table_write(const struct sum_table *table, const struct export_trace *traces, size_t n, FILE *out,
                    int64_t *ret_rows)
{
    const struct parquet_fact facts[] = {{"profd.table", table->name}, {"profd.schema", "1"}};
    const struct parquet_schema schema = {.columns = table->columns,
                                          .n_columns = table->n_columns,
                                          .facts = facts,
                                          .n_facts = ARRAY_SIZE(facts),
                                          .created_by = "profd version " PROFD_VERSION};
    _cleanup_(parquet_rows_freep) struct parquet_rows *rows = NULL;
    int64_t n_rows = 0;
    int r = parquet_rows_new(&schema, parquet_file_sink, out, &rows);

    for (size_t i = 0; i < n && r == 0; i++)
        r = table->add(&traces[i], rows, &n_rows);
    if (r == 0)
        r = parquet_rows_finish(rows);
    if (ret_rows)
        *ret_rows = n_rows;
    return export_outcome(r, traces, n, out);
}
