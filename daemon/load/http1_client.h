/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many requests at a time over HTTP/1.1 without TLS: one connection for each request in flight, kept for the next one to
 * the same host. Part of http_pool.h, which it reports to and which has the rules; libcurl does everything else.
 *
 * A connection owns the bytes of its request until they are sent; what arrives is read into one buffer for all
 * connections and handed on in place. A request is never sent twice. Whoever comes first to the limit of open files closes
 * an idle connection. All requests have the same timeout.
 */
#pragma once

#include "daemon/load/http_pool.h"

struct http1_client;

/* Borrows policy and ops. */
struct http1_client *http1_client_new(struct event_base *base, const struct network_policy *policy,
                                      const struct http_pool_ops *ops);
struct http1_client *http1_client_free(struct http1_client *c);
/* Whether the target is one for this client. */
bool http1_client_can(const struct load_target *target);
/* As http_pool_send(). */
void http1_client_send(struct http1_client *c, struct load_target *target, const char *body, size_t size,
                       int64_t timeout_ns, void *arg);
/* As http_pool_open() and http_pool_when_open(). */
void http1_client_open(struct http1_client *c, struct load_target *target, size_t n);
void http1_client_when_open(struct http1_client *c, void (*opened)(void *arg), void *arg);
void http1_client_cancel(struct http1_client *c, const char *error);
