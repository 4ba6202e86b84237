/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what over HTTP; no other module decides it.
 *
 * On the Unix socket every client that can connect may use all operations: its mode admits its owner, root
 * and the members of its group. On TCP a request needs a token whose role has the route's right, except for
 * routes that require none (routes.h). Requests of web pages are refused there first.
 *
 * It owns the tokens and certificates that it read from files, and borrows its settings: names and open addresses are
 * those of the moment.
 */
#pragma once

#include "base/address.h"
#include "daemon/api/http.h"
#include "daemon/api/settings.h"

struct route;
struct access;

/* Why a request was refused. */
enum denial {
    DENIAL_WEB_PAGE,    /* sent by a web page */
    DENIAL_NAME,        /* the Host header has another name */
    DENIAL_NO_TOKEN,    /* no token */
    DENIAL_WRONG_TOKEN, /* unknown token */
    DENIAL_THROTTLED,   /* another unknown token, too soon */
    DENIAL_ROLE,        /* the role of the token is insufficient */
    _DENIAL_MAX,
};
/* Counts since access_new(). */
const uint64_t *access_denials(const struct access *a);

/* Reads the files, where there are TCP addresses (LISTEN_MAX at most) to guard. -EINVAL, -EPERM, ... with the
 * remedy. */
int access_new(const struct api_settings *s, const struct listen_address *addresses, size_t n,
               struct access **ret, struct problem *p);
struct access *access_free(struct access *a);
DEFINE_CLEANUP(struct access *, access_free)

/* The name of a token that is not in the file any more, or has another role. */
typedef void (*access_gone)(const char *token, void *arg);
/* Reads the files again that the settings s name, before s replaces what access_new() borrowed; on an error nothing
 * changes. gone() is called once the new rules hold; it may be NULL. The addresses that are listened on stay those of access_new(). */
int access_reload(struct access *a, const struct api_settings *s, access_gone gone, void *arg,
                  struct problem *p);
/* NULL: TCP is without TLS. */
struct ssl_ctx_st *access_tls(const struct access *a);

/*
 * 0 where the request may pass; then http_user() is the token's name, on TCP. Else a negative errno value,
 * with the problem set and the headers of its reply added. route is NULL for an unknown path, which only
 * clients with a token learn.
 */
int access_check(struct access *a, struct http_request *r, const struct route *route, struct problem *p);
/* Whether a request that passed would pass again, by the rules of a later reload. Neither counted nor logged.
 */
bool access_holds(const struct access *a, const struct http_request *r, const struct route *route);
