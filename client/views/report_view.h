/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports as tables, documents and JSON. People get times in a unit that fits their column, sizes and
 * percentages; programs get the values in the units of the report's columns.
 *
 * top: rows at most, 0 for all. --columns must have been checked with report_check_columns().
 */
#pragma once

#include "base/json.h"
#include "client/cli/client.h"
#include "client/views/document.h"
#include "trace/reports/report.h"

/* Requirements of a report: "GPU activity, several ranks"; empty where there are none. The caller frees. */
char *report_needs_text(const struct report *report);

/* Whether a report has the columns of --columns; prints those that it has, and returns an exit status. */
int report_check_columns(struct client *c, const struct report *report);
/* As CSV or TSV. Returns an exit status. */
int report_print_separated(struct client *c, const struct report *report, const struct report_rows *rows,
                           size_t top);

/* All columns; for_people: with formatted cells, else with values alone. */
struct table *report_table(const struct report *report, const struct report_rows *rows, size_t top,
                           bool with_heading, bool for_people);

/* Adds a section: the table, and the number of further rows. names_hidden: a line below the table names the columns that
 * are left out. */
void report_add(struct document *d, struct client *c, const struct report *report,
                const struct report_rows *rows, size_t top, bool names_hidden);
/* The same for a report that was made; with several engine instances, a table for each. */
void report_add_made(struct document *d, struct client *c, const struct made_report *made, size_t top);
/* Prints one table for people. Returns whether columns were left out. */
bool report_print(struct client *c, const struct report *report, const struct report_rows *rows, size_t top);

/* Whether the rows are findings, which are sentences and no table. */
bool report_has_findings(const struct report *report);
/* Adds the findings, or the reason for their absence, which depends on whether any trace has GPU activity. is_short: with less about statements without a cost. made: NULL
 * without findings. */
void findings_add(struct document *d, bool has_gpu, const struct made_report *made, size_t top,
                  bool is_short);

/* A cell by the name of its column; without a value CELL_NULL, "" and NAN. */
const struct cell *made_report_cell(const struct made_report *made, size_t row, const char *column);
const char *made_report_text(const struct made_report *made, size_t row, const char *column);
double made_report_number(const struct made_report *made, size_t row, const char *column);
