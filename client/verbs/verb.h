/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The type of a verb, and the table of all verbs (verb.c), which gives parsing, --help and completion.
 *
 * A verb is one struct in a file of its own. run() gets its parsed options and the words after them, and
 * returns the exit status (names.h).
 */
#pragma once

#include "client/cli/client.h"

#define WORDS_UNLIMITED 10000

struct verb {
    const char *name;
    const char *words;   /* "[SESSION]": the words after the options, for --help */
    const char *summary; /* one line, imperative, without a full stop */
    const char *details; /* one to three sentences; may be NULL */
    char default_kind;   /* the kind of a bare number: 's', 't', 'r', or 0 */
    unsigned min_words, max_words;
    const struct option_def *options;
    size_t n_options, values_size;
    bool has_listing;        /* takes the options of lists and reports (views/listing.h) */
    bool needs_only_catalog; /* a transient profd is enough */
    bool is_offline;         /* needs no profd: client->connection is NULL */
    int (*run)(struct client *c, const void *options, int n_words, char **words);
};

/* Members of struct verb: the option table and the struct that its offsets refer to. */
#define VERB_OPTIONS(table, type)                                                                            \
    .options = (table), .n_options = ARRAY_SIZE(table), .values_size = sizeof(type)

#define ALIASES_MAX 3

/* A verb as the command line knows it. */
struct verb_entry {
    const struct verb *verb;
    const char *aliases[ALIASES_MAX]; /* further names */
    const char *synonyms; /* names that other programs use, separated by spaces: not accepted, but the error
                             names the verb */
    const char *examples; /* lines of --help */
    /* Completion of its words, a letter for each kind: s session, t trace, r benchmark run, f file, d directory,
     * c command, v verb; and fixed words, separated by spaces. NULL: none. */
    const char *takes, *words;
};

/* A heading of `profctl help`. */
struct verb_group {
    const char *name;
    const struct verb_entry *entries;
    size_t n;
};

/* Options that an optional module adds to a verb, with values of their own. */
struct verb_extension {
    const struct verb *verb;
    const struct option_def *options;
    size_t n_options, values_size;
    bool (*applies)(const void *values);
    /* Runs in place of the verb where applies() is true; returns the exit status. */
    int (*run)(struct client *c, const void *values, const void *verb_values);
};
extern const struct verb_extension *const extra_extensions[]; /* NULL at the end */
/* NULL: the verb has no extension. */
const struct verb_extension *verb_extension_of(const struct verb *v);

/* The option tables of a verb, those of lists and of its extension included. Returns their number; their values are
 * NULL. */
#define VERB_SETS_MAX 3
size_t verb_option_sets(const struct verb *v, struct option_set sets[static VERB_SETS_MAX]);

/* In the order of `profctl help`. */
extern const struct verb_group verb_groups[];
extern const size_t n_verb_groups;

/* The i-th verb of a group, of the core first, then of extras; NULL after the last. */
const struct verb_entry *verb_entry_at(const struct verb_group *group, size_t i);

/* main.c */
extern const struct option_def global_options[];
extern const size_t n_global_options;

/* By its name or an alias; NULL: unknown. */
const struct verb_entry *verb_find(const char *name);
void verb_help(FILE *out, const struct verb_entry *e);
void verbs_help(FILE *out);
/* Prints the error; returns the exit status. */
int verb_unknown(struct client *c, const char *name);

/* Runs a verb with the defaults of all its options; returns its exit status. */
int verb_call(struct client *c, const struct verb *v, int n_words, char **words);
