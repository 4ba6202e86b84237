/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a fleet and a request to who is sent requests, who is warmed up, and whose figures are watched. Pure:
 * no calls, no catalog.
 */
#pragma once

#include "daemon/session/request.h"

/* Arrays of {url, engine, pid}, as the order of profd-load has them. */
struct run_plan {
    json_t *targets;
    json_t *warm;
    json_t *workers;
    char *first; /* URL of a worker, or of the router: whose credentials are shown */
};

/*
 * The fleet's workers that a run is about: those of the request's role, URLs and count that are healthy.
 * Indexes into fleet->workers; the caller frees them. -EINVAL with a problem where there is none.
 */
int run_choose(const struct fleet *fleet, const struct start_request *request, size_t **ret, size_t *ret_n,
               struct problem *p);
/* -EINVAL with a problem where they cannot be sent requests as the request wants it. */
int run_plan_make(const struct fleet *fleet, const struct start_request *request, const size_t *chosen,
                  size_t n_chosen, struct run_plan *ret, struct problem *p);
void run_plan_done(struct run_plan *plan);
