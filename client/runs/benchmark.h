/* SPDX-License-Identifier: Apache-2.0 */
/* Benchmark runs from their request to their result: started, followed with a live line, printed. */
#pragma once

#include "client/local/worker_options.h"
#include "client/runs/plan.h"
#include "client/transport/connection.h"

/* GET of "r3". An exit status. */
int run_get(struct client *c, const char *ref, json_t **ret);

/* Searches an earlier run to estimate a plan by, and prints the plan: with dry_run on stdout, else as a line
 * on stderr where it has several runs. Without profd, or without such a run, the estimate is missing. An exit
 * status. */
int run_plan_show(struct client *c, const json_t *request, bool dry_run, struct run_plan *plan);
/* Starts a run (POST /v1/runs), prints its id, and sets *ret_run to the response. An exit status. */
int run_begin(struct client *c, const struct source *source, const json_t *request, json_t **ret_run);

struct measured {
    json_t *run;      /* its last JSON; NULL: it never began, or cannot be read any more */
    bool was_stopped; /* by the user */
    bool was_left;    /* by the user: it continues in profd */
};

/* The same, then waits for its end. The run is the caller's with EXIT_DONE. */
int run_measure(struct client *c, const struct source *source, const json_t *request, struct measured *ret);

/* Prints outcome and figures; or, with --json, the run. Returns the exit status of having waited for it. */
int run_show_result(struct client *c, const json_t *run);
/*
 * Prints several runs, in rounds of the sweep's values (NULL: all of one workload), as one table; with --json, as
 * one object {sweep, runs, knee, summary}. Of values with several runs, their mean and its 95 % interval.
 */
void runs_show_results(struct client *c, const struct sweep *sweep, const json_t *runs);
