/* SPDX-License-Identifier: Apache-2.0 */
/* The plan and the results of benchmark runs, as profctl bench prints them. */
#pragma once

#include "client/runs/plan.h"
#include "client/transport/connection.h"

/* Searches an earlier run to estimate a plan by, and prints the plan: with dry_run on stdout, else as a line
 * on stderr where it has several runs. Without profd, or without such a run, the estimate is missing. An exit
 * status. */
int run_plan_show(struct client *c, const json_t *request, bool dry_run, struct run_plan *plan);
/* Prints outcome and figures; or, with --json, the run. Returns the exit status of having waited for it. */
int run_show_result(struct client *c, const json_t *run);
/*
 * Prints several runs, in rounds of the sweep's values (NULL: all of one workload), as one table; with --json, as
 * one object {sweep, runs, knee, summary}. Of values with several runs, their mean and its 95 % interval.
 */
void runs_show_results(struct client *c, const struct sweep *sweep, const json_t *runs);
