/* SPDX-License-Identifier: Apache-2.0 */
/* What srtctl itself demands of a job that profiles, in its own words, with the line and what to do. Pure. */
#pragma once

#include "client/recipe/recipe.h"

/* 0, or -EINVAL with the first rule that is broken. With any_workers the rule of one worker a role, which
 * profd does not need, is lifted. */
int recipe_check(const struct recipe *r, bool any_workers, struct problem *p);
