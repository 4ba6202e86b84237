/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a report for people: units become readable (milliseconds, MiB, percent). */
#pragma once

#include "client/transport/connection.h"
#include "trace/reports/report.h"

enum report_hint {
    REPORT_NAMES_HIDDEN, /* a line below the table names the columns that are left out */
    REPORT_IS_SILENT,
};

/* A table under its title; at most `top` rows (0: all), and how many more there are. --columns must have been
 * checked (report_check_columns()). Returns whether columns were left out. */
bool report_print_text(struct client *c, const struct report *report, const struct report_rows *rows,
                       size_t top, enum report_hint hint);
/* The same of a report that was made; of several engine instances a table for each. */
void report_print_made(struct client *c, const struct made_report *made, size_t top);
