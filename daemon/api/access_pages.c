/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codes, tokens and tickets of the web page: who gets them, what for, and when they end. All are in memory only.
 *
 * Whoever may use profd asks for a code (profctl web), which the page exchanges for a token. Both have the name of that
 * user and a role that the user has; they end with the token of the file that the user had, or when its role is lowered. A
 * ticket stands for the token in a link, which has no headers: it opens one file, once.
 */
#include "daemon/api/access_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/api/handler.h"
#include <errno.h>
#include <inttypes.h>

#define CODE_NS          (60 * NS_PER_S)
#define CODES_MAX        256
#define CODES_USER_MAX   8
#define LOGIN_NS         (INT64_C(12) * 3600 * NS_PER_S)
#define LOGINS_MAX       1024
#define LOGINS_USER_MAX  64
#define TICKET_NS        (60 * NS_PER_S)
#define TICKETS_MAX      1024
#define TICKETS_USER_MAX 64

void page_grant_done(struct page_grant *g)
{
    if (g->secret)
        explicit_bzero(g->secret, strlen(g->secret));
    free(g->secret);
    free(g->user);
    *g = (struct page_grant){0};
}

void access_pages_init(struct access *a)
{
    a->codes = (struct grants){.max = CODES_MAX, .user_max = CODES_USER_MAX};
    a->logins = (struct grants){.max = LOGINS_MAX, .user_max = LOGINS_USER_MAX};
    a->tickets = (struct grants){.max = TICKETS_MAX, .user_max = TICKETS_USER_MAX};
}

void access_pages_done(struct access *a)
{
    grants_done(&a->codes);
    grants_done(&a->logins);
    grants_done(&a->tickets);
}

/* -- Ends --------------------------------------------------------------------------------------------- */

static bool grant_lost_token(const struct grant *g, const void *arg)
{
    const struct tokens *tokens = arg;

    for (size_t i = 0; g->token && i < tokens->n; i++) {
        const struct token *t = &tokens->items[i];
        if (streq(t->name, g->token))
            return memcmp(t->hash, g->token_hash, TOKEN_HASH_BYTES) != 0 ||
                   !right_includes(t->right, g->right);
    }
    return g->token;
}

void access_pages_recheck(struct access *a)
{
    struct grants *const tables[] = {&a->codes, &a->logins, &a->tickets};

    for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
        grants_remove_if(tables[i], grant_lost_token, &a->rules.tokens);
}

static bool grant_is_number(const struct grant *g, const void *number)
{
    return g->number == *(const uint64_t *)number;
}

static bool grant_is_of_login(const struct grant *g, const void *number)
{
    return g->login == *(const uint64_t *)number;
}

int access_log_out(struct access *a, const struct http_request *r)
{
    struct access_author author;

    if (!access_find_author(a, r, &author) || !author.login)
        return -ENOENT;
    uint64_t number = author.login->number;
    log_notice("http: %s signed out", author.user);
    grants_remove_if(&a->logins, grant_is_number, &number);
    grants_remove_if(&a->tickets, grant_is_of_login, &number);
    return 0;
}

int64_t access_expires_at(const struct access *a, const struct http_request *r)
{
    struct access_author author;

    return access_find_author(a, r, &author) && author.login ? wall_ns() + author.login->ends_ns - mono_ns()
                                                             : 0;
}

/* -- Beginnings --------------------------------------------------------------------------------------- */

static int access_add_grant(struct grants *t, const struct grant *of, const char *prefix, int64_t life_ns,
                            struct page_grant *ret, struct problem *p)
{
    char secret[GRANT_SECRET_SIZE];
    int64_t now_ns = mono_ns();
    struct grant timed = *of;

    timed.ends_ns = now_ns + life_ns;
    int r = grants_add(t, &timed, prefix, now_ns, secret, p);
    if (r < 0)
        return r;
    const char *user =
        starts_with(of->user, PAGE_USER_PREFIX) ? of->user + strlen(PAGE_USER_PREFIX) : of->user;
    *ret = (struct page_grant){.secret = xstrdup(secret),
                               .user = xstrdup(user),
                               .right = of->right,
                               .expires_at = wall_ns() + life_ns};
    explicit_bzero(secret, sizeof(secret));
    return 0;
}

/* What a grant for the author of the request has in common, whatever it is for. On the Unix socket all may do everything. */
static void access_describe_author(const struct access *a, const struct http_request *r, char *actor,
                                   struct grant *ret)
{
    struct access_author author;

    *ret = (struct grant){.user = actor, .right = RIGHT_ADMIN};
    if (http_peer(r)->local || !access_find_author(a, r, &author))
        return;
    ret->right = author.right;
    const unsigned char *hash = author.token ? author.token->hash : author.login->token_hash;
    ret->token = author.token ? author.token->name : author.login->token;
    ret->login = author.login ? author.login->number : 0;
    memcpy(ret->token_hash, hash, TOKEN_HASH_BYTES);
}

int access_new_code(struct access *a, const struct http_request *r, enum right role, struct page_grant *ret,
                    struct problem *p)
{
    _cleanup_(freep) char *actor = request_actor(r);
    struct grant grant;

    access_describe_author(a, r, actor, &grant);
    if (grant.login) {
        problem_remedy(p, "Run profctl web.");
        return problem_set(p, -EPERM, PROBLEM_DENIED, "a page cannot create codes for other pages");
    }
    if (role == RIGHT_NONE)
        role = right_includes(grant.right, RIGHT_OPERATE) ? RIGHT_OPERATE : RIGHT_READ;
    if (!right_includes(grant.right, role)) {
        problem_remedy(p, "Omit --role, or use a token with role %s.", right_name(role));
        return problem_set(p, -EPERM, PROBLEM_DENIED, "%s has role %s, so a page cannot have role %s", actor,
                           right_name(grant.right), right_name(role));
    }
    grant.right = role;
    return access_add_grant(&a->codes, &grant, "", CODE_NS, ret, p);
}

/* A secret that is valid once was not: the request gets `p`, and counts as a guess of its client. */
static int access_refuse_secret(struct access *a, struct http_request *r, enum problem_kind kind,
                                const char *what, const char *remedy, struct problem *p)
{
    _cleanup_(problem_done) struct problem unknown = {0};
    enum denial reason;

    problem_set(&unknown, -EACCES, kind, "%s", what);
    problem_remedy(&unknown, "%s", remedy);
    int err = access_on_wrong_secret(a, r, &unknown, &reason, p);
    access_on_refused(a, r, reason, p);
    return err;
}

int access_log_in(struct access *a, struct http_request *r, const char *code, struct page_grant *ret,
                  struct problem *p)
{
    _cleanup_(grant_done) struct grant used = {0};

    if (grants_take(&a->codes, code, mono_ns(), &used) < 0)
        return access_refuse_secret(a, r, PROBLEM_NO_TOKEN, "the code is unknown, was used, or has expired",
                                    "Run profctl web for another one: a code is valid once, for 60 s.", p);
    _cleanup_(freep) char *user = xasprintf(PAGE_USER_PREFIX "%s", used.user);
    struct grant grant = used;
    grant.user = user;
    int err = access_add_grant(&a->logins, &grant, TOKEN_PREFIX, LOGIN_NS, ret, p);
    if (err == 0)
        log_notice("http: %s logged in with role %s from %s", user, right_name(grant.right),
                   http_peer(r)->address);
    return err;
}

int access_new_ticket(struct access *a, const struct http_request *r, const char *target,
                      struct page_grant *ret, struct problem *p)
{
    _cleanup_(freep) char *actor = request_actor(r), *copy = xstrdup(target);
    struct grant grant;

    access_describe_author(a, r, actor, &grant);
    grant.target = copy;
    return access_add_grant(&a->tickets, &grant, "", TICKET_NS, ret, p);
}

int access_redeem_ticket(struct access *a, struct http_request *r, const char *ticket, char **ret_target,
                         struct problem *p)
{
    _cleanup_(grant_done) struct grant used = {0};

    if (grants_take(&a->tickets, ticket, mono_ns(), &used) < 0)
        return access_refuse_secret(a, r, PROBLEM_NOT_FOUND, "the link is unknown, was used, or has expired",
                                    "Start the download from the page again: a link is valid once, for 60 s.",
                                    p);
    http_set_user(r, used.user);
    http_set_right(r, used.right);
    *ret_target = TAKE_PTR(used.target);
    return 0;
}

char *access_page_url(const struct access *a)
{
    for (size_t i = 0; !a->rules.tls && i < a->n_addresses; i++) {
        const struct listen_address *l = &a->addresses[i];
        const char *port = strrchr(l->text, ':');
        if (address_is_wildcard(&l->ip))
            return xasprintf("http://%s%s", address_is_v4(&l->ip) ? "127.0.0.1" : "[::1]", port);
        if (address_is_loopback(&l->ip))
            return xasprintf("http://%s", l->text);
    }
    return NULL;
}
