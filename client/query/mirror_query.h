/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One statement of a user on the mirror in PostgreSQL, in a transaction that can only read, with a time limit of the server.
 * Rows are printed as those of `profctl query` are (result.h). Ctrl-C cancels the statement at the server.
 */
#pragma once

#include "client/query/result.h"
#include "client/transport/postgres.h"

struct mirror_query {
    const char *address;   /* of PostgreSQL */
    const char *sql;       /* one statement, .tables or .schema */
    int64_t time_limit_ns; /* 0: none */
    int64_t rows_max;      /* INT64_MAX: all */
};

/* Prints rows and errors; returns an exit status. */
int mirror_query_run(struct client *c, const struct mirror_query *q);
