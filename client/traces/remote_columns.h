/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of a trace of profd of which only the pages that are needed are read, by ranges of
 * /v1/traces/{trace}/columns. They are kept in the cache of columns for the next time.
 */
#pragma once

#include "client/transport/connection.h"
#include "trace/columns/columns.h"

/* Smaller ones are read completely: one request instead of several. */
#define REMOTE_COLUMNS_MIN (INT64_C(2) << 20)

struct remote_columns;

/* id: of the trace, "t12". key: of the cache, or NULL. Returns the descriptor of the part that is there, which stays the
 * object's, or -errno. The client must outlive the object. */
int remote_columns_new(struct client *c, const char *id, const char *key, uint64_t size,
                       struct remote_columns **ret);
struct remote_columns *remote_columns_free(struct remote_columns *r);
/* Why the host that has them did not answer, which was printed if they were open by then; NULL: it did. Owned by the object. */
struct problem *remote_columns_problem(struct remote_columns *r);
/* As columns_open_partial(). */
int remote_columns_open(struct remote_columns *r, struct columns **ret, char **ret_reason);
