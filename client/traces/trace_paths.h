/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace files that words name: a file is taken as it is, of a directory everything below it whose name is
 * that of a trace. Links are followed only where they are named themselves.
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
