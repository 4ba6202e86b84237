/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A named trace, ready for SQL: its columns, and its original if that is available.
 *
 * The name is the id of a trace (t12, 12) or a path: of a trace file in any format, which is read into the cache the
 * first time, or of a columnar file. Columns of profd are opened in its store if that is possible, else downloaded into
 * the cache.
 */
#pragma once

#include "client/transport/connection.h"
#include "trace/read/intake.h"
#include "trace/sql/query.h"

struct remote_columns;

struct trace_file {
    char *name;     /* "t12", "trace.json.gz" */
    int columns_fd; /* complete, or the part of remote that is there */
    struct remote_columns
        *remote;       /* whose pages are read when they are needed; NULL: columns_fd is complete */
    int source_fd;     /* -1: not open */
    char *source_path; /* opened by trace_file_original(); NULL: none */
    char *unread_path; /* of a file without columns that remains to be read, or NULL */
    struct merged_part part;
    char *cache_key; /* NULL: the columns are not in the cache */
    char *host;      /* name of the host that keeps it; NULL: not known */
    /* The clock of that host minus that of the host that coordinated its session, and the uncertainty of that;
     * COLUMN_NULL: not known; 0 of the host that was asked. */
    int64_t clock_offset_ns, clock_error_ns;
};

/* EXIT_DONE, or an exit status after the problem was printed. memory_max: limit of reading, or OPTION_ABSENT. */
int trace_file_open(struct client *c, const char *word, int64_t memory_max, struct trace_file *ret);
void trace_file_done(struct trace_file *t);
/* Reports a word that is neither an id nor a file that can be opened (errno err). An exit status. */
int trace_file_cannot_open(struct client *c, const char *word, int err);
/* The two steps of it, for several: searches columns, and reads all files that remain, in parallel. ret_statuses: the
 * exit status of each. EXIT_DONE if each was tried. */
int trace_file_look(struct client *c, const char *word, struct trace_file *ret);
int trace_files_read(struct client *c, struct trace_file *const *files, size_t n, int64_t memory_max,
                     int *ret_statuses);
/* A part of a merged trace, with its events only. label: its name. */
int trace_file_part(struct client *c, struct trace_file *merged, const struct merged_part *part,
                    const char *label, struct trace_file *ret);

/* As columns_open(). The trace must outlive the columns. */
int trace_file_columns(const struct trace_file *t, struct columns **ret, char **ret_reason);
/* Opens the original; -1: not available. The trace keeps the descriptor. */
int trace_file_original(struct trace_file *t);
/* For sql_open(); the trace must outlive the connection. */
struct sql_source trace_file_source(struct trace_file *t);
