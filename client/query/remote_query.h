/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A statement on a trace that another host keeps: that host runs it (POST /v1/traces/{trace}/query), next to the columns
 * and the original, and only rows travel. What it does not take (several statements, more rows than a response may have,
 * a statement with an error, which is explained better here) is left to the caller, who reads the columns.
 */
#pragma once

#include "client/query/result.h"
#include "client/transport/connection.h"

struct remote_query {
    const char *name; /* of the trace: "t12" */
    const char *sql;
    int64_t rows_max; /* INT64_MAX: all */
};

/* False: nothing was printed except why not, and the caller goes on. Else *ret_status is the exit status. */
bool remote_query_run(struct client *c, const struct remote_query *q, int *ret_status);
