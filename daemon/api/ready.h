/* SPDX-License-Identifier: Apache-2.0 */
/* Whether profd can do its work: take sessions, and what they write. */
#pragma once

#include "base/problem.h"

struct door;

struct ready_check {
    const char *name;
    int (*run)(struct door *d, struct problem *p); /* 0, or why not */
};
extern const struct ready_check ready_checks[]; /* ends with an empty one */

int ready_check_store(struct door *d, struct problem *p);
