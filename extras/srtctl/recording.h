/* SPDX-License-Identifier: Apache-2.0 */
/* A recipe carried out: its phases under one load, or one after another where each has a load of its own. */
#pragma once

#include "client/local/worker_options.h"
#include "extras/srtctl/recipe.h"

struct recipe_order {
    const struct source *source;
    const json_t *labels; /* an object, may be NULL */
    const char *job_id;
    bool allow_uncollected;
};

/* The worst of the phases' exit statuses; one that failed is the last. */
int recipe_record(struct client *c, const struct recipe *r, const struct recipe_order *o);
