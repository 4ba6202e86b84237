/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What optional modules (extras/) add to profctl: verbs, recordings by recipe, converters of files. They define these
 * tables in extras/client.c; no_extras.c defines empty ones for a build with -Dextras=false.
 */
#pragma once

#include "client/local/worker_options.h"
#include "client/verbs/verbs.h"

/* A verb at the end of its group in `profctl help`. */
struct extra_verb {
    const char *group;
    struct verb_entry entry;
};
extern const struct extra_verb extra_verbs[];
extern const size_t n_extra_verbs;
/* Verbs that this build lacks, with the option that adds them; at the end one without a name. */
struct verb_not_built {
    const char *name, *option;
};
extern const struct verb_not_built verbs_not_built[];

/* profctl start --recipe: all borrowed. */
struct recipe_options {
    const char *file, *variant, *job_id; /* variant, job_id may be NULL */
    bool any_workers;                    /* any number of workers for each role */
    bool allow_uncollected;
    const struct source *source;
    const json_t *labels; /* an object, may be NULL */
};
/* Records the phases of a recipe, and returns the exit status. NULL: not built. */
extern int (*const extra_recipe_record)(struct client *c, const struct recipe_options *o);

/* Files that profctl ingest makes readable before profd imports them. */
struct import_converter {
    bool (*accepts)(const char *path);
    /* Path of the converted file, the caller's; NULL with the problem. */
    char *(*convert)(const char *path, struct problem *p);
};
/* NULL: none. */
extern const struct import_converter *const extra_converter;

/* Prints that a verb or option is missing, and the option of the build that adds it. An exit status. */
int extra_not_built(struct client *c, const char *what, const char *build_option);
