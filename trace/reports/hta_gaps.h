/* SPDX-License-Identifier: Apache-2.0 */
/* The report gaps as Holistic Trace Analysis makes it, for comparison. */
#pragma once

#include "trace/reports/analysis.h"
#include "trace/reports/report_rows.h"

/* Rows of rank, stream, cause, count, sum_ns. A gap is what lies between two of a stream in order of their
 * beginnings: where they overlap it is below zero, and is summed up as such. -ENOMEM. */
int hta_gaps(struct analysis *a, struct report_rows *ret);
