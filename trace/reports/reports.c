/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/reports.h"

#include "trace/reports/side_by_side.h"
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

static bool has_rows(const struct analysis *a, enum column_table table)
{
    for (size_t i = 0; i < a->n; i++)
        if (columns_rows(a->ranks[i].columns, table) > 0)
            return true;
    return false;
}

/* What of the needs is missing. */
static bool lacks(const struct report *report, const struct analysis *a)
{
    return (report->needs & NEEDS_GPU && !has_rows(a, TABLE_gpu)) ||
           (report->needs & NEEDS_RANKS && a->n < 2) ||
           (report->needs & NEEDS_OPS && !has_rows(a, TABLE_op)) ||
           (report->needs & NEEDS_MEMORY && !has_rows(a, TABLE_memory));
}

static int make_rows(const struct report *report, struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    if (report->make)
        return report->make(a, ret);
    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = report->make_rank(a, i, ret);
    return r;
}

int report_make(const struct report *report, struct analysis *a, struct report_rows *ret)
{
    report_rows_init(ret, report->n_columns);
    int r = lacks(report, a) ? -ENODATA : make_rows(report, a, ret);
    if (r >= 0)
        r = report_rows_error(ret);
    /* What was damaged read as absent: nothing that was computed from it may count. */
    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = columns_damage(a->ranks[i].columns) < 0 ? 0 : -EBADMSG;
    return r;
}

/* -- Several ------------------------------------------------------------------------------------------ */

struct making {
    struct made_report *made;
    struct analysis *analysis;
};

static int make_one(void *arg, size_t i)
{
    const struct making *m = arg;

    m->made[i].result = report_make(m->made[i].report, m->analysis, &m->made[i].rows);
    return 0;
}

void reports_make(struct made_report *made, size_t n, struct analysis *a)
{
    struct making making = {made, a};
    bool any_gpu = false;

    for (size_t i = 0; i < n; i++)
        any_gpu = any_gpu || (made[i].report->needs & NEEDS_GPU && !lacks(made[i].report, a));
    /* What fails here fails again where it is needed, and is told there. */
    if (any_gpu)
        analysis_read_gpu(a);
    side_by_side(n, make_one, &making);
}

void reports_done(struct made_report *made, size_t n)
{
    for (size_t i = 0; i < n; i++)
        report_rows_done(&made[i].rows);
}
