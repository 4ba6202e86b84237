/* SPDX-License-Identifier: Apache-2.0 */
/* A recipe carried out: its phases one after another, each recorded under its load. */
#pragma once

#include "client/recipe/recipe.h"
#include "client/text/source.h"

struct recipe_order {
    const struct source *source;
    const json_t *labels; /* an object, may be NULL */
    const char *job_id;
};

/* The worst of the phases' exit statuses; one that failed is the last. */
int recipe_record(struct client *c, const struct recipe *r, const struct recipe_order *o);
