/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of extras.h in a build without extras. */
#include "client/verbs/extras.h"

const struct extra_verb extra_verbs[] = {{0}};
const size_t n_extra_verbs = 0;

const char *const verbs_not_built[] = {"audit",        "check-recipe",  "functions", "launch",
                                       "nsys-command", "torch-command", NULL};

int (*const extra_recipe_record)(struct client *c, const struct recipe_options *o) = NULL;
const struct import_converter *const extra_converter = NULL;
