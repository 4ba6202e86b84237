/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table args and the function extract_arg().
 */
#pragma once

#include "trace/sql/arg_set.h"
#include "trace/sql/virtual_tables.h"

/* The arguments of a slice, from the text of its event, or without that from the columns. Negative errno. */
int args_read(struct trace *trace, uint64_t slice, struct arg_set *ret);

/* SQLite result codes. */
int args_register_table(sqlite3 *db, struct traces *traces);
int args_register_function(sqlite3 *db, struct traces *traces);
