/* SPDX-License-Identifier: Apache-2.0 */
/* Whether profd can do its work: take sessions, and what they write. */
#pragma once

#include "base/problem.h"

struct api;

struct ready_check {
    const char *name;
    int (*run)(struct api *api, struct problem *p); /* 0, or why not */
};
extern const struct ready_check ready_checks[]; /* ends with an empty one */

int ready_check_store(struct api *api, struct problem *p);
