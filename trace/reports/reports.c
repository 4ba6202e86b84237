/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/reports.h"

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
