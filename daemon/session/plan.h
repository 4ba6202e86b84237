/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a fleet and a request to the workers that will be recorded, those that will not and why, and what must
 * be said beforehand. Pure: no calls, no catalog.
 */
#pragma once

#include "daemon/session/request.h"

struct plan {
    size_t *chosen; /* indexes into fleet->workers, in fleet order */
    size_t n_chosen;
    json_t *skipped; /* array of {worker, reason, remedy} */
    json_t *remarks; /* array of {refuses, option, worker, text, remedy} */
};

/* -EINVAL with a problem where nothing is left, where an engine cannot honour an option, with require_all
 * any is lost, or nothing could be collected. */
int plan_make(const struct fleet *fleet, const struct start_request *request, struct plan *ret,
              struct problem *p);
void plan_done(struct plan *plan);
/* Whether the request's role and URLs are this worker's. */
bool plan_is_asked_for(const struct start_request *request, const struct worker *w);
