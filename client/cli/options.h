/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of profctl and its verbs: one table gives the parsing, the --help text, the man page and the
 * completion.
 *
 * A verb has a struct of its options; each line of its table names a member by offset. Texts are borrowed
 * from argv; options_done() frees the lists.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include <stddef.h>

enum option_kind {
    OPTION_FLAG, /* bool */
    OPTION_TEXT, /* const char * */
    OPTION_LIST, /* struct option_list, repeatable */
    OPTION_SESSION, /* const char *: "s7", "7", or a UUID or its beginning, which profd looks up; NULL: not given */
    OPTION_REAL,     /* double, more than 0; 0: not given */
    OPTION_COUNT,    /* int64_t, at least 1 */
    OPTION_NUMBER,   /* int64_t, at least 0 */
    OPTION_DURATION, /* int64_t, nanoseconds */
    OPTION_SIZE,     /* int64_t, bytes */
    OPTION_TIME,     /* int64_t, wall-clock nanoseconds; a bare duration is ahead */
    OPTION_AGO,      /* int64_t, wall-clock nanoseconds; a bare duration is ago */
};

/* Value of an int64_t that was not given. */
#define OPTION_ABSENT INT64_MIN

struct option_list {
    const char **items;
    size_t n, cap;
};

struct option_def {
    const char *name;     /* without the dashes; NULL: a heading of --help */
    char letter;          /* 0: none */
    const char *argument; /* "DURATION"; NULL for a flag; "[=BUS]": a text that may be absent, then "" */
    enum option_kind kind;
    size_t offset;
    const char *help;   /* begins with a noun or a verb, has no full stop; "(default: 50)" at its end */
    const char *member; /* of a request to profd; NULL: the verb passes the option on itself, or not at all */
};

/* A line of an option table: the options after it are printed under this heading. Headings of the same name are
 * one. Options before the first are under "Options". */
#define OPTION_GROUP(heading)                                                                                \
    {                                                                                                        \
        .help = (heading)                                                                                    \
    }

struct option_set {
    const struct option_def *defs;
    size_t n;
    void *values;
};

/* The set of a table and its struct, which options_to_json() only reads. */
#define OPTION_SET(table, options)                                                                           \
    &(const struct option_set)                                                                               \
    {                                                                                                        \
        (table), ARRAY_SIZE(table), (void *)(options)                                                        \
    }

/*
 * Parses argv by one or more sets with getopt_long; options_init() first sets numbers to OPTION_ABSENT.
 * stop_at_word ends at the first argument that is no option. Returns the index of the first argument after the
 * options (getopt_long moves the others there), or -EINVAL with the problem.
 */
int options_parse(const struct option_set *sets, size_t n_sets, int argc, char **argv, bool stop_at_word,
                  struct problem *p);
/* Sets the members of a request that options were given for. */
void options_to_json(const struct option_set *set, json_t *request);
void options_init(const struct option_set *set);
void options_done(const struct option_set *set);

/* The option of that name, or of that letter ("n"), in a table; NULL: none. */
const struct option_def *option_find(const struct option_def *defs, size_t n, const char *name);
/* The lines of --help, under their headings, at most 80 columns wide. */
void options_help(FILE *out, const struct option_set *sets, size_t n_sets);
