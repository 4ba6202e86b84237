/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to PostgreSQL on the event loop, with libpq's asynchronous functions (PostgreSQL 15 manual, 34.2 and 34.4): one
 * call at a time, one value as its answer.
 *
 * Nothing here blocks the loop: names are resolved by profd's resolver and given as hostaddr=, libpq logs in on
 * a thread (pq_connector.h), every wait has a deadline of profd's own, and what a server may send has a limit.
 * Hosts of the address are tried in their order, then each of their addresses. Addresses where clouds hand out
 * credentials are refused. libpq is loaded at the first call.
 *
 * The owner frees it, also from within a function of its ops, which are called last.
 */
#pragma once

#include "base/problem.h"
#include <event2/event.h>

struct pq;
struct pq_connector;
struct name_resolver;

#define PQ_STATE_SIZE 6
/* protocol_violation: also of a server that sends too much. */
#define PQ_STATE_PROTOCOL "08P01"

/* Why a connection was not made, or broke. */
struct pq_failure {
    const char *text;          /* one line */
    char state[PQ_STATE_SIZE]; /* SQLSTATE, "" where there is none */
};

struct pq_ops {
    void (*connected)(void *arg);
    /* Ends pq_call(). value: of the first column of the only row, NULL on an error of the statement. */
    void (*result)(const char *value, const struct pq_failure *error, void *arg);
    /* Nothing more is called. */
    void (*failed)(const struct pq_failure *f, void *arg);
};

/* Whether libpq can be loaded. */
bool pq_is_installed(void);
/* Whether an address can be parsed; -EINVAL with the problem, which has no password. */
int pq_check(const char *conninfo, struct problem *p);
/* "postgresql://USER@HOST:PORT/DATABASE", without a password; the caller frees it. NULL: not an address. */
char *pq_format(const char *conninfo);
bool pq_has_password(const char *conninfo);

/* What all connections of a loop share: the thread on which they are made. */
struct pq_connector *pq_connector_new(struct event_base *base);
/* After pq_free() of all. -ETIMEDOUT where a server holds the thread: the connector must then live until the
 * process ends, which must not wait for the thread. */
int pq_connector_drain(struct pq_connector *x, int64_t deadline_ns);
/* After pq_connector_drain(). NULL is nothing. */
struct pq_connector *pq_connector_free(struct pq_connector *x);

/* passfile: of libpq, or NULL. Each address has timeout_ns to be connected to. As long as a server holds the thread,
 * connecting fails and says so. -EINVAL. */
int pq_connect(struct pq_connector *connector, struct name_resolver *names, const char *conninfo,
               const char *passfile, int64_t timeout_ns, const struct pq_ops *ops, void *arg,
               struct pq **ret);
/* NULL is nothing. */
struct pq *pq_free(struct pq *c);
/* After connected() and after the previous result(). The texts are copied. */
void pq_call(struct pq *c, const char *sql, int n, const char *const *values, int64_t timeout_ns);
