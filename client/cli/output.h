/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of a verb that writes a file: standard output, or a file that gets its name when it is complete. A file
 * whose name ends in ".gz" is compressed.
 */
#pragma once

#include "base/problem.h"

struct output {
    FILE *file; /* to be written to */
    FILE *raw;  /* the file that compressed output is written to; NULL: not compressed */
    char *path; /* NULL: standard output */
    char *part; /* name of the file until it is complete */
};

/* The file to write: the option, else standard output, else, as that is a terminal, the default. The caller frees it. */
char *output_path(const char *option, const char *on_terminal);
/* path: "-" is standard output. output_open_as_is() compresses nothing. */
int output_open_as_is(const char *path, struct output *ret, struct problem *p);
int output_open(const char *path, struct output *ret, struct problem *p);
/* Closes it and gives the file its name. */
int output_keep(struct output *o, struct problem *p);
/* What was not kept is removed. */
void output_done(struct output *o);
