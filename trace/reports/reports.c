/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/reports.h"

#include <errno.h>

/* In the order in which people read them. */
const struct report *const reports[] = {
    &report_summary,
    &report_temporal,
    &report_kernels,
    &report_steps,
    &report_layers,
    &report_memory,
    &report_memory_holders,
    &report_memory_timeline,
    &report_roofline,
    &report_nvtx,
    &report_functions,
    &report_ort,
    &report_cuda_gpu_kern_sum,
    &report_cuda_gpu_mem_time_sum,
    &report_cuda_gpu_mem_size_sum,
    &report_cuda_api_sum,
    &report_nvtx_sum,
    &report_osrt_sum,
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

int report_make(const struct report *report, struct analysis *a, struct report_rows *ret)
{
    report_rows_init(ret, report->n_columns);
    int r = lacks(report, a) ? -ENODATA : report->make(a, ret);
    return r < 0 ? r : report_rows_error(ret);
}
