/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All reports as one file for a browser or for paper: findings first, then the use of the GPUs over time,
 * then tables. It needs no network, no script for reading, and shows no markup of a trace as its own.
 */
#pragma once

#include "trace/reports/report.h"

struct html_report {
    const char *title;
    const struct made_report *reports; /* in this order; those with nothing to say are left out */
    size_t n_reports, top;             /* rows of each; 0: all */
};

/* 0, or the errno of a report; whether writing failed is the caller's to see. */
int report_html_write(const struct html_report *page, struct analysis *a, FILE *out);
