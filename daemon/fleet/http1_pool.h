/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges over HTTP/1.1 without TLS: the bytes of a request out, its answer in, on connections that are kept for later
 * exchanges with the same address and port. Knows nothing of names, credentials and engines.
 *
 * Exchanges that are started in one iteration of the event loop are sent together, in the next one. Each has a connection
 * of its own. An exchange that was started ends in ended(), once, never before http1_exchange_start() returns, unless it
 * is freed before. Where a kept connection turns out to be closed, the request is sent again on a new one, unless it must
 * not be. The owner of the exchange decides on each address, before anything connects or is sent to it.
 */
#pragma once

#include "base/http1_response.h"
#include <event2/event.h>
#include <netinet/in.h>

struct http1_pool;
struct http1_exchange;

enum http1_taken {
    HTTP1_TAKEN,
    HTTP1_WAITS,  /* the same bytes again after http1_exchange_resume(); until then nothing is read */
    HTTP1_ENOUGH, /* the exchange ends, without an error */
};

struct http1_ops {
    bool (*allows)(void *arg, const struct in6_addr *address);
    /* Before the first byte leaves, each time that it is sent. */
    void (*sent)(void *arg);
    void (*head)(void *arg, const struct http1_response *head);
    enum http1_taken (*body)(void *arg, const char *bytes, size_t size);
    /* The exchange is to be freed, here or later. err is 0, -ETIMEDOUT, -ECONNREFUSED, -ECONNRESET, -EPROTO, ..., or
     * -EPERM where no address was allowed; error is a borrowed text, NULL where err is 0. */
    void (*ended)(void *arg, int err, const char *error);
};

struct http1_request {
    const struct in6_addr *addresses; /* copied; tried in this order */
    size_t n_addresses;
    int port;
    char *text; /* head and body, allocated by malloc(): taken, and erased */
    size_t size;
    bool head_only;             /* HEAD: its answer has no body */
    bool once;                  /* must not be sent a second time */
    int64_t connect_timeout_ns; /* of all addresses together */
    int64_t deadline_ns;        /* absolute, monotonic; DEADLINE_NEVER */
};

/* Borrows the base. idle_max: connections that are kept at most. */
struct http1_pool *http1_pool_new(struct event_base *base, size_t idle_max);
/* After its exchanges. NULL is nothing. */
struct http1_pool *http1_pool_free(struct http1_pool *p);
void http1_pool_close_idle(struct http1_pool *p);

/* Borrows ops. */
struct http1_exchange *http1_exchange_start(struct http1_pool *p, const struct http1_request *request,
                                            const struct http1_ops *ops, void *arg);
/* After HTTP1_WAITS. */
void http1_exchange_resume(struct http1_exchange *x);
/* Ends it without ended(). NULL is nothing. */
struct http1_exchange *http1_exchange_free(struct http1_exchange *x);
