/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a report for programs: units stay what they are. At most `top` rows (0: all). */
#pragma once

#include "base/json.h"
#include "client/transport/connection.h"
#include "trace/reports/report.h"

/* {"report": NAME, "trace": WHAT, "rows": [{...}]} */
json_t *report_to_json(const struct report *report, const char *trace, const struct report_rows *rows,
                       size_t top);
/* As CSV or TSV, the columns of --columns alone. Returns an exit status. */
int report_print_separated(struct client *c, const struct report *report, const struct report_rows *rows,
                           size_t top);
/* Whether a report has the columns of --columns; says which there are, and returns an exit status. */
int report_check_columns(struct client *c, const struct report *report);
