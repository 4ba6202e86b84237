/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to PostgreSQL, for the mirror of the catalogs (docs/mirror.md): one statement at a time, its rows as they
 * arrive.
 *
 * Calls block; SIGINT and SIGTERM cancel a running statement. Errors become a struct problem with the remedy. Where it
 * connects to is named by the user or by profd, and never printed with its password. libpq is loaded at the first call.
 */
#pragma once

#include "client/cli/client.h"
#include <libpq-fe.h>

/* Time to connect to all hosts of an address. */
#define POSTGRES_CONNECT_NS (15 * INT64_C(1000000000))

struct postgres;

/* address: postgresql://USER@HOST:PORT/DATABASE, or keywords as "host=... dbname=...", of libpq. Holds SIGINT and SIGTERM
 * from here on. Negative errno. */
int postgres_open(const char *address, struct postgres **ret, struct problem *p);
struct postgres *postgres_close(struct postgres *pg);
DEFINE_CLEANUP(struct postgres *, postgres_close)

/* How long each statement after this may take before it is abandoned; the server is to end it before, by
 * statement_timeout. 0: for ever. */
void postgres_set_limit(struct postgres *pg, int64_t limit_ns);

/* Statements that return nothing of interest, as one transaction unless they begin others. */
int postgres_run(struct postgres *pg, const char *sql, struct problem *p);

/* Begins one statement with n parameters as text. */
int postgres_begin(struct postgres *pg, const char *sql, int n, const char *const *values, struct problem *p);
/* The next row: 1; 0 after the last; negative errno, of a user who cancelled it -EINTR. After an error, or 0, the statement is
 * over. */
int postgres_next(struct postgres *pg, struct problem *p);
/* The current row, and after the first postgres_next() its columns, even if there is no row. */
const PGresult *postgres_row(const struct postgres *pg);
/* Ends a statement whose further rows nobody wants. */
void postgres_end(struct postgres *pg);

/* One row of one statement: its values, NULL for NULL; the caller frees them with *ret. -ENODATA: no row. */
int postgres_read(struct postgres *pg, const char *sql, int n, const char *const *values, json_t **ret,
                  struct problem *p);
/* All rows, as an array of objects: texts and nulls. */
int postgres_read_all(struct postgres *pg, const char *sql, json_t **ret, struct problem *p);
