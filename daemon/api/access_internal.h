/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of access control share: access.c decides on requests, access_pages.c hands out and takes back what
 * the web page needs. Only those two include it.
 */
#pragma once

#include "daemon/api/access.h"
#include "daemon/api/access_rules.h"
#include "daemon/api/grants.h"

/* What a reload replaces. */
struct access_rules {
    struct tokens tokens;
    struct ssl_ctx_st *tls;
};

struct access {
    const struct api_settings *settings;
    struct listen_address addresses[LISTEN_MAX];
    size_t n_addresses;
    struct access_rules rules;
    struct token_guard guard;
    struct grants codes, logins, tickets;
    uint64_t denials[_DENIAL_MAX];
    int64_t log_since_ns;
    unsigned n_refused; /* since then */
};

/* Who a request shows to be, by its token. */
struct access_author {
    const char *user;
    enum right right;
    const struct token *token; /* NULL: it is that of a page */
    const struct grant *login; /* NULL: it is one of the file */
};
/* False where it shows no token, or an unknown one. */
bool access_find_author(const struct access *a, const struct http_request *r, struct access_author *ret);
/* A wrong token, code or ticket was shown: counts it, and sets the problem, which asks its sender to wait where it was one of
 * too many. Otherwise the problem is `unknown`. Returns the error, and the reason. */
int access_on_wrong_secret(struct access *a, struct http_request *r, const struct problem *unknown,
                           enum denial *ret_reason, struct problem *p);
/* Counts and logs a refusal. */
void access_on_refused(struct access *a, const struct http_request *r, enum denial reason,
                       const struct problem *p);

/* access_pages.c */
void access_pages_init(struct access *a);
void access_pages_done(struct access *a);
/* Ends what tokens vouched for that the file does not have any more, or with a lower role. */
void access_pages_recheck(struct access *a);
