/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands where a statement could begin and is no SQL: .schema, .tables, .named, .help and .quit, each on
 * a line of its own, typed as well as in a text that is given.
 */
#pragma once

#include "client/query/statement.h"

/* For completion; the array holds room for COMMANDS_MAX. Returns how many. */
#define COMMANDS_MAX 8
size_t command_names(const char **ret);

/* One line: a command and its word. Returns an exit status; .quit sets q->is_over. */
int command_run(struct query *q, const char *line);
