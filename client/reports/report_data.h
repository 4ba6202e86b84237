/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a report for programs: units stay what they are. At most `top` rows (0: all). */
#pragma once

#include "base/json.h"
#include "trace/reports/report.h"

/* {"report": NAME, "trace": WHAT, "rows": [{...}]} */
json_t *report_to_json(const struct report *report, const char *trace, const struct report_rows *rows,
                       size_t top);
/* With a heading (RFC 4180). */
void report_print_csv(FILE *out, const struct report *report, const struct report_rows *rows, size_t top);
