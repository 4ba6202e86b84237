/* SPDX-License-Identifier: Apache-2.0 */
/* What a recipe's phases ask of profd. Pure; the caller owns what is returned. */
#pragma once

#include "extras/srtctl/recipe.h"

#define RECIPE_REQUESTS 128 /* srtctl's --num-prompts */

/* The load of a phase as a workload. */
json_t *phase_workload(const struct recipe *r, enum recipe_mode mode);
/*
 * The members of a StartRequest for some phases (bits 1 << mode) under the load of the first of them: the
 * workers of each role record its steps, counted from the beginning of the load, and their traces are found
 * in the folder of the job's name (recipe_folder()). The load ends when they are complete.
 */
json_t *phases_request(const struct recipe *r, unsigned modes, const char *folder);
bool phases_share_load(const struct recipe *r);
/* What is unusual about its steps, in one line; NULL: nothing. */
char *phase_doubt(const struct recipe *r, enum recipe_mode mode);
