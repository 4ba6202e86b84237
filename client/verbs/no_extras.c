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

const struct extra_session extra_sessions[] = {{NULL, NULL}};
const struct import_converter *const extra_converter = NULL;

/* start --recipe */
struct recipe_values {
    const char *recipe;
};

static const struct option_def recipe_options[] = {
    OPTION_GROUP("Load"),
    {"recipe", 0, "FILE", OPTION_TEXT, offsetof(struct recipe_values, recipe),
     "Not in this build (-Dextras=true adds it)"},
};

static bool recipe_applies(const void *values)
{
    const struct recipe_values *o = values;
    return o->recipe;
}

static int recipe_refuse(struct client *c, const void *values, const void *verb_values)
{
    return extra_not_built(c, "--recipe", "extras");
}

static const struct verb_extension recipe = {
    &verb_start,    recipe_options, ARRAY_SIZE(recipe_options), sizeof(struct recipe_values),
    recipe_applies, recipe_refuse};
const struct verb_extension *const extra_extensions[] = {&recipe, NULL};
