/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace that a person named, ready for SQL: its columns, and its original where that is within reach.
 *
 * The name is the id of a trace (t12, 12) or a path: of a trace file in any format, which is read into the
 * cache at the first time, or of a columnar file. Columns that profd has are opened where they lie if they
 * can be, else fetched into the cache.
 */
#pragma once

#include "client/transport/connection.h"
#include "trace/read/intake.h"
#include "trace/sql/query.h"

struct trace_file {
    char *name; /* "t12", "trace.json.gz" */
    int columns_fd;
    int source_fd;     /* -1: not open */
    char *source_path; /* to be opened when it is asked for; NULL where there is none */
    char *unread_path; /* of a file that is to be read; then there are no columns yet */
    struct merged_part part;
    char *cache_key; /* NULL where the columns are not of the cache */
};

/* EXIT_DONE, or an exit status after the problem was printed. memory_max: OPTION_ABSENT, or what reading may use. */
int trace_file_open(struct client *c, const char *word, int64_t memory_max, struct trace_file *ret);
void trace_file_done(struct trace_file *t);
/* Reports a word that is neither an id nor a file that can be opened (errno err). An exit status. */
int trace_file_cannot_open(struct client *c, const char *word, int err);
/* The two halves of it, for several: looks for what is there, and reads all that is left to be read, side by
 * side. ret_statuses: of each. EXIT_DONE where each was tried. */
int trace_file_look(struct client *c, const char *word, struct trace_file *ret);
int trace_files_read(struct client *c, struct trace_file *const *files, size_t n, int64_t memory_max,
                     int *ret_statuses);
/* A part of a merged trace, to be read: its events alone. label: its name. */
int trace_file_part(struct client *c, struct trace_file *merged, const struct merged_part *part,
                    const char *label, struct trace_file *ret);

/* The original, opened when it is asked for; -1 where it is not within reach. Stays the trace's. */
int trace_file_original(struct trace_file *t);
/* For sql_open(); the trace must outlive the connection. */
struct sql_source trace_file_source(struct trace_file *t);
