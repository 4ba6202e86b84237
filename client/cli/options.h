/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of profctl and its verbs: one table gives the parsing, the --help text and, through that, the
 * completion.
 *
 * A verb has a struct of its options; each line of its table names a member by offset. Texts are borrowed
 * from argv; options_done() frees the lists.
 */
#pragma once

#include "base/problem.h"
#include <stddef.h>

enum option_kind {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char * */
    OPTION_LIST,     /* struct option_list, repeatable */
    OPTION_REAL,     /* double, more than 0; 0 where it was not given */
    OPTION_COUNT,    /* int64_t, at least 1 */
    OPTION_NUMBER,   /* int64_t, at least 0 */
    OPTION_DURATION, /* int64_t, nanoseconds */
    OPTION_SIZE,     /* int64_t, bytes */
    OPTION_TIME,     /* int64_t, wall nanoseconds; a bare duration is ahead */
    OPTION_AGO,      /* int64_t, wall nanoseconds; a bare duration is ago */
};

/* Value of an int64_t that was not given. */
#define OPTION_ABSENT INT64_MIN

struct option_list {
    const char **items;
    size_t n, cap;
};

struct option_def {
    const char *name;     /* without the dashes */
    char letter;          /* 0: none */
    const char *argument; /* "DURATION"; NULL for a flag; "[=BUS]": a text that may be absent, then "" */
    enum option_kind kind;
    size_t offset;
    const char *help;
};

struct option_set {
    const struct option_def *defs;
    size_t n;
    void *values;
};

/*
 * Parses argv of one or more sets with getopt_long, numbers first set to OPTION_ABSENT. stop_at_word ends at
 * the first argument that is no option. Returns the index of the first argument behind the options (others
 * are moved behind it), or -EINVAL with the problem.
 */
int options_parse(const struct option_set *sets, size_t n_sets, int argc, char **argv, bool stop_at_word,
                  struct problem *p);
void options_init(const struct option_set *set);
void options_done(const struct option_set *set);
/* The lines of --help. */
void options_help(FILE *out, const struct option_set *set);
