/* SPDX-License-Identifier: Apache-2.0 */
/* A run, from its request to its end, with the live line of follow.h meanwhile. */
#pragma once

#include "client/text/source.h"

struct measured {
    json_t *run;      /* its last JSON; NULL: it never began, or nothing more can be learnt of it */
    bool was_stopped; /* by the user */
    bool was_left;    /* by the user: it goes on */
};

/* Begins a run (POST /v1/runs), says so, and sets *ret_answer, which names it. An exit status. */
int run_begin(struct client *c, const struct source *source, const json_t *request, json_t **ret_answer);
/* The same, then waits for its end. The run is the caller's with EXIT_DONE. */
int run_measure(struct client *c, const struct source *source, const json_t *request, struct measured *ret);
