/* SPDX-License-Identifier: Apache-2.0 */
/* The report "findings" as cards of a page, and the style that they need. */
#pragma once

#include "trace/reports/analysis.h"
#include "trace/reports/report.h"

extern const char findings_html_style[];
/* What was seen, its cost as a bar, where, the evidence, and what to try. has_report: whether the page has a
 * section of that name, to which a card then leads. */
void findings_html_write(const struct made_report *findings, const struct analysis *a, size_t top,
                         bool (*has_report)(void *arg, const char *name), void *arg, FILE *out);
