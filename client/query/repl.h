/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQL typed at a terminal, by way of libedit: a history that is kept in $XDG_STATE_HOME/profd/query_history,
 * completion of what the trace and SQL have names for, statements over several lines until ';'. Ctrl-C
 * empties the line or ends the statement, never profctl. What is typed goes through stderr, rows to stdout.
 */
#pragma once

#include "client/query/statement.h"

/* Until .quit or Ctrl-D. SIGINT and SIGTERM must be blocked. Returns an exit status. */
int repl_run(struct query *q);
