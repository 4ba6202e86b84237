/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a report, for people and for programs. Units become readable in text (milliseconds, MiB,
 * percent) and stay what they are everywhere else.
 */
#pragma once

#include "client/verb.h"
#include "trace/reports/report.h"

/* A table under its title; at most `top` rows (0: all), and how many more there are. */
void report_print_text(struct client *c, const struct report *report, const struct report_rows *rows,
                       size_t top);
/* {"report": NAME, "trace": WHAT, "rows": [{...}]} */
json_t *report_to_json(const struct report *report, const char *trace, const struct report_rows *rows,
                       size_t top);
/* With a heading (RFC 4180). */
void report_print_csv(FILE *out, const struct report *report, const struct report_rows *rows, size_t top);
