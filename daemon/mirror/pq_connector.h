/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps in which libpq makes a connection, on a thread: the server decides how long a step computes. SCRAM
 * with 2^31 iterations (RFC 5802) takes libpq 20 minutes, and libpq has no limit of them.
 *
 * Steps run one after another. One that does not return holds the only thread, so no further one begins as long
 * as it lasts. The connection belongs to the thread during a step, and is closed after it where nobody waits
 * for it any more.
 */
#pragma once

#include "daemon/mirror/pq.h"
#include "daemon/mirror/pq_internal.h"

struct pq_step;
/* connection: NULL without memory. */
typedef void (*pq_step_fn)(PGconn *connection, PostgresPollingStatusType status, void *arg);

/* PQconnectStartParams(); copies the keywords. Its status is PGRES_POLLING_WRITING or PGRES_POLLING_FAILED.
 * host: of the server, for texts. NULL: there is no thread. */
struct pq_step *pq_step_start(struct pq_connector *x, const char *host, const struct pq_keywords *k,
                              pq_step_fn done, void *arg);
/* PQconnectPoll(); takes the connection, which done() gives back. */
struct pq_step *pq_step_poll(struct pq_connector *x, const char *host, PGconn *connection, pq_step_fn done,
                             void *arg);
/* Its done() is not called. NULL is nothing. */
void pq_step_cancel(struct pq_step *s);

/* Whose step has held the thread for so long that no other begins; NULL: none. Borrowed. */
const char *pq_connector_held_by(const struct pq_connector *x);
struct event_base *pq_connector_base(const struct pq_connector *x);
