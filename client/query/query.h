/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQL of a person on a trace: its statements one after the other, their rows on stdout, what went wrong on
 * stderr with the place marked and the name that may have been meant. They run in a child process
 * (bounded.h).
 */
#pragma once

#include "client/query/result.h"
#include "client/query/schema.h"
#include "client/traces/trace_file.h"
#include "client/transport/connection.h"

/* What SQLite may use for a statement, sorting and intermediate rows included. */
#define STATEMENT_BYTES_MAX (INT64_C(2) << 30)
/* What the process of a statement may use, SQLite included: reports, and rows that are being printed. */
#define PROCESS_BYTES_MAX (INT64_C(4) << 30)

struct query {
    struct client *c;
    const char *name;         /* of what is queried: "t12", "s7", "trace.json.gz" */
    struct trace_file *trace; /* NULL: several */
    sqlite3 *db;
    struct schema *schema;
    struct result_options result;
    struct bounded *bounded; /* the limits of its statements */
    bool is_over;            /* .quit was asked for */
};

/* Runs until the first statement that fails; returns an exit status. origin: the file that it comes from, or
 * NULL. SIGINT and SIGTERM must be blocked: they end a statement. *ret_signal is one that came, or 0. */
int query_run(struct query *q, const char *sql, const char *origin, int *ret_signal);
/* The same within query_run(), in its child. */
int query_statements(struct query *q, const char *sql, const char *origin);
/* How much before the first statement is none: space, remarks, semicolons. */
size_t sql_blank(const char *sql);

/* For completion; the array holds room for COMMANDS_MAX. Returns how many. */
#define COMMANDS_MAX 8
size_t command_names(const char **ret);

/* One line: a command and its word. Returns an exit status; .quit sets q->is_over. */
int command_run(struct query *q, const char *line);

/* Until .quit or Ctrl-D. SIGINT and SIGTERM must be blocked. Returns an exit status. */
int repl_run(struct query *q);
