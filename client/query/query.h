/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statements of a user on a trace: rows on stdout, errors on stderr with the position marked and the most similar
 * name. They run in a child process (bounded.h).
 */
#pragma once

#include "client/query/result.h"
#include "client/query/schema.h"
#include "client/traces/trace_file.h"
#include "client/transport/connection.h"

/* Memory limit of SQLite for a statement, with sorting and intermediate rows. */
#define STATEMENT_BYTES_MAX (INT64_C(2) << 30)
/* Memory limit of the process of a statement: SQLite, reports, and rows that are being printed. */
#define PROCESS_BYTES_MAX (INT64_C(4) << 30)

struct query {
    struct client *c;
    const char *name;         /* of the trace: "t12", "s7", "trace.json.gz" */
    struct trace_file *trace; /* NULL: several */
    sqlite3 *db;
    struct schema *schema;
    struct result_options result;
    struct bounded *bounded; /* the limits of its statements */
    bool is_over;            /* .quit was asked for */
};

/* Runs until the first statement that fails; returns an exit status. origin: the file of the text, or NULL. SIGINT and
 * SIGTERM must be blocked: they end a statement. *ret_signal: the received signal, or 0. */
int query_run(struct query *q, const char *sql, const char *origin, int *ret_signal);
/* The same within query_run(), in its child. */
int query_statements(struct query *q, const char *sql, const char *origin);
/* Bytes before the first statement: space, comments, semicolons. */
size_t sql_blank(const char *sql);

/* For completion; the array has COMMANDS_MAX items. Returns the number of names. */
#define COMMANDS_MAX 8
size_t command_names(const char **ret);

/* One line: a command and its word. Returns an exit status; .quit sets q->is_over. */
int command_run(struct query *q, const char *line);

/* Until .quit or Ctrl-D. SIGINT and SIGTERM must be blocked. Returns an exit status. */
int repl_run(struct query *q);
