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

/* Sessions of an engine that writes no traces. */
struct extra_session {
    const char *engine; /* as in proto/names.h */
    const char *next;   /* command that shows one: "profctl functions --session" */
};
extern const struct extra_session extra_sessions[]; /* a NULL engine at the end */

/* What the options of start choose, for an extension of it. */
struct start_choice {
    const struct source *source; /* borrowed */
    json_t *labels;              /* an object or NULL; the caller drops it */
    bool allow_uncollected;
    bool chooses_recording; /* what is recorded, of which workers, or for how long */
};
/* -EINVAL with the problem. */
int start_read_choice(const void *start_values, struct start_choice *ret, struct problem *p);

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
