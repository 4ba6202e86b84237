/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of extras.h in a build without extras. */
#include "client/verbs/extras.h"

const struct extra_verb extra_verbs[] = {{0}};
const size_t n_extra_verbs = 0;

const struct verb_not_built verbs_not_built[] = {
    {"audit", "extras"},  {"check-recipe", "extras"}, {"functions", "extras"},
    {"launch", "extras"}, {"nsys-command", "extras"}, {"torch-command", "extras"},
    {NULL, NULL},
};

int (*const extra_recipe_record)(struct client *c, const struct recipe_options *o) = NULL;
const struct import_converter *const extra_converter = NULL;
