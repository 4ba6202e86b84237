/* SPDX-License-Identifier: Apache-2.0 */
/* What srtctl itself demands of a job that profiles, in its own words, with the line and what to do. Pure. */
#pragma once

#include "extras/srtctl/recipe.h"

/* 0, or -EINVAL with the first rule that is broken and not lifted (RECIPE_ANY_...). */
int recipe_check(const struct recipe *r, unsigned lifted, struct problem *p);
