/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/wire.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/credentials.h"
#include "daemon/fleet/curl_loop.h"
#include "daemon/load/wire_place.h"
#include "version.h"
#include <errno.h>
#include <sys/queue.h>

#define CONNECT_TIMEOUT_MS 10000L
/* Each exchange has one: large where they are few, a few events where they are ten thousand. */
#define RECEIVE_BUFFER       16384L
#define RECEIVE_BUFFER_SMALL 2048L
#define FEW_EXCHANGES        1024
#define SEND_BUFFER          16384L /* the least that libcurl takes */
#define KEEPALIVE_S          30L
#define HEAD_MAX             (64u << 10)

struct exchange {
    LIST_ENTRY(exchange) link;
    struct wire *wire;
    CURL *easy;
    const struct wire_place *place;
    char *body;
    void *arg;
    size_t head_size;
    int open_errno; /* of the socket that could not be opened */
    const char *refused;
    bool sent, has_head, cut;
    char error[CURL_ERROR_SIZE];
};
LIST_HEAD(exchange_list, exchange);

/* What shares one of libcurl's multi handles. */
struct wire {
    struct wires *owner;
    struct curl_loop *loop;
    struct exchange_list active, idle;
    size_t n;
};

struct wires {
    struct event_base *base;
    const struct network_policy *policy;
    const struct wire_ops *ops;
    struct wire **wires;
    size_t n, cap, last;
    size_t n_exchanges;
};

static const struct {
    CURLcode code;
    int err;
} errors[] = {
    {CURLE_COULDNT_CONNECT, -ECONNREFUSED}, {CURLE_COULDNT_RESOLVE_HOST, -EHOSTUNREACH},
    {CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT}, {CURLE_SEND_ERROR, -ECONNRESET},
    {CURLE_RECV_ERROR, -ECONNRESET},        {CURLE_GOT_NOTHING, -ECONNRESET},
    {CURLE_PARTIAL_FILE, -ECONNRESET},      {CURLE_WRITE_ERROR, -EMSGSIZE},
};

static int error_of(CURLcode code)
{
    for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
        if (errors[i].code == code)
            return errors[i].err;
    return -EPROTO;
}

/* -- What libcurl calls for one exchange -------------------------------------------------------------- */

static curl_socket_t on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct exchange *x = arg;
    struct in6_addr ip;
    const struct network_refusal *refusal =
        network_refuses(x->wire->owner->policy, address_of_socket(&address->addr, &ip) ? &ip : NULL);

    if (refusal) {
        x->refused = refusal->why;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0)
        x->open_errno = errno;
    return fd;
}

/* Of a host without addresses (hosts.h): name servers are not asked any more. */
static int refuse_to_resolve(void *resolver, void *reserved, void *arg)
{
    return 1;
}

static int on_before_send(void *arg, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
    struct exchange *x = arg;

    /* libcurl sends again by itself where a kept connection turns out to be closed: a reset is to be counted.
     */
    if (x->sent)
        return CURL_PREREQFUNC_ABORT;
    x->wire->owner->ops->sent(x->arg, mono_ns());
    x->sent = true;
    return CURL_PREREQFUNC_OK;
}

static void take_head(struct exchange *x)
{
    const char *type = NULL;
    long status = 0;

    if (x->has_head)
        return;
    x->has_head = true;
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(x->easy, CURLINFO_CONTENT_TYPE, &type);
    x->wire->owner->ops->head(x->arg, (int)status, type);
}

/* libcurl bounds the head, but keeps every field that comes behind the body. */
static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    struct exchange *x = arg;

    x->head_size += size * n;
    return x->head_size > HEAD_MAX ? 0 : size * n;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct exchange *x = arg;
    int64_t now_ns = mono_ns();

    take_head(x);
    x->cut = !x->wire->owner->ops->body(x->arg, data, size * n, now_ns);
    return x->cut ? 0 : size * n;
}

/* -- Exchanges ---------------------------------------------------------------------------------------- */

static void set_options(struct exchange *x)
{
    bool few = ++x->wire->owner->n_exchanges <= FEW_EXCHANGES;
    CURL *e = x->easy;

    curl_easy_setopt(e, CURLOPT_PRIVATE, x);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, x->error);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, x);
    curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_before_send);
    curl_easy_setopt(e, CURLOPT_PREREQDATA, x);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(e, CURLOPT_POST, 1L);
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, few ? RECEIVE_BUFFER : RECEIVE_BUFFER_SMALL);
    curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, SEND_BUFFER);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
    curl_easy_setopt(e, CURLOPT_DNS_CACHE_TIMEOUT, -1L);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "profd-load/" PROFD_VERSION);
}

static int set_place(struct exchange *x, const struct wire_place *place)
{
    char *token = NULL, *error = NULL;
    int r = 0;

    if (x->place == place)
        return 0;
    curl_easy_setopt(x->easy, CURLOPT_URL, place->url);
    curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, place->headers);
    curl_easy_setopt(x->easy, CURLOPT_RESOLVE, place->addresses);
    curl_easy_setopt(x->easy, CURLOPT_RESOLVER_START_FUNCTION, place->is_unknown ? refuse_to_resolve : NULL);
    /* Certificates are the same everywhere; the token is in the headers. */
    if (!x->place)
        r = credentials_use(place->credentials, false, x->easy, &token, &error);
    secret_free(token);
    free(error);
    if (r == 0)
        x->place = place;
    return r;
}

static void exchange_free(struct exchange *x)
{
    curl_easy_cleanup(x->easy);
    free(x->body);
    free(x);
}

static struct exchange *exchange_get(struct wire *w)
{
    struct exchange *x = LIST_FIRST(&w->idle);

    if (x) {
        LIST_REMOVE(x, link);
        return x;
    }
    x = xcalloc(1, sizeof(*x));
    x->wire = w;
    x->easy = curl_easy_init();
    if (!x->easy)
        abort(); /* as base/alloc.h: a few kilobytes were not there */
    set_options(x);
    return x;
}

static void exchange_put(struct exchange *x)
{
    struct wire *w = x->wire;

    LIST_REMOVE(x, link);
    curl_loop_remove(w->loop, x->easy);
    w->n--;
    free(TAKE_PTR(x->body));
    x->arg = NULL;
    x->head_size = 0;
    x->open_errno = 0;
    x->refused = NULL;
    x->sent = x->has_head = x->cut = false;
    x->error[0] = '\0';
    LIST_INSERT_HEAD(&w->idle, x, link);
}

static void exchange_end(struct exchange *x, int err, const char *text)
{
    const struct wire_ops *ops = x->wire->owner->ops;
    void *arg = x->arg;
    char words[CURL_ERROR_SIZE];
    curl_off_t retry_after_s = 0;

    if (err == 0)
        take_head(x);
    curl_easy_getinfo(x->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    if (text)
        snprintf(words, sizeof(words), "%s", text);
    exchange_put(x);
    ops->done(arg, &(struct wire_end){err, text ? words : NULL, retry_after_s});
}

static void on_ended(void *private, CURLcode code)
{
    struct exchange *x = private;

    if (code == CURLE_OK)
        exchange_end(x, 0, NULL);
    else if (x->refused && !x->sent)
        exchange_end(x, -EPERM, x->refused);
    else if (x->open_errno && !x->sent)
        exchange_end(x, -x->open_errno, strerror(x->open_errno));
    else if (x->head_size > HEAD_MAX)
        exchange_end(x, -EMSGSIZE,
                     "the head of the answer, with what follows its body, is longer than 64 KiB");
    else if (code == CURLE_ABORTED_BY_CALLBACK)
        exchange_end(x, -ECONNRESET, "the connection was closed before an answer came");
    else
        exchange_end(x, error_of(code), x->error[0] ? x->error : curl_easy_strerror(code));
}

/* -- Wires -------------------------------------------------------------------------------------------- */

static struct wire *wire_new(struct wires *owner)
{
    /* What is wrong with one handle is said at its end; of the others there is nothing else to be done. */
    static const struct curl_loop_ops ops = {.ended = on_ended};
    struct wire *w = xcalloc(1, sizeof(*w));

    w->owner = owner;
    if (curl_loop_new(owner->base, WIRE_EXCHANGES, &ops, NULL, &w->loop) < 0)
        abort(); /* as base/alloc.h */
    return w;
}

static void wire_free(struct wire *w)
{
    struct exchange *x;

    while ((x = LIST_FIRST(&w->active)))
        exchange_put(x);
    while ((x = LIST_FIRST(&w->idle))) {
        LIST_REMOVE(x, link);
        exchange_free(x);
    }
    curl_loop_free(w->loop);
    free(w);
}

/* The first that has room: idle connections lie where the last requests went. */
static struct wire *wire_with_room(struct wires *w)
{
    for (size_t i = 0; i < w->n; i++) {
        struct wire *wire = w->wires[(w->last + i) % w->n];
        if (wire->n < WIRE_EXCHANGES) {
            w->last = (w->last + i) % w->n;
            return wire;
        }
    }
    VEC_GROW(w->wires, w->n, w->cap);
    w->last = w->n;
    return w->wires[w->n++] = wire_new(w);
}

int wires_send(struct wires *w, struct wire_place *place, char *body, size_t size, int64_t timeout_ns,
               void *arg)
{
    struct wire *wire = wire_with_room(w);
    struct exchange *x = exchange_get(wire);

    x->body = body;
    x->arg = arg;
    wire->n++;
    LIST_INSERT_HEAD(&wire->active, x, link);
    int r = set_place(x, place);
    curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
    curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, x->body);
    curl_easy_setopt(x->easy, CURLOPT_TIMEOUT_MS, (long)MAX(INT64_C(1), timeout_ns / NS_PER_MS));
    if (r == 0)
        r = curl_loop_add(wire->loop, x->easy);
    if (r < 0)
        exchange_put(x);
    return r;
}

void wires_cut(struct wires *w, const char *error)
{
    for (size_t i = 0; i < w->n; i++) {
        struct exchange *x;
        while ((x = LIST_FIRST(&w->wires[i]->active)))
            exchange_end(x, -ECANCELED, error);
    }
}

int wires_new(struct event_base *base, const struct network_policy *policy, const struct wire_ops *ops,
              struct wires **ret)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -EIO;
    struct wires *w = xcalloc(1, sizeof(*w));
    *w = (struct wires){.base = base, .policy = policy, .ops = ops};
    *ret = w;
    return 0;
}

struct wires *wires_free(struct wires *w)
{
    if (!w)
        return NULL;
    for (size_t i = 0; i < w->n; i++)
        wire_free(w->wires[i]);
    free(w->wires);
    free(w);
    curl_global_cleanup();
    return NULL;
}
