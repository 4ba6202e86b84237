/* SPDX-License-Identifier: Apache-2.0 */
/* --goodput ttft:200ms,tpot:30ms,e2e:2s: what a request must keep to count as good. Pure. */
#pragma once

#include "base/json.h"
#include "base/problem.h"

/* As the "goodput" of a workload into *ret. */
int goals_parse(const char *text, json_t **ret, struct problem *p);
/* Whether a name is one of a goal. */
bool goal_is_known(const char *name);
