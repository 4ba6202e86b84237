/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many HTTP requests at a time. Knows bytes and moments, nothing of tokens.
 *
 * Over HTTP/1.1 without TLS they are sent by http1_client.h, all others by libcurl: persistent connections, reused
 * handles, small buffers. libcurl searches all connections to a host for an idle one, so that a request costs more
 * the more connections there are: requests are distributed over several of its "multi" handles with
 * HTTP_POOL_EXCHANGES each. Each request ends in done(), once, never before http_pool_send() returns, unless
 * http_pool_free() comes first. Addresses outside of the network policy are refused.
 */
#pragma once

#include "daemon/load/target.h"

#define HTTP_POOL_EXCHANGES 64

struct http_pool;

struct http_end {
    int err;           /* 0 where a response ended as HTTP requires, else -ETIMEDOUT, -ECONNREFUSED, ... */
    const char *error; /* NULL where err is 0 */
    int64_t retry_after_s; /* of the response; 0 */
};

struct http_pool_ops {
    void (*sent)(void *arg, int64_t now_ns); /* its first byte is about to be sent; once */
    void (*head)(void *arg, int status, const char *content_type);
    bool (*body)(void *arg, const char *bytes, size_t size, int64_t now_ns); /* false: abort */
    void (*done)(void *arg, const struct http_end *end);
};

/* Borrows policy and ops. */
int http_pool_new(struct event_base *base, const struct network_policy *policy,
                  const struct http_pool_ops *ops, struct http_pool **ret);
struct http_pool *http_pool_free(struct http_pool *p);
/* Takes the body, allocated by malloc(); ends with -ETIMEDOUT after timeout_ns. -EIO: libcurl refused it. */
int http_pool_send(struct http_pool *p, struct load_target *target, char *body, size_t size,
                   int64_t timeout_ns, void *arg);
/* Has n idle connections to the target opened before they are needed; one that fails is forgotten. libcurl has none. */
void http_pool_open(struct http_pool *p, struct load_target *target, size_t n);
/* Calls opened() once, in a later iteration of the loop, when no connection is being opened: after 10 s at the latest. */
void http_pool_when_open(struct http_pool *p, void (*opened)(void *arg), void *arg);
/* Ends all requests in flight now, with -ECANCELED and this text. */
void http_pool_cancel(struct http_pool *p, const char *error);
