/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All reports as one page for a browser or for paper: findings first, then the use of the GPUs over time, then
 * tables and a flame graph.
 */
#pragma once

#include "trace/reports/report.h"

struct report_page {
    const char *title;
    const struct made_report *reports; /* in this order; those without rows are left out */
    size_t n_reports, top;             /* rows of each; 0: all */
};

/* 0, or the errno of a report; whether writing failed is the caller's to see. */
int report_page_write(const struct report_page *page, struct analysis *a, FILE *out);
