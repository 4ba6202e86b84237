/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that came over another transport than HTTP, for the same handlers: what they reply goes to functions
 * instead of a socket. It has no headers, and handlers of streams must not get it.
 */
#pragma once

#include "daemon/api/http.h"

/* One of the two is called, once; the request is gone by then. */
struct http_foreign_replies {
    /* A problem from status 400 on; NULL where there is no body. */
    void (*json)(int status, const json_t *body, void *arg);
    /* The file is readable up to size; the name may be NULL. */
    void (*file)(int take_fd, int64_t size, const char *name, void *arg);
};

/*
 * query is what stands behind '?' in an address, NULL for nothing; body NULL for none. Copies everything, but
 * replies must outlive the request. -EINVAL, -E2BIG: the query.
 */
int http_request_new_foreign(enum http_method method, const char *path, const char *query, const char *body,
                             const struct http_peer *peer, const struct http_foreign_replies *replies,
                             void *arg, struct http_request **ret);
/* Whoever asked is gone: tells the handler that r ends without a reply, and frees r. http.c's requests, too.
 */
void http_request_abandon(struct http_request *r);
