/* SPDX-License-Identifier: Apache-2.0 */
/* What a recipe's phases ask of profd. Pure; the caller owns what is returned. */
#pragma once

#include "client/recipe/recipe.h"

#define RECIPE_REQUESTS 128 /* srtctl's --num-prompts */

/* The load of a phase as a workload. */
json_t *phase_workload(const struct recipe *r, enum recipe_mode mode);
/* The members of a StartRequest that say what the phase records, under which load, and where it lands: in the
 * folder of the job's name (recipe_folder()). */
json_t *phase_request(const struct recipe *r, enum recipe_mode mode, const char *folder);
/* What is unusual about its steps, in one line; NULL: nothing. */
char *phase_doubt(const struct recipe *r, enum recipe_mode mode);
