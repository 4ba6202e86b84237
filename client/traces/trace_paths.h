/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace files of the words of a command: a file itself, and of a directory all files below it with the name of a
 * trace. Only links that are named themselves are followed.
 */
#pragma once

#include "base/problem.h"

struct trace_paths {
    char **items; /* as they were reached, in order */
    size_t n, cap;
};

/* 0, or the problem of the first word that cannot be read. */
int trace_paths_find(struct trace_paths *paths, int n_words, char **words, struct problem *p);
void trace_paths_done(struct trace_paths *paths);
