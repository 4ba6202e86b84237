/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several traces that are named together, most often the ranks of one session: their columns are open, each has a
 * label, and their clocks can be aligned.
 */
#pragma once

#include "client/traces/trace_file.h"
#include "trace/export/export.h"
#include "trace/read/instance.h"
#include "trace/reports/analysis.h"

/* Each holds two descriptors and a mapping. */
#define RANKS_MAX 256

struct named_rank {
    struct trace_file file;
    struct columns *columns;
    json_t *trace;       /* as profd knows it, NULL of a file */
    bool is_one_of_many; /* of a directory or a session, not named itself */
    char *path;          /* as given or discovered; NULL for a trace of profd */
    char *role;          /* of its worker; NULL where it is not known */
    double kv_use;       /* of its worker's KV cache, 0 to 1, at most; NaN: not known */
    size_t instance;     /* after ranks_find_instances(), as is the number, which it has within it */
    int64_t number;
    char *label;      /* "rank 3", of several workers with the worker before it; else the file's name */
    int64_t shift_ns; /* added to its timestamps, after ranks_align() */
    int64_t sql_id;   /* trace_id in SQL: profd's number of the trace, or its position among the files */
    struct sql_origin sql_origin;
};

struct named_ranks {
    struct named_rank *items;
    size_t n, cap;
    /* After ranks_find_instances(): ranks of an instance lie next to each other. */
    struct engine_instance *instances;
    char (*names)[INSTANCE_NAME_MAX];
    size_t n_instances;
    size_t n_left_out;   /* traces of directories and sessions that could not be read */
    size_t n_noted;      /* of them, those that a note named */
    int status_left_out; /* exit status of the last of them */
};

/* All: EXIT_DONE, or an exit status after the problem was printed. */
/* Refuses more than RANKS_MAX: before any of them is read. */
int ranks_too_many(struct client *c);
/* A trace (t12, a file), or all traces of a directory. */
int ranks_add_word(struct client *c, char *word, struct named_ranks *ranks);
/* Traces of no rank (of a front end, an attachment) are left out, with a note. */
int ranks_add_session(struct client *c, const char *session, struct named_ranks *ranks);
/* After all are added: reads traces without columns in parallel, and sorts all by their labels; a trace that is named
 * twice is an error. Traces of a directory or a session that cannot be read are left out with a note, unless there are
 * no others. memory_limit: for all readers together, or OPTION_ABSENT. */
int ranks_settle(struct client *c, int64_t memory_limit, struct named_ranks *ranks);
/* The exit status: EXIT_PARTIAL instead of EXIT_DONE if some are left out. */
int ranks_status(const struct named_ranks *ranks, int status);
/* The model of the worker of the first rank at the begin of its session; NULL: unknown. The caller frees. */
char *ranks_model(struct client *c, const struct named_ranks *ranks);
/* All of them for sql_open(), with their instances if these are set; they must outlive the connection. */
struct sql_source ranks_source(struct named_ranks *ranks);
void ranks_done(struct named_ranks *ranks);
