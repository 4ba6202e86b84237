/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/report.h"

#include "trace/reports/aggregation.h"
#include "trace/reports/parallel.h"
#include <errno.h>

const struct report *const reports[] = {
#define R(report) &report_##report,
    REPORTS(R)
#undef R
        NULL,
};

const char *const report_table_names[] = {
#define R(report) "report_" #report,
    REPORTS(R)
#undef R
        NULL,
};

const struct report *report_find(const char *name)
{
    for (const struct report *const *r = reports; *r; r++)
        if (strcmp((*r)->name, name) == 0)
            return *r;
    return NULL;
}

static bool report_has_rows(const struct analysis *a, enum column_table table)
{
    for (size_t i = 0; i < a->n; i++)
        if (columns_rows(a->ranks[i].columns, table) > 0)
            return true;
    return false;
}

/* What of the needs is missing. */
static bool report_lacks(const struct report *report, const struct analysis *a)
{
    return (report->needs & NEEDS_GPU && !report_has_rows(a, TABLE_gpu)) ||
           (report->needs & NEEDS_RANKS && a->n < 2) ||
           (report->needs & NEEDS_OPS && !report_has_rows(a, TABLE_op)) ||
           (report->needs & NEEDS_MEMORY && !report_has_rows(a, TABLE_memory));
}

static int report_make_rows(const struct report *report, struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    if (report->aggregation)
        return aggregation_make(report, a, ret);
    if (report->make)
        return report->make(a, ret);
    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = report->make_rank(a, i, ret);
    return r;
}

size_t report_column_find(const struct report *report, const char *name)
{
    size_t i = 0;

    while (i < report->n_columns && strcmp(report->columns[i].name, name) != 0)
        i++;
    return i;
}

int report_make(const struct report *report, struct analysis *a, struct report_rows *ret)
{
    report_rows_init(ret, report->n_columns);
    int r = report_lacks(report, a) ? -ENODATA : report_make_rows(report, a, ret);
    if (r >= 0)
        r = report_rows_error(ret);
    if (r >= 0 && report->needs_rows && report_rows_count(ret) == 0)
        r = -ENODATA;
    if (r >= 0 && report->sort_by)
        r = report_rows_sort(ret, report_column_find(report, report->sort_by), true);
    /* What was damaged read as absent: nothing that was computed from it may count. */
    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = columns_damage(a->ranks[i].columns) < 0 ? 0 : -EBADMSG;
    return r;
}

/* -- Of several instances ----------------------------------------------------------------------------- */

/* A report's description with one column more. */
struct report_of_instances {
    struct report report;
    struct report_column columns[];
};

static struct report_of_instances *describe_with_instance(const struct report *report)
{
    struct report_of_instances *ret =
        malloc(sizeof(*ret) + (report->n_columns + 1) * sizeof(ret->columns[0]));

    if (!ret)
        return NULL;
    ret->report = *report;
    ret->columns[0] = (struct report_column){
        .name = REPORT_INSTANCE, .meaning = "engine instance of the row", .is_identity = true};
    memcpy(ret->columns + 1, report->columns, report->n_columns * sizeof(ret->columns[0]));
    ret->report.columns = ret->columns;
    ret->report.n_columns++;
    return ret;
}

static void append_rows(struct report_rows *ret, const char *instance, const struct report_rows *rows)
{
    for (size_t row = 0; row < report_rows_count(rows); row++) {
        emit_str(ret, instance);
        for (size_t i = 0; i < rows->n_columns; i++)
            emit_copy(ret, report_rows_at(rows, row, i));
    }
}

static int begin_of_instances(struct made_report *made)
{
    report_rows_init(&made->rows, made->report->n_columns + 1);
    made->described = describe_with_instance(made->report);
    if (!made->described)
        return -ENOMEM;
    made->report = &made->described->report;
    return 0;
}

static int order_of_instances(struct made_report *made)
{
    int r = report_rows_error(&made->rows);

    return r >= 0 && made->report->order
               ? report_rows_sort(&made->rows, report_column_find(made->report, made->report->order), true)
               : r;
}

/* What one instance has nothing of is left to the others. */
static int make_of_instances(struct made_report *made, struct analysis *a)
{
    const struct report *report = made->report;
    bool any = false;
    int r = begin_of_instances(made);

    for (size_t i = 0; i < a->n_instances && r >= 0; i++) {
        struct analysis one = analysis_of_instance(a, i);
        struct report_rows rows;
        r = report_make(report, &one, &rows);
        any = any || r >= 0;
        if (r >= 0)
            append_rows(&made->rows, a->instances[i].name, &rows);
        report_rows_done(&rows);
        r = r == -ENODATA ? 0 : r;
    }
    if (r >= 0)
        r = order_of_instances(made);
    return r < 0 ? r : any ? 0 : -ENODATA;
}

int made_report_begin(struct made_report *made, size_t n_instances)
{
    if (n_instances > 1 && !made->report->of_instances)
        return begin_of_instances(made);
    report_rows_init(&made->rows, made->report->n_columns);
    return 0;
}

void made_report_end(struct made_report *made)
{
    if (made->result >= 0)
        made->result = made->described ? order_of_instances(made) : report_rows_error(&made->rows);
}

bool made_report_part(const struct made_report *made, size_t *at, struct report_rows *ret)
{
    size_t all = report_rows_count(&made->rows), from = *at, to = from;
    bool is_one_list = !made->described || made->report->order;

    if (from > all || (from == all && (from > 0 || !is_one_list)))
        return false;
    for (to = is_one_list ? all : from + 1; to < all; to++)
        if (strcmp(report_rows_at(&made->rows, to, 0)->text, report_rows_at(&made->rows, from, 0)->text) != 0)
            break;
    *ret = (struct report_rows){.n_columns = made->rows.n_columns,
                                .cells = made->rows.cells + from * made->rows.n_columns,
                                .n_cells = (to - from) * made->rows.n_columns};
    *at = to > 0 ? to : 1;
    return true;
}

/* -- Several ------------------------------------------------------------------------------------------ */

struct making {
    struct made_report *made;
    struct analysis *analysis;
};

static int make_one(void *arg, size_t i)
{
    struct making *m = arg;
    struct made_report *made = &m->made[i];

    made->result = m->analysis->n_instances > 1 && !made->report->of_instances
                       ? make_of_instances(made, m->analysis)
                       : report_make(made->report, m->analysis, &made->rows);
    return 0;
}

void reports_make(struct made_report *made, size_t n, struct analysis *a)
{
    struct making making = {made, a};
    bool any_gpu = false;

    for (size_t i = 0; i < n; i++)
        any_gpu = any_gpu || (made[i].report->needs & NEEDS_GPU && !report_lacks(made[i].report, a));
    /* What fails here fails again where it is needed, and is reported there. */
    if (any_gpu)
        analysis_read_all(a);
    parallel_each(n, make_one, &making);
}

void reports_done(struct made_report *made, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        report_rows_done(&made[i].rows);
        free(made[i].described);
    }
}
