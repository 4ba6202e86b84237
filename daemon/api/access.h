/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what over HTTP; no other module decides it.
 *
 * On the Unix socket every client that can connect may use all operations: its mode admits its owner, root
 * and the members of its group. On TCP a request needs a token whose role has the route's right, except for
 * routes that require none (routes.h). Requests of web pages other than profd's own are refused there first. What a
 * client of the socket relays counts as TCP (RELAY_HEADER).
 *
 * profd's own page logs in with a code that profctl asked for, and gets a token for some hours.
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

/* -- The web page (access_pages.c) -------------------------------------------------------------------- */

#define PAGE_USER_PREFIX "web:" /* of the users of pages, in logs and in requested_by */

struct page_grant {
    char *secret; /* the code, token or ticket */
    char *user;   /* without the prefix */
    enum right right;
    int64_t expires_at; /* wall */
};
void page_grant_done(struct page_grant *g);

/*
 * A code for one log-in, of a role that the caller has; RIGHT_NONE: operate, or the caller's if that is lower. -EPERM for
 * a higher role, and for pages.
 */
int access_new_code(struct access *a, const struct http_request *r, enum right role, struct page_grant *ret,
                    struct problem *p);
/* Exchanges a code for a token. Wrong codes are throttled as wrong tokens are. */
int access_log_in(struct access *a, struct http_request *r, const char *code, struct page_grant *ret,
                  struct problem *p);
/* Ends the token that the request shows, and its tickets. -ENOENT: it is none of a page. */
int access_log_out(struct access *a, const struct http_request *r);
/* When the token that the request shows ends, wall; 0: it does not, or there is none. */
int64_t access_expires_at(const struct access *a, const struct http_request *r);
/* A ticket that opens a target once, with the rights of who asks for it. */
int access_new_ticket(struct access *a, const struct http_request *r, const char *target,
                      struct page_grant *ret, struct problem *p);
/* Takes the ticket: the request gets the user and right of who asked for it, *ret_target the target, which the caller frees.
 * Wrong ones are throttled. */
int access_redeem_ticket(struct access *a, struct http_request *r, const char *ticket, char **ret_target,
                         struct problem *p);
/* "http://127.0.0.1:9460" where a browser of this host reaches profd without TLS. NULL: nowhere. The caller frees it. */
char *access_page_url(const struct access *a);
