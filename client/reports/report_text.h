/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a report for people: units become readable (milliseconds, MiB, percent). */
#pragma once

#include "client/verb.h"
#include "trace/reports/report.h"

/* A table under its title; at most `top` rows (0: all), and how many more there are. */
void report_print_text(struct client *c, const struct report *report, const struct report_rows *rows,
                       size_t top);
