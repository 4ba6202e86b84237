/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one screen that says what a trace, or all ranks of a session, spent its time on: what it is, the GPU's
 * time, findings, the largest kernels, the ranks side by side. All figures come from reports.
 */
#pragma once

#include "client/transport/connection.h"
#include "trace/reports/report.h"

/* 0, or a negative errno of a report. what: as it was named on the command line. */
int overview_print(struct client *c, struct analysis *a, const char *what, size_t top);
/* What is wrong, in sentences, as on that screen; at most `top` of them (0: all). findings: NULL where there
 * are none. */
void findings_print(struct client *c, const struct analysis *a, const struct made_report *findings,
                    size_t top);
