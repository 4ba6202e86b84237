/* SPDX-License-Identifier: Apache-2.0 */
/* Every verb, and the options that all of them take. */
#pragma once

#include "client/verb.h"

extern const struct verb verb_audit, verb_analyze, verb_bench, verb_check_recipe, verb_complete,
    verb_completion, verb_context, verb_compare, verb_diff, verb_doctor, verb_du, verb_events, verb_export,
    verb_flame, verb_functions, verb_get, verb_ingest, verb_list_runs, verb_list_sessions, verb_list_traces,
    verb_list_workers, verb_merge, verb_nsys_command, verb_open, verb_pin, verb_query, verb_reports, verb_rm,
    verb_run, verb_show, verb_start, verb_status, verb_stop, verb_timeline, verb_token, verb_torch_command,
    verb_unpin, verb_vacuum;

#define ALIASES_MAX 3

/* A verb as the command line knows it. */
struct verb_entry {
    const struct verb *verb;
    const char *aliases[ALIASES_MAX]; /* further names */
    const char *synonyms; /* names that other programs use, separated by spaces: not accepted, but answered
                             with the verb's name */
    const char *examples; /* lines of --help */
    /* What its words may be, for completion: a letter each, s a session, t a trace, r a run, f a file, d a
     * directory, c a command, v a verb; and fixed words, separated by spaces. NULL: none. */
    const char *takes, *words;
};

/* A heading of `profctl help`. */
struct verb_group {
    const char *name;
    const struct verb_entry *entries;
    size_t n;
};

/* In the order of `profctl help`. */
extern const struct verb_group verb_groups[];
extern const size_t n_verb_groups;

/* main.c */
extern const struct option_def global_options[];
extern const size_t n_global_options;

/* By its name or an alias; NULL where there is none. */
const struct verb_entry *verb_find(const char *name);
void verb_help(FILE *out, const struct verb_entry *e);
void verbs_help(FILE *out);
/* Says so; returns the exit status. */
int verb_unknown(struct client *c, const char *name);
