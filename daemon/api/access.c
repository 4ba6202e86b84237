/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/access_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/page_request.h"
#include "base/text.h"
#include "daemon/api/routes.h"
#include <errno.h>
#include <inttypes.h>
#include <openssl/ssl.h>

/* Refusals that are logged in a minute; the rest is counted. */
#define LOGGED_MAX      20
#define LOG_INTERVAL_NS (60 * NS_PER_S)
#define LOGGED_TEXT_MAX 200
#define CHALLENGE       "Bearer realm=\"profd\""

/* -- Rules -------------------------------------------------------------------------------------------- */

static void rules_done(struct access_rules *r)
{
    tokens_done(&r->tokens);
    SSL_CTX_free(r->tls);
    *r = (struct access_rules){0};
}

static int rules_load_tls(struct access_rules *r, const struct api_settings *s, struct problem *p)
{
    if (!s->cert_file && !s->key_file && !s->client_ca_file)
        return 0;
    if (!s->cert_file || !s->key_file) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "[http] %s= is set, but not %s=",
                    s->cert_file  ? "cert_file"
                    : s->key_file ? "key_file"
                                  : "client_ca_file",
                    s->cert_file ? "key_file" : "cert_file");
        problem_remedy(p, "TLS needs both [http] cert_file= and key_file= of profd.conf.");
        return -EINVAL;
    }
    return http_tls_new(&(struct http_tls_files){s->cert_file, s->key_file, s->client_ca_file}, &r->tls, p);
}

static const char token_remedy[] = "Create one with profctl token new NAME --role operate, and add the "
                                   "line that it prints to the file of [http] tokens_file=.";

/* Other hosts get access only with a token, and no token is sent unencrypted. */
static int rules_check_exposure(const struct access *a, const struct access_rules *r, bool plain_http,
                                struct problem *p)
{
    for (size_t i = 0; i < a->n_addresses; i++) {
        const struct listen_address *l = &a->addresses[i];
        if (address_is_loopback(&l->ip))
            continue;
        if (!r->tls && !plain_http) {
            problem_set(p, -EPERM, PROBLEM_DENIED, "listen=%s: tokens would be sent without encryption",
                        l->text);
            problem_remedy(p, "Set [http] cert_file= and key_file= of profd.conf, or plain_http=yes if the "
                              "network is protected otherwise.");
            return -EPERM;
        }
        if (r->tokens.n == 0) {
            problem_set(p, -EPERM, PROBLEM_DENIED, "listen=%s: no token is configured", l->text);
            problem_remedy(p, "%s", token_remedy);
            return -EPERM;
        }
    }
    return 0;
}

static int rules_load(const struct access *a, const struct api_settings *s, struct access_rules *ret,
                      struct problem *p)
{
    _cleanup_(rules_done) struct access_rules rules = {0};

    int r = s->tokens_file ? tokens_load(s->tokens_file, &rules.tokens, p) : 0;
    if (r == 0)
        r = rules_load_tls(&rules, s, p);
    if (r == 0)
        r = rules_check_exposure(a, &rules, s->plain_http, p);
    if (r < 0)
        return r;
    *ret = rules;
    rules = (struct access_rules){0};
    return 0;
}

int access_new(const struct api_settings *s, const struct listen_address *addresses, size_t n,
               struct access **ret, struct problem *p)
{
    _cleanup_(access_freep) struct access *a = xcalloc(1, sizeof(*a));

    a->settings = s;
    memcpy(a->addresses, addresses, n * sizeof(*addresses));
    a->n_addresses = n;
    access_pages_init(a);
    if (n > 0) {
        int r = rules_load(a, s, &a->rules, p);
        if (r < 0)
            return r;
        if (a->rules.tokens.n == 0) {
            log_warning("listen=%s: no token is configured, so no client has access", addresses[0].text);
            log_warning("  %s", token_remedy);
        }
    }
    *ret = TAKE_PTR(a);
    return 0;
}

struct access *access_free(struct access *a)
{
    if (!a)
        return NULL;
    rules_done(&a->rules);
    access_pages_done(a);
    free(a);
    return NULL;
}

static bool tokens_hold(const struct tokens *t, const struct token *token)
{
    for (size_t i = 0; i < t->n; i++)
        if (streq(t->items[i].name, token->name) && t->items[i].right == token->right)
            return true;
    return false;
}

int access_reload(struct access *a, const struct api_settings *s, access_gone gone, void *arg,
                  struct problem *p)
{
    struct access_rules rules, before;

    int r = a->n_addresses > 0 ? rules_load(a, s, &rules, p) : 0;
    if (r < 0 || a->n_addresses == 0)
        return r;
    before = a->rules;
    a->rules = rules;
    for (size_t i = 0; gone && i < before.tokens.n; i++)
        if (!tokens_hold(&rules.tokens, &before.tokens.items[i]))
            gone(before.tokens.items[i].name, arg);
    rules_done(&before);
    access_pages_recheck(a);
    return 0;
}

const uint64_t *access_denials(const struct access *a)
{
    return a->denials;
}

SSL_CTX *access_tls(const struct access *a)
{
    return a->rules.tls;
}

/* -- Requests ----------------------------------------------------------------------------------------- */

static int access_check_page(const struct http_request *r, struct problem *p)
{
    const struct page_request page = {
        .method = http_method_name(http_method(r)),
        .path = http_path(r),
        .host = http_header(r, "Host"),
        .origin = http_header(r, "Origin"),
        .site = http_header(r, "Sec-Fetch-Site"),
        .mode = http_header(r, "Sec-Fetch-Mode"),
        .dest = http_header(r, "Sec-Fetch-Dest"),
        .content_type = http_header(r, "Content-Type"),
        .has_body = http_body_length(r) > 0,
    };

    switch (page_request_check(&page)) {
    case PAGE_REQUEST_FOREIGN:
        problem_set(p, -EPERM, PROBLEM_DENIED, "pages of other origins have no access to profd");
        problem_remedy(p, "Use the page of profd itself: profctl web opens it.");
        return -EPERM;
    case PAGE_REQUEST_NOT_JSON:
        problem_set(p, -EPERM, PROBLEM_DENIED, "the body of a page's request must be application/json");
        return -EPERM;
    default:
        return 0;
    }
}

/*
 * Of pages only profd's own may send requests (page_request.h). A page that had its own name resolved to this host
 * is recognized by that name, also where it asks for nothing but static files.
 */
static int access_check_browser(const struct access *a, const struct http_request *r, enum denial *reason,
                                struct problem *p)
{
    const char *host = http_header(r, "Host");
    const struct host_rules ours = {a->addresses, a->n_addresses, a->settings->hosts, a->settings->n_hosts};

    *reason = DENIAL_WEB_PAGE;
    int err = access_check_page(r, p);
    if (err < 0)
        return err;
    *reason = DENIAL_NAME;
    if (host && host_is_ours(host, &ours))
        return 0;
    problem_set(p, -EPERM, PROBLEM_DENIED, "unknown host name %s", host ? host : "(none)");
    problem_remedy(p,
                   "Use the address that profd listens on, or add the name to [http] host= of profd.conf.");
    return -EPERM;
}

static bool access_is_open(const struct access *a, const struct http_request *r, const struct route *route)
{
    if (!route || route->right != RIGHT_NONE || route->everybody)
        return route && route->everybody;
    for (size_t i = 0; i < a->settings->n_open_to; i++)
        if (address_range_has(&a->settings->open_to[i], &http_peer(r)->ip))
            return true;
    return false;
}

static int access_ask_to_wait(struct http_request *r, int64_t wait_ns, struct problem *p)
{
    char seconds[24];

    snprintf(seconds, sizeof(seconds), "%" PRId64, (wait_ns + NS_PER_S - 1) / NS_PER_S);
    http_reply_header(r, "Retry-After", seconds);
    problem_set(p, -EAGAIN, PROBLEM_TOO_MANY, "too many wrong tokens from this address");
    problem_remedy(p, "Correct the client that sends them, and wait %s s.", seconds);
    return -EAGAIN;
}

static int access_refuse_token(struct http_request *r, bool given, struct problem *p)
{
    http_reply_header(r, "WWW-Authenticate", given ? CHALLENGE ", error=\"invalid_token\"" : CHALLENGE);
    problem_set(p, -EACCES, PROBLEM_NO_TOKEN, given ? "unknown token" : "a token is required");
    problem_remedy(
        p, "%s",
        given ? "Check that the token is in the tokens file of this profd; the page of profd needs a new "
                "log-in: profctl web."
              : "Send \"Authorization: Bearer TOKEN\"; profctl takes it from --token-file FILE, "
                "$PROFD_TOKEN_FILE or ~/.config/profd/token, the page from profctl web.");
    return -EACCES;
}

int access_on_wrong_secret(struct access *a, struct http_request *r, const struct problem *unknown,
                           enum denial *ret_reason, struct problem *p)
{
    const struct in6_addr *ip = &http_peer(r)->ip;
    int64_t wait_ns = guard_wait_ns(&a->guard, ip, mono_ns());

    *ret_reason = wait_ns > 0 ? DENIAL_THROTTLED : DENIAL_WRONG_TOKEN;
    if (wait_ns > 0)
        return access_ask_to_wait(r, wait_ns, p);
    guard_failed(&a->guard, ip, mono_ns());
    return unknown ? problem_copy(p, -EACCES, unknown->kind, unknown) : access_refuse_token(r, true, p);
}

static enum right access_needed_right(const struct http_request *r, const struct route *route)
{
    enum right right = route ? route->right : RIGHT_READ;
    const char *rest = route && route->operate ? route->operate : "", *word;
    size_t size;

    while ((size = words_next(&rest, &word)) > 0) {
        _cleanup_(freep) char *name = xstrndup(word, size);
        if (http_query_get(r, name))
            right = right_includes(right, RIGHT_OPERATE) ? right : RIGHT_OPERATE;
    }
    return right;
}

static int access_check_role(struct http_request *r, const struct access_author *author, enum right needed,
                             struct problem *p)
{
    if (right_includes(author->right, needed))
        return 0;
    _cleanup_(freep) char *challenge =
        xasprintf(CHALLENGE ", error=\"insufficient_scope\", scope=\"%s\"", right_name(needed));
    http_reply_header(r, "WWW-Authenticate", challenge);
    problem_set(p, -EPERM, PROBLEM_DENIED, "the request requires role %s; %s %s has role %s",
                right_name(needed), author->login ? "the page of" : "token", author->user,
                right_name(author->right));
    problem_remedy(p,
                   author->login ? "Log in with role %s: profctl web --role %s."
                                 : "Use a token with role %s: profctl token new NAME --role %s creates one.",
                   right_name(needed), right_name(needed));
    return -EPERM;
}

bool access_find_author(const struct access *a, const struct http_request *r, struct access_author *ret)
{
    const char *text = tokens_of_header(http_header(r, "Authorization"));
    const struct token *token = text ? tokens_find(&a->rules.tokens, text) : NULL;
    const struct grant *login = text && !token ? grants_find(&a->logins, text, mono_ns()) : NULL;

    if (token)
        *ret = (struct access_author){.user = token->name, .right = token->right, .token = token};
    else if (login)
        *ret = (struct access_author){.user = login->user, .right = login->right, .login = login};
    return token || login;
}

static int access_check_token(struct access *a, struct http_request *r, const struct route *route,
                              enum denial *reason, struct problem *p)
{
    struct access_author author;

    *reason = DENIAL_NO_TOKEN;
    if (!http_header(r, "Authorization"))
        return access_refuse_token(r, false, p);
    /* Tokens are too long to be guessed, and an address may be shared: a valid token is not refused because
     * another client of the same proxy or host sends wrong ones. */
    if (!access_find_author(a, r, &author))
        return access_on_wrong_secret(a, r, NULL, reason, p);
    http_set_user(r, author.user);
    http_set_right(r, author.right);
    *reason = DENIAL_ROLE;
    return access_check_role(r, &author, access_needed_right(r, route), p);
}

/* One line for each refusal, up to a limit: refused clients must not fill the disk. */
static void access_log_refusal(struct access *a, const struct http_request *r, const struct problem *p)
{
    int64_t now_ns = mono_ns();

    if (a->log_since_ns == 0 || now_ns - a->log_since_ns >= LOG_INTERVAL_NS) {
        if (a->n_refused > LOGGED_MAX)
            log_notice("http: %u more requests were refused", a->n_refused - LOGGED_MAX);
        a->log_since_ns = now_ns;
        a->n_refused = 0;
    }
    if (++a->n_refused <= LOGGED_MAX)
        log_notice("http: refused %s: %.*s", http_peer(r)->address, LOGGED_TEXT_MAX, p->what);
}

void access_on_refused(struct access *a, const struct http_request *r, enum denial reason,
                       const struct problem *p)
{
    a->denials[reason]++;
    access_log_refusal(a, r, p);
}

int access_check(struct access *a, struct http_request *r, const struct route *route, struct problem *p)
{
    if (http_peer(r)->local)
        return 0;
    enum denial reason;
    int err = access_check_browser(a, r, &reason, p);
    if (err == 0 && !access_is_open(a, r, route))
        err = access_check_token(a, r, route, &reason, p);
    if (err < 0)
        access_on_refused(a, r, reason, p);
    return err;
}

bool access_holds(const struct access *a, const struct http_request *r, const struct route *route)
{
    if (http_peer(r)->local)
        return true;
    enum denial reason;
    if (access_check_browser(a, r, &reason, NULL) < 0)
        return false;
    if (access_is_open(a, r, route))
        return true;
    struct access_author author;
    return access_find_author(a, r, &author) && right_includes(author.right, access_needed_right(r, route));
}
