/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/http1_pool.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include <errno.h>
#include <event2/event_struct.h>
#include <netinet/tcp.h>
#include <sys/queue.h>

#define BUCKETS       1024
#define RECEIVE_BYTES 8192
/* What the kernel keeps of an answer that is not read: it may grow to megabytes of each connection otherwise. */
#define SOCKET_BUFFER_BYTES (64 << 10)
#define KEEPALIVE_S         30 /* a stop is silent for minutes */

struct http1_connection {
    LIST_ENTRY(http1_connection) bucket; /* while it is idle */
    TAILQ_ENTRY(http1_connection) age;
    struct http1_pool *pool;
    struct http1_exchange *exchange; /* NULL: it is idle */
    struct in6_addr address;
    int port, fd;
    struct event readable, writable;
    bool connecting;
    char *held; /* bytes of an answer that waits, of which the first are its body; NULL: none */
    size_t n_held, n_held_body;
};
LIST_HEAD(http1_bucket, http1_connection);
TAILQ_HEAD(http1_idle, http1_connection);

struct http1_exchange {
    TAILQ_ENTRY(http1_exchange) link;
    struct http1_queue *queue; /* in which it waits to begin; NULL: it has begun */
    struct http1_pool *pool;
    const struct http1_ops *ops;
    void *arg;
    struct http1_connection *connection; /* NULL: none now */
    struct in6_addr *addresses;
    size_t n_addresses, next_address;
    int port;
    char *text;
    size_t size, n_sent;
    bool once, head_only, on_kept;
    int64_t connect_timeout_ns, connect_until_ns, deadline_ns;
    struct event timer;
    int connect_error; /* of the last address */
    struct http1_response response;
};
TAILQ_HEAD(http1_queue, http1_exchange);

struct http1_pool {
    struct event_base *base;
    struct event due;
    struct http1_queue waiting, beginning;
    struct http1_bucket buckets[BUCKETS]; /* of idle connections, by address and port */
    struct http1_idle idle;               /* the oldest first */
    size_t n_idle, idle_max;
};

/* -- Connections -------------------------------------------------------------------------------------- */

static void http1_connection_on_readable(evutil_socket_t fd, short what, void *arg);
static void http1_connection_on_writable(evutil_socket_t fd, short what, void *arg);

static struct http1_bucket *http1_pool_bucket(struct http1_pool *p, const struct in6_addr *address, int port)
{
    uint64_t words[2];

    memcpy(words, address, sizeof(words));
    return &p->buckets[hash_words(words[0] ^ words[1], (uint64_t)port) % BUCKETS];
}

static void http1_connection_close(struct http1_connection *c)
{
    if (!c->exchange) {
        LIST_REMOVE(c, bucket);
        TAILQ_REMOVE(&c->pool->idle, c, age);
        c->pool->n_idle--;
    } else {
        c->exchange->connection = NULL;
    }
    event_del(&c->readable);
    event_del(&c->writable);
    close(c->fd);
    free(c->held);
    free(c);
}

static void http1_connection_keep(struct http1_connection *c)
{
    struct http1_pool *p = c->pool;

    c->exchange->connection = NULL;
    c->exchange = NULL;
    LIST_INSERT_HEAD(http1_pool_bucket(p, &c->address, c->port), c, bucket);
    TAILQ_INSERT_TAIL(&p->idle, c, age);
    if (++p->n_idle > p->idle_max)
        http1_connection_close(TAILQ_FIRST(&p->idle));
}

/* Neither closed by the server, nor with bytes that nobody asked for. */
static bool http1_connection_is_quiet(const struct http1_connection *c)
{
    char byte;
    return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static struct http1_connection *http1_pool_take_idle(struct http1_pool *p, const struct in6_addr *address,
                                                     int port)
{
    struct http1_connection *c, *next;

    for (c = LIST_FIRST(http1_pool_bucket(p, address, port)); c; c = next) {
        next = LIST_NEXT(c, bucket);
        if (c->port != port || !IN6_ARE_ADDR_EQUAL(&c->address, address))
            continue;
        if (!http1_connection_is_quiet(c)) {
            http1_connection_close(c);
            continue;
        }
        LIST_REMOVE(c, bucket);
        TAILQ_REMOVE(&p->idle, c, age);
        p->n_idle--;
        return c;
    }
    return NULL;
}

static int http1_pool_open_socket(struct http1_pool *p, int family)
{
    const int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    int fd = socket(family, type, IPPROTO_TCP);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && !TAILQ_EMPTY(&p->idle)) {
        http1_connection_close(TAILQ_FIRST(&p->idle));
        fd = socket(family, type, IPPROTO_TCP);
    }
    return fd < 0 ? -errno : fd;
}

/* Begins to connect. */
static int http1_connection_open(struct http1_exchange *x, const struct in6_addr *address)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_RCVBUF, SOCKET_BUFFER_BYTES},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_S},
    };
    struct sockaddr_in6 to;
    socklen_t size = address_to_socket(address, x->port, &to);
    int fd = http1_pool_open_socket(x->pool, to.sin6_family);

    if (fd < 0)
        return fd;
    for (size_t i = 0; i < ARRAY_SIZE(options); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
    if (connect(fd, (struct sockaddr *)&to, size) < 0 && errno != EINPROGRESS) {
        int r = -errno;
        close(fd);
        return r;
    }
    struct http1_connection *c = xcalloc(1, sizeof(*c));
    *c = (struct http1_connection){
        .pool = x->pool, .exchange = x, .address = *address, .port = x->port, .fd = fd, .connecting = true};
    event_assign(&c->readable, x->pool->base, fd, EV_READ | EV_PERSIST, http1_connection_on_readable, c);
    event_assign(&c->writable, x->pool->base, fd, EV_WRITE, http1_connection_on_writable, c);
    event_add(&c->writable, NULL);
    x->connection = c;
    return 0;
}

/* -- Exchanges ---------------------------------------------------------------------------------------- */

static void http1_exchange_end(struct http1_exchange *x, int err, const char *error)
{
    if (x->connection)
        http1_connection_close(x->connection);
    event_del(&x->timer);
    x->ops->ended(x->arg, err, error);
}

/* To the next address. */
static void http1_exchange_connect(struct http1_exchange *x)
{
    while (x->next_address < x->n_addresses) {
        size_t n_left = x->n_addresses - x->next_address;
        const struct in6_addr *address = &x->addresses[x->next_address++];
        if (!x->ops->allows(x->arg, address))
            continue;
        int r = http1_connection_open(x, address);
        if (r < 0) {
            x->connect_error = r;
            continue;
        }
        int64_t now = mono_ns(), until = now + (x->connect_until_ns - now) / (int64_t)n_left;
        struct timeval tv = timeval_until(MIN(until, x->deadline_ns));
        event_add(&x->timer, &tv);
        return;
    }
    if (x->connect_error == 0)
        http1_exchange_end(x, -EPERM, "none of its addresses is allowed");
    else
        http1_exchange_end(x, x->connect_error,
                           x->connect_error == -ETIMEDOUT ? "no connection" : strerror(-x->connect_error));
}

static void http1_exchange_arm_deadline(struct http1_exchange *x)
{
    struct timeval tv;

    if (x->deadline_ns == DEADLINE_NEVER) {
        event_del(&x->timer);
        return;
    }
    tv = timeval_until(x->deadline_ns);
    event_add(&x->timer, &tv);
}

/* The connection ended, and the answer with it or before it began. */
static void http1_exchange_break(struct http1_exchange *x, int err)
{
    bool began = x->response.began;

    http1_connection_close(x->connection);
    if (x->on_kept && !began && !x->once) {
        x->on_kept = false;
        x->n_sent = 0;
        http1_response_done(&x->response);
        x->response.head_only = x->head_only;
        x->connect_until_ns = mono_ns() + x->connect_timeout_ns;
        http1_exchange_connect(x);
        return;
    }
    http1_exchange_end(x, err,
                       began ? "the connection was closed before the answer was complete"
                             : "the connection was closed before an answer came");
}

static void http1_exchange_send(struct http1_exchange *x)
{
    struct http1_connection *c = x->connection;

    if (x->n_sent == 0) {
        http1_exchange_arm_deadline(x);
        x->ops->sent(x->arg);
    }
    while (x->n_sent < x->size) {
        ssize_t n = send(c->fd, x->text + x->n_sent, x->size - x->n_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            event_add(&c->writable, NULL);
            return;
        }
        if (n < 0) {
            http1_exchange_break(x, errno == EPIPE ? -ECONNRESET : -errno);
            return;
        }
        x->n_sent += (size_t)n;
    }
}

static void http1_exchange_begin(struct http1_exchange *x)
{
    x->response.head_only = x->head_only;
    for (size_t i = 0; i < x->n_addresses && !x->connection; i++)
        if (x->ops->allows(x->arg, &x->addresses[i]))
            x->connection = http1_pool_take_idle(x->pool, &x->addresses[i], x->port);
    if (x->connection) {
        x->connection->exchange = x;
        x->on_kept = true;
        http1_exchange_send(x);
        return;
    }
    x->connect_until_ns = mono_ns() + x->connect_timeout_ns;
    http1_exchange_connect(x);
}

static void http1_exchange_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct http1_exchange *x = arg;

    if (x->connection && x->connection->connecting && mono_ns() < x->deadline_ns) {
        http1_connection_close(x->connection);
        x->connect_error = -ETIMEDOUT;
        http1_exchange_connect(x);
        return;
    }
    http1_exchange_end(x, -ETIMEDOUT,
                       !x->connection || x->connection->connecting ? "no connection"
                       : x->response.began                         ? "the answer was not complete in time"
                                                                   : "no answer");
}

/* The rest of the answer waits with its body, until the exchange is resumed. */
static void http1_connection_hold(struct http1_connection *c, const char *body, size_t n_body, size_t size)
{
    c->held = xcalloc(size, 1);
    memcpy(c->held, body, size);
    c->n_held = size;
    c->n_held_body = n_body;
    event_del(&c->readable);
}

/* n_after bytes follow those of the body. False where the exchange has ended, or waits. */
static bool http1_exchange_take_body(struct http1_exchange *x, const char *body, size_t n, size_t n_after)
{
    enum http1_taken taken = x->ops->body(x->arg, body, n);

    if (taken == HTTP1_WAITS)
        http1_connection_hold(x->connection, body, n, n + n_after);
    else if (taken == HTTP1_ENOUGH)
        http1_exchange_end(x, 0, NULL);
    return taken == HTTP1_TAKEN;
}

static void http1_exchange_take(struct http1_exchange *x, const char *bytes, size_t size)
{
    const char *body;
    size_t n_body;

    for (;;) {
        switch (http1_response_next(&x->response, &bytes, &size, &body, &n_body)) {
        case HTTP1_HEAD:
            x->ops->head(x->arg, &x->response);
            break;
        case HTTP1_BODY:
            if (!http1_exchange_take_body(x, body, n_body, size))
                return;
            break;
        case HTTP1_END:
            if (x->response.keep_alive && size == 0 && x->n_sent == x->size)
                http1_connection_keep(x->connection);
            http1_exchange_end(x, 0, NULL);
            return;
        case HTTP1_BAD:
            http1_exchange_end(x, -EPROTO, x->response.error);
            return;
        case HTTP1_MORE:
            return;
        }
    }
}

static void http1_connection_on_readable(evutil_socket_t fd, short what, void *arg)
{
    char bytes[RECEIVE_BYTES];
    struct http1_connection *c = arg;
    struct http1_exchange *x = c->exchange;

    if (!x) {
        http1_connection_close(c);
        return;
    }
    ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);
    if (n > 0)
        http1_exchange_take(x, bytes, (size_t)n);
    else if (n == 0 && http1_response_close(&x->response) == HTTP1_END)
        http1_exchange_end(x, 0, NULL);
    else if (n == 0)
        http1_exchange_break(x, -ECONNRESET);
    else if (errno != EAGAIN && errno != EINTR)
        http1_exchange_break(x, -errno);
}

static void http1_connection_on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct http1_connection *c = arg;
    struct http1_exchange *x = c->exchange;
    socklen_t size = sizeof(int);
    int error = 0;

    if (c->connecting) {
        if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
            error = errno;
        if (error != 0) {
            http1_connection_close(c);
            x->connect_error = -error;
            http1_exchange_connect(x);
            return;
        }
        c->connecting = false;
        event_add(&c->readable, NULL);
    }
    http1_exchange_send(x);
}

struct http1_exchange *http1_exchange_start(struct http1_pool *p, const struct http1_request *q,
                                            const struct http1_ops *ops, void *arg)
{
    struct http1_exchange *x = xcalloc(1, sizeof(*x));

    *x = (struct http1_exchange){.pool = p,
                                 .ops = ops,
                                 .arg = arg,
                                 .addresses = xcalloc(q->n_addresses, sizeof(*x->addresses)),
                                 .n_addresses = q->n_addresses,
                                 .port = q->port,
                                 .text = q->text,
                                 .size = q->size,
                                 .once = q->once,
                                 .head_only = q->head_only,
                                 .connect_timeout_ns = q->connect_timeout_ns,
                                 .deadline_ns = q->deadline_ns,
                                 .queue = &p->waiting};
    memcpy(x->addresses, q->addresses, q->n_addresses * sizeof(*x->addresses));
    evtimer_assign(&x->timer, p->base, http1_exchange_on_timer, x);
    TAILQ_INSERT_TAIL(&p->waiting, x, link);
    event_active(&p->due, EV_TIMEOUT, 0);
    return x;
}

void http1_exchange_resume(struct http1_exchange *x)
{
    struct http1_connection *c = x->connection;
    _cleanup_(freep) char *held = TAKE_PTR(c->held);
    size_t n_body = c->n_held_body, n_after = c->n_held - n_body;

    event_add(&c->readable, NULL);
    if (http1_exchange_take_body(x, held, n_body, n_after))
        http1_exchange_take(x, held + n_body, n_after);
}

struct http1_exchange *http1_exchange_free(struct http1_exchange *x)
{
    if (!x)
        return NULL;
    if (x->queue)
        TAILQ_REMOVE(x->queue, x, link);
    if (x->connection)
        http1_connection_close(x->connection);
    event_del(&x->timer);
    http1_response_done(&x->response);
    explicit_bzero(x->text, x->size); /* it has a token */
    free(x->text);
    free(x->addresses);
    free(x);
    return NULL;
}

/* -- The pool ----------------------------------------------------------------------------------------- */

/* Those that are started meanwhile begin in the next iteration. */
static void http1_pool_on_due(evutil_socket_t fd, short what, void *arg)
{
    struct http1_pool *p = arg;
    struct http1_exchange *x;

    TAILQ_FOREACH(x, &p->waiting, link)
        x->queue = &p->beginning;
    TAILQ_CONCAT(&p->beginning, &p->waiting, link);
    while ((x = TAILQ_FIRST(&p->beginning))) {
        TAILQ_REMOVE(&p->beginning, x, link);
        x->queue = NULL;
        http1_exchange_begin(x);
    }
}

struct http1_pool *http1_pool_new(struct event_base *base, size_t idle_max)
{
    struct http1_pool *p = xcalloc(1, sizeof(*p));

    p->base = base;
    p->idle_max = idle_max;
    TAILQ_INIT(&p->waiting);
    TAILQ_INIT(&p->beginning);
    TAILQ_INIT(&p->idle);
    evtimer_assign(&p->due, base, http1_pool_on_due, p);
    return p;
}

void http1_pool_close_idle(struct http1_pool *p)
{
    while (!TAILQ_EMPTY(&p->idle))
        http1_connection_close(TAILQ_FIRST(&p->idle));
}

struct http1_pool *http1_pool_free(struct http1_pool *p)
{
    if (!p)
        return NULL;
    http1_pool_close_idle(p);
    event_del(&p->due);
    free(p);
    return NULL;
}
