/* SPDX-License-Identifier: Apache-2.0 */
/* A run, from its request to its end, with the live line of follow.h meanwhile. */
#pragma once

#include "client/local/worker_options.h"
#include "client/runs/run_plan.h"

struct measured {
    json_t *run;      /* its last JSON; NULL: it never began, or nothing more can be learnt of it */
    bool was_stopped; /* by the user */
    bool was_left;    /* by the user: it goes on */
};

/* Looks for an earlier run to estimate a plan by, and prints the plan: with dry_run on stdout, else as a line
 * on stderr where it has several runs. Without profd, or without such a run, the estimate is missing. An exit
 * status. */
int run_plan_show(struct client *c, const json_t *request, bool dry_run, struct run_plan *plan);
/* Begins a run (POST /v1/runs), says so, and sets *ret_answer, which names it. An exit status. */
int run_begin(struct client *c, const struct source *source, const json_t *request, json_t **ret_answer);
/* The same, then waits for its end. The run is the caller's with EXIT_DONE. */
int run_measure(struct client *c, const struct source *source, const json_t *request, struct measured *ret);
