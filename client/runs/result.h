/* SPDX-License-Identifier: Apache-2.0 */
/* What became of runs, as a verb says it at its end: text or JSON on stdout. */
#pragma once

#include "client/runs/sweep.h"
#include "client/verb.h"

/* GET of "r3". An exit status. */
int run_get(struct client *c, const char *ref, json_t **ret);
/* Outcome and figures; or, with --json, the run. Returns the exit status of having waited for it. */
int run_show_result(struct client *c, const json_t *run);
/* The runs of a sweep, a list in its order, as one table with their knee; or, with --json, as one object. */
void sweep_show_result(struct client *c, const struct sweep *sweep, const json_t *runs);
