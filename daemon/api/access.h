/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what over HTTP; the one place that decides it.
 *
 * On the Unix socket whoever can connect may do everything: its mode lets in its owner, root and the members
 * of its group, and nobody else. On TCP a request needs a token whose role has the route's right, except for
 * routes that say otherwise (routes.h). What a browser sends is refused there before all else.
 *
 * It owns what it was told by files (tokens, certificates) and by the configuration, which it copies.
 */
#pragma once

#include "base/address.h"
#include "daemon/api/http.h"
#include "daemon/api/settings.h"

struct route;
struct access;

/* Why a request was refused. */
enum denial {
    DENIAL_WEB_PAGE,    /* a browser sent it for one */
    DENIAL_NAME,        /* profd has no such name */
    DENIAL_NO_TOKEN,    /* none was shown */
    DENIAL_WRONG_TOKEN, /* nobody's */
    DENIAL_THROTTLED,   /* one more of these, too soon */
    DENIAL_ROLE,        /* a token whose role is too low */
    _DENIAL_MAX,
};
/* How often, since it was made. */
const uint64_t *access_denials(const struct access *a);

/* Reads the files, where there are TCP addresses (LISTEN_MAX at most) to guard. -EINVAL, -EPERM, ... with the
 * remedy. */
int access_new(const struct api_settings *s, const struct listen_address *addresses, size_t n,
               struct access **ret, struct problem *p);
struct access *access_free(struct access *a);
DEFINE_CLEANUP(struct access *, access_free)

/* Reads them again, as s says; all as it was where anything is wrong. The addresses
 * that are listened on stay those of access_new(). */
int access_reload(struct access *a, const struct api_settings *s, struct problem *p);
/* NULL: TCP is without TLS. */
struct ssl_ctx_st *access_tls(const struct access *a);

/*
 * 0 where the request may pass; then http_user() is the token's name, on TCP. Else a negative errno value,
 * with the problem set and the headers of its reply added. route is NULL where the path leads nowhere, which
 * only those with a token are told.
 */
int access_check(struct access *a, struct http_request *r, const struct route *route, struct problem *p);
/* Whether a request that passed would pass again, by the rules of a later reload. Neither counted nor logged.
 */
bool access_holds(const struct access *a, const struct http_request *r, const struct route *route);
