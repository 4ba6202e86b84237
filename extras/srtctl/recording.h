/* SPDX-License-Identifier: Apache-2.0 */
/* A recipe carried out: its phases under one load, or one after another where each has a load of its own. */
#pragma once

#include "client/verbs/extras.h"
#include "extras/srtctl/recipe.h"

/* Carries out the recipe of a file (client/verbs/extras.h). */
int recipe_record_file(struct client *c, const struct recipe_options *o);
