/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP/1.1 server of a few hundred lines, made to misbehave: one event loop, any number of ports,
 * keep-alive, and raw control over each connection (never answering, resetting, streaming without end,
 * dripping bytes).
 *
 * A port owns its connections. A handler gets one request at a time on a connection and answers it by one of
 * the http_ functions below, at once or later; a connection that it means to answer later can go away in the
 * meantime, so whoever keeps its address registers the place with http_watch(). For tests only: it knows no
 * chunked requests and has no time limits.
 */
#pragma once

#include "base/util.h"
#include <event2/event.h>
#include <netinet/in.h>

struct http_port;
struct http_conn;

/* Valid while the handler runs. Strings are never NULL. */
struct http_request {
    const char *method;
    const char *path;
    const char *query;  /* behind '?' */
    const char *bearer; /* of Authorization */
    const char *body;   /* NUL-terminated */
    size_t body_size;
};

struct http_answer {
    int status;
    const char *type;    /* NULL: none */
    const char *headers; /* more of them, each with its CRLF, or NULL */
    const char *body;
    size_t body_size;
    int64_t date_offset_s;
    bool drip; /* one byte of the body a second */
    bool cut;  /* the connection is closed before all that was announced is out */
};

typedef void (*http_handler)(struct http_conn *c, const struct http_request *q, void *user);

/* Listens on a port of the address that the kernel picks. */
int http_port_new(struct event_base *base, struct in_addr address, http_handler handler, void *user,
                  struct http_port **ret);
struct http_port *http_port_free(struct http_port *p);
/* http://ADDRESS:PORT, malloc()ed. */
char *http_port_url(const struct http_port *p);
/*
 * Keeps the port number but refuses connections, and resets the open ones, all but `spare` (may be NULL),
 * which is closed after its answer.
 */
int http_port_refuse(struct http_port *p, struct http_conn *spare);
/* Listens again. */
int http_port_listen(struct http_port *p);

/* These end the request; the connection may be gone when they return. */
void http_answer(struct http_conn *c, const struct http_answer *a);
void http_reset(struct http_conn *c);
/* Sends the text as it is, and closes. */
void http_raw(struct http_conn *c, const char *text);
/* Resets every open connection of a port that goes on listening. */
void http_port_hang_up(struct http_port *p);
/* Sends the head, then the filler over and over for as long as the client takes it. */
void http_flood(struct http_conn *c, const char *head, const char *filler);

/* Sets *slot to c, and to NULL when c goes. A connection has one watcher; slot NULL ends it. */
void http_watch(struct http_conn *c, struct http_conn **slot);

/* "key=value" of a query that needs no decoding: true where it is in it. */
bool http_query_has(const char *query, const char *pair);
