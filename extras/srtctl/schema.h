/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a recipe and the types of their values. Pure. */
#pragma once

#include "extras/srtctl/recipe.h"

/*
 * 0, or -EINVAL with the first key that srtctl does not have, or whose value has another type, with its place
 * and a suggestion. old: a recipe whose load is in profiling or its phases, as until January 2026; it has
 * more keys, and its types are taken more freely.
 */
int recipe_check_schema(const struct recipe *r, bool old, struct problem *p);
