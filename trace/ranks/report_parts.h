/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports as JSON between processes and hosts: {report, columns: [NAME], rows: [[CELL]]}, which is also the reply of
 * GET /v1/traces/{trace}/reports/{report}. Numbers, texts and null are the types of cells, so nothing is lost.
 */
#pragma once

#include "base/json.h"
#include "trace/reports/report.h"
#include <stdio.h>

/* Writes the members, without the braces around them. top: rows at most, 0 for all. */
void report_part_write(FILE *out, const struct report *report, const struct report_rows *rows, size_t top);
/* A text, number or null as JSON. */
void report_part_write_cell(FILE *out, const struct cell *cell);
/* Adds the rows of a part to ret, after lead (NULL: nothing) in each. Cells follow their names, so that another version
 * may know other columns: what the part lacks has no value. -EBADMSG where it is none of this report. */
int report_part_read(const json_t *part, const struct report *report, const char *lead,
                     struct report_rows *ret);
