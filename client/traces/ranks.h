/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several traces that a person named together, most often the ranks of one session: their columns are open,
 * each has a label, and their clocks can be made one.
 */
#pragma once

#include "client/traces/trace_file.h"

/* Each holds two descriptors and a mapping. */
#define RANKS_MAX 256

struct named_rank {
    struct trace_file file;
    struct columns *columns;
    char *label;      /* "rank 3", of several workers with the worker before it; else the file's name */
    int64_t shift_ns; /* what is added to its stamps, after ranks_align() */
};

struct named_ranks {
    struct named_rank *items;
    size_t n, cap;
};

/* All: EXIT_DONE, or an exit status, having said why. */
/* Refuses more than RANKS_MAX: before any of them is read. */
int ranks_too_many(struct client *c);
/* A trace (t12, a file), or all traces of a directory. memory_limit: OPTION_ABSENT, or what reading may use.
 */
int ranks_add_word(struct client *c, char *word, int64_t memory_limit, struct named_ranks *ranks);
/* What is no rank's (a front end's trace, an attachment) stays out, and says so. */
int ranks_add_session(struct client *c, const char *session, int64_t memory_limit, struct named_ranks *ranks);
/* Once all are added: puts them in order of their labels; none may be there twice. */
int ranks_settle(struct client *c, struct named_ranks *ranks);
/* how: auto, wall, collectives or start. */
int ranks_align(struct client *c, const char *how, struct named_ranks *ranks);
void ranks_done(struct named_ranks *ranks);
