/* SPDX-License-Identifier: Apache-2.0 */
/* What became of runs, as a verb says it at its end: text or JSON on stdout. */
#pragma once

#include "client/runs/sweep.h"
#include "client/transport/connection.h"

/* GET of "r3". An exit status. */
int run_get(struct client *c, const char *ref, json_t **ret);
/* Outcome and figures; or, with --json, the run. Returns the exit status of having waited for it. */
int run_show_result(struct client *c, const json_t *run);
/*
 * Several runs, in rounds of the sweep's values (NULL: all of one workload), as one table; with --json, as
 * one object {sweep, runs, knee, summary}. Of values with several runs, their mean and its 95 % interval.
 */
void runs_show_results(struct client *c, const struct sweep *sweep, const json_t *runs);
