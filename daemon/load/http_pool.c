/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/http_pool.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/curl_handle.h"
#include "base/http1_response.h"
#include "daemon/fleet/credentials.h"
#include "daemon/fleet/curl_loop.h"
#include "daemon/fleet/curl_names.h"
#include "daemon/load/http1_client.h"
#include "version.h"
#include <errno.h>
#include <sys/queue.h>

#define CONNECT_TIMEOUT_MS 10000L
/* For each exchange: large for few exchanges, a few events for ten thousand. */
#define RECEIVE_BUFFER       16384L
#define RECEIVE_BUFFER_SMALL 2048L
#define FEW_EXCHANGES        1024
#define SEND_BUFFER          16384L /* the least that libcurl takes */

struct exchange {
    LIST_ENTRY(exchange) link;
    struct multi *multi;
    CURL *easy;
    const struct load_target *target; /* that its options are set for */
    char *body;
    void *arg;
    size_t head_size;
    int open_errno; /* of the socket that could not be opened */
    const char *refused;
    bool sent, has_head, cut;
    char error[CURL_ERROR_SIZE];
};
LIST_HEAD(exchange_list, exchange);

/* One of libcurl's multi handles. */
struct multi {
    struct http_pool *pool;
    struct curl_loop *loop;
    struct exchange_list active, idle;
    size_t n; /* active */
};

struct http_pool {
    struct event_base *base;
    const struct network_policy *policy;
    const struct http_pool_ops *ops;
    struct http1_client *http1;
    struct multi **multis;
    size_t n, cap, last;
    size_t n_exchanges;
};

/* -- What libcurl calls for one exchange -------------------------------------------------------------- */

static curl_socket_t exchange_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct exchange *x = arg;
    struct in6_addr ip;
    const struct network_refusal *refusal =
        network_refuses(x->multi->pool->policy, address_of_socket(&address->addr, &ip) ? &ip : NULL);

    if (refusal) {
        x->refused = refusal->why;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0)
        x->open_errno = errno;
    return fd;
}

static int exchange_before_send(void *arg, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
    struct exchange *x = arg;

    /* libcurl itself sends again where a kept connection was closed, but a reset must count as an error. */
    if (x->sent)
        return CURL_PREREQFUNC_ABORT;
    x->multi->pool->ops->sent(x->arg, mono_ns());
    x->sent = true;
    return CURL_PREREQFUNC_OK;
}

static void exchange_take_head(struct exchange *x)
{
    const char *type = NULL;
    long status = 0;

    if (x->has_head)
        return;
    x->has_head = true;
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(x->easy, CURLINFO_CONTENT_TYPE, &type);
    x->multi->pool->ops->head(x->arg, (int)status, type);
}

/* libcurl bounds the head, but stores every trailer after the body. */
static size_t exchange_on_header(char *line, size_t size, size_t n, void *arg)
{
    struct exchange *x = arg;

    x->head_size += size * n;
    return x->head_size > HTTP1_HEAD_MAX ? 0 : size * n;
}

static size_t exchange_on_body(char *data, size_t size, size_t n, void *arg)
{
    struct exchange *x = arg;
    int64_t now_ns = mono_ns();

    exchange_take_head(x);
    x->cut = !x->multi->pool->ops->body(x->arg, data, size * n, now_ns);
    return x->cut ? 0 : size * n;
}

/* -- Exchanges ---------------------------------------------------------------------------------------- */

static void exchange_set_options(struct exchange *x)
{
    static const struct curl_callbacks callbacks = {exchange_open_socket, exchange_before_send,
                                                    exchange_on_header, exchange_on_body};
    bool few = ++x->multi->pool->n_exchanges <= FEW_EXCHANGES;

    curl_handle_prepare(x->easy, &callbacks, x, x->error, "profd-load/" PROFD_VERSION);
    curl_easy_setopt(x->easy, CURLOPT_POST, 1L);
    curl_easy_setopt(x->easy, CURLOPT_BUFFERSIZE, few ? RECEIVE_BUFFER : RECEIVE_BUFFER_SMALL);
    curl_easy_setopt(x->easy, CURLOPT_UPLOAD_BUFFERSIZE, SEND_BUFFER);
    curl_easy_setopt(x->easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    curl_easy_setopt(x->easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(x->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
}

static int exchange_set_target(struct exchange *x, const struct load_target *t)
{
    char *token = NULL, *error = NULL;
    int r = 0;

    if (x->target == t)
        return 0;
    curl_easy_setopt(x->easy, CURLOPT_URL, t->request_url);
    curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, t->headers);
    curl_easy_setopt(x->easy, CURLOPT_RESOLVE, t->addresses);
    curl_easy_setopt(x->easy, CURLOPT_RESOLVER_START_FUNCTION,
                     t->is_unresolved ? curl_refuse_to_resolve : NULL);
    /* All targets have the same certificates; the token is in the headers. */
    if (!x->target)
        r = call_credentials_use(t->credentials, false, x->easy, &token, &error);
    secret_free(token);
    free(error);
    if (r == 0)
        x->target = t;
    return r;
}

static struct exchange *exchange_get(struct multi *m)
{
    struct exchange *x = LIST_FIRST(&m->idle);

    if (x) {
        LIST_REMOVE(x, link);
        return x;
    }
    x = xcalloc(1, sizeof(*x));
    x->multi = m;
    x->easy = curl_easy_init();
    if (!x->easy)
        abort(); /* out of memory, as in base/alloc.h */
    exchange_set_options(x);
    return x;
}

static void exchange_put(struct exchange *x)
{
    struct multi *m = x->multi;

    LIST_REMOVE(x, link);
    curl_loop_remove(m->loop, x->easy);
    m->n--;
    free(TAKE_PTR(x->body));
    x->arg = NULL;
    x->head_size = 0;
    x->open_errno = 0;
    x->refused = NULL;
    x->sent = x->has_head = x->cut = false;
    x->error[0] = '\0';
    LIST_INSERT_HEAD(&m->idle, x, link);
}

static void exchange_end(struct exchange *x, int err, const char *text)
{
    const struct http_pool_ops *ops = x->multi->pool->ops;
    void *arg = x->arg;
    char copy[CURL_ERROR_SIZE];
    curl_off_t retry_after_s = 0;

    if (err == 0)
        exchange_take_head(x);
    curl_easy_getinfo(x->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    if (text)
        snprintf(copy, sizeof(copy), "%s", text);
    exchange_put(x);
    ops->done(arg, &(struct http_end){err, text ? copy : NULL, retry_after_s});
}

static void exchange_on_ended(void *private, CURLcode code)
{
    struct exchange *x = private;

    if (code == CURLE_OK)
        exchange_end(x, 0, NULL);
    else if (x->refused && !x->sent)
        exchange_end(x, -EPERM, x->refused);
    else if (x->open_errno && !x->sent)
        exchange_end(x, -x->open_errno, strerror(x->open_errno));
    else if (x->head_size > HTTP1_HEAD_MAX)
        exchange_end(x, -EMSGSIZE, "head and trailers of the response are longer than 64 KiB");
    else if (code == CURLE_ABORTED_BY_CALLBACK)
        exchange_end(x, -ECONNRESET, "the connection was closed before a response arrived");
    else
        exchange_end(x, curl_handle_errno(x->easy, code), x->error[0] ? x->error : curl_easy_strerror(code));
}

/* -- The pool ----------------------------------------------------------------------------------------- */

static struct multi *multi_new(struct http_pool *pool)
{
    /* An error of one handle is reported at its end; for all others nothing can be done. */
    static const struct curl_loop_ops ops = {.ended = exchange_on_ended};
    struct multi *m = xcalloc(1, sizeof(*m));

    m->pool = pool;
    if (curl_loop_new(pool->base, HTTP_POOL_EXCHANGES, &ops, NULL, &m->loop) < 0)
        abort(); /* out of memory, as in base/alloc.h */
    return m;
}

static void multi_free(struct multi *m)
{
    struct exchange *x;

    while ((x = LIST_FIRST(&m->active)))
        exchange_put(x);
    while ((x = LIST_FIRST(&m->idle))) {
        LIST_REMOVE(x, link);
        curl_easy_cleanup(x->easy);
        free(x);
    }
    curl_loop_free(m->loop);
    free(m);
}

/* The first with a free exchange, from the last one used: it has the idle connections of the last requests. */
static struct multi *http_pool_multi(struct http_pool *p)
{
    for (size_t i = 0; i < p->n; i++) {
        struct multi *m = p->multis[(p->last + i) % p->n];
        if (m->n < HTTP_POOL_EXCHANGES) {
            p->last = (p->last + i) % p->n;
            return m;
        }
    }
    VEC_GROW(p->multis, p->n, p->cap);
    p->last = p->n;
    return p->multis[p->n++] = multi_new(p);
}

static int http_pool_send_by_curl(struct http_pool *p, const struct load_target *target, char *body,
                                  size_t size, int64_t timeout_ns, void *arg)
{
    struct multi *m = http_pool_multi(p);
    struct exchange *x = exchange_get(m);

    x->body = body;
    x->arg = arg;
    m->n++;
    LIST_INSERT_HEAD(&m->active, x, link);
    int r = exchange_set_target(x, target);
    curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
    curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, x->body);
    curl_easy_setopt(x->easy, CURLOPT_TIMEOUT_MS, (long)MAX(INT64_C(1), timeout_ns / NS_PER_MS));
    if (r == 0)
        r = curl_loop_add(m->loop, x->easy);
    if (r < 0)
        exchange_put(x);
    return r;
}

int http_pool_send(struct http_pool *p, struct load_target *target, char *body, size_t size,
                   int64_t timeout_ns, void *arg)
{
    if (!http1_client_can(target))
        return http_pool_send_by_curl(p, target, body, size, timeout_ns, arg);
    http1_client_send(p->http1, target, body, size, timeout_ns, arg);
    free(body);
    return 0;
}

void http_pool_open(struct http_pool *p, struct load_target *target, size_t n)
{
    if (http1_client_can(target))
        http1_client_open(p->http1, target, n);
}

void http_pool_when_open(struct http_pool *p, void (*opened)(void *arg), void *arg)
{
    http1_client_when_open(p->http1, opened, arg);
}

void http_pool_cancel(struct http_pool *p, const char *error)
{
    http1_client_cancel(p->http1, error);
    for (size_t i = 0; i < p->n; i++) {
        struct exchange *x;
        while ((x = LIST_FIRST(&p->multis[i]->active)))
            exchange_end(x, -ECANCELED, error);
    }
}

int http_pool_new(struct event_base *base, const struct network_policy *policy,
                  const struct http_pool_ops *ops, struct http_pool **ret)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -EIO;
    *ret = xcalloc(1, sizeof(**ret));
    **ret = (struct http_pool){
        .base = base, .policy = policy, .ops = ops, .http1 = http1_client_new(base, policy, ops)};
    return 0;
}

struct http_pool *http_pool_free(struct http_pool *p)
{
    if (!p)
        return NULL;
    for (size_t i = 0; i < p->n; i++)
        multi_free(p->multis[i]);
    free(p->multis);
    http1_client_free(p->http1);
    free(p);
    curl_global_cleanup();
    return NULL;
}
