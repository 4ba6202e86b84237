/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One screen about the time of a trace, or of all ranks of a session: its description, the GPU's time,
 * findings, the largest kernels, a comparison of ranks. All figures come from reports.
 */
#pragma once

#include "client/transport/connection.h"
#include "client/views/document.h"
#include "trace/reports/report.h"

/* 0, or a negative errno of a report. what: the name on the command line. */
int overview_print(struct client *c, struct analysis *a, const char *what, size_t top);
/* The findings under a heading, at most `top` of them (0: all), or the reason for their absence; made:
 * NULL without findings. */
void findings_add_section(struct document *d, const struct analysis *a, const struct made_report *made,
                          size_t top, bool is_short);
