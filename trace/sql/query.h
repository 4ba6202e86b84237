/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQL over columnar files: virtual tables for profctl, the loadable extension and any other connection.
 *
 * Tables are registered on a connection under plain names (slice, thread, ...): for one trace, for several traces
 * with columns that identify them, or, over a catalog, with a hidden column trace_id. Nothing here opens a file by a
 * name from SQL: the caller passes a function that opens a trace by its id.
 */
#pragma once

#include "trace/columns/columns.h"
#include "trace/read/event_text.h"

struct sqlite3;

/* The origin of a trace, if several are queried together. The source owns the texts. */
struct sql_origin {
    int64_t rank;         /* within its engine instance; COLUMN_NULL: unknown */
    const char *instance; /* this and worker are NULL if they are unknown */
    const char *worker;
};

struct sql_source {
    /* Opens the columnar file of a trace and its original (*ret_source_fd: -1 if there is none). Negative errno
     * with a message for people, which the caller frees. */
    int (*open)(void *arg, int64_t trace_id, int *ret_columns_fd, int *ret_source_fd, char **ret_error);
    /* All trace ids, for a query without a constraint; NULL: there is only one trace (id 0). The caller
     * frees. */
    int (*list)(void *arg, int64_t **ret_ids, size_t *ret_n, char **ret_error);
    /* Several traces that are queried as one: each table has the columns trace_id, rank, instance and worker,
     * and each number of a row (id, track_id, utid, ...) is unique over all traces, so that joins need nothing
     * else. NULL: a catalog, where trace_id is hidden and numbers are those of each trace. */
    const struct sql_origin *(*origin)(void *arg, int64_t trace_id);
    /* Reads the columns of a trace where open() gives none (-1). NULL: open() gives those of every trace. As
     * columns_open_partial(). */
    int (*columns)(void *arg, int64_t trace_id, struct columns **ret, char **ret_reason);
    void (*free)(void *arg); /* NULL: nothing is to be freed */
    void *arg;
    /* Whether the statement must end, not 0 if so: asked in loops that SQLite does not see. NULL: never. */
    int (*is_over)(void *arg);
    void *is_over_arg;
};

/* Registers all tables and functions (extract_arg, ...). Takes over the source, whatever it returns: an
 * SQLite result code. */
int sql_register(struct sqlite3 *db, struct sql_source source);

/* A connection that can only read: in memory, with all tables, an authorizer against ATTACH, writes, harmful PRAGMAs
 * and extensions, and limits on statements. is_over (NULL: never) is called while a statement runs; the statement ends
 * with SQLITE_INTERRUPT if the result is not 0. It is not called within one call of a function, which can take hours.
 * Takes over the source. Negative errno. */
int sql_open(struct sql_source source, int (*is_over)(void *arg), void *is_over_arg, struct sqlite3 **ret);
/* The names of the tables, NULL after the last: SQLite does not list virtual tables without CREATE. */
const char *sql_table_name(size_t i);
