/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/http1_client.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/http1_response.h"
#include "daemon/load/arrival.h"
#include <curl/curl.h>
#include <errno.h>
#include <event2/event_struct.h>
#include <netinet/tcp.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>

#define CONNECT_TIMEOUT_NS (10 * NS_PER_S)
#define KEEPALIVE_S        30 /* prefill is silent for minutes */
#define RECEIVE_BUFFER     (64u << 10)
#define ERROR_TEXT_MAX     400
#define LENGTH_TEXT_MAX    32

TAILQ_HEAD(http1_conn_queue, http1_conn);

/* A host and port, whose idle connections and those that were opened beforehand any request to it may use. */
struct http1_origin {
    char *host_port;
    struct http1_conn_queue *idle; /* those that are open come first */
};

struct http1_conn {
    TAILQ_ENTRY(http1_conn) link;      /* in active or in idle */
    TAILQ_ENTRY(http1_conn) of_origin; /* while idle */
    TAILQ_ENTRY(http1_conn) of_opening;
    struct http1_client *client;
    const struct load_target *target;
    struct event readable, writable;
    int fd; /* -1: no address could be connected to */
    size_t next_socket;
    int64_t open_until_ns;
    const char *refused;                 /* why the policy refuses an address */
    int open_errno;                      /* of the last address */
    bool is_opening, is_active, is_kept; /* kept: had a response before */

    /* The request: */
    void *arg;
    int64_t deadline_ns, timeout_ns, received;
    char *out; /* what is not sent yet */
    size_t out_size, out_sent;
    bool is_sent;      /* its first byte */
    int64_t latest_ns; /* when it was sent, then when the latest bytes arrived */
    struct http1_response response;
};

struct http1_client {
    struct event_base *base;
    const struct network_policy *policy;
    const struct http_pool_ops *ops;
    struct http1_conn_queue active;  /* by deadline */
    struct http1_conn_queue idle;    /* last used last */
    struct http1_conn_queue opening; /* by open_until_ns; some of them are active */
    struct hash_table origins_by_name;
    struct http1_origin *origins;
    size_t origins_cap, n_opening;
    struct event *timer;
    int64_t timer_ns; /* when it fires; DEADLINE_NEVER */
    struct arrival_clock clock;
    void (*opened)(void *arg); /* once no connection is being opened */
    void *opened_arg;
    struct event *on_opened;
    char buffer[RECEIVE_BUFFER];
};

/* -- Connections: idle, active, closed ---------------------------------------------------------------- */

static struct http1_conn_queue *http1_conn_siblings(const struct http1_conn *n)
{
    return n->client->origins[n->target->origin].idle;
}

static void http1_conn_leave_queues(struct http1_conn *n)
{
    struct http1_client *c = n->client;

    if (n->is_active) {
        TAILQ_REMOVE(&c->active, n, link);
    } else {
        TAILQ_REMOVE(&c->idle, n, link);
        TAILQ_REMOVE(http1_conn_siblings(n), n, of_origin);
    }
}

static void http1_client_activate_opened(struct http1_client *c)
{
    if (c->opened)
        event_active(c->on_opened, EV_TIMEOUT, 0);
}

static void http1_conn_end_opening(struct http1_conn *n)
{
    if (!n->is_opening)
        return;
    n->is_opening = false;
    TAILQ_REMOVE(&n->client->opening, n, of_opening);
    if (--n->client->n_opening == 0)
        http1_client_activate_opened(n->client);
}

static void http1_conn_be_idle(struct http1_conn *n)
{
    struct http1_conn_queue *siblings = http1_conn_siblings(n);

    n->is_active = false;
    TAILQ_INSERT_TAIL(&n->client->idle, n, link);
    if (n->is_opening)
        TAILQ_INSERT_TAIL(siblings, n, of_origin);
    else
        TAILQ_INSERT_HEAD(siblings, n, of_origin);
}

static void http1_conn_close_socket(struct http1_conn *n)
{
    event_del(&n->readable);
    event_del(&n->writable);
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

static void http1_conn_forget_request(struct http1_conn *n)
{
    free(TAKE_PTR(n->out));
    http1_response_done(&n->response);
    n->arg = NULL;
    n->out_size = n->out_sent = 0;
    n->received = 0;
    n->is_sent = false;
}

static void http1_conn_free(struct http1_conn *n)
{
    http1_conn_end_opening(n);
    http1_conn_leave_queues(n);
    http1_conn_close_socket(n);
    http1_conn_forget_request(n);
    free(n);
}

/* A number of seconds, or a date. */
static int64_t http1_retry_after_s(const char *text)
{
    char *end;
    long long seconds = strtoll(text, &end, 10);
    time_t date = *end ? curl_getdate(text, NULL) : -1;

    if (date >= 0)
        seconds = date - time(NULL);
    return MAX(seconds, 0LL);
}

/* Ends the request, and the connection unless it is kept: done() may use it at once. */
static void http1_conn_end(struct http1_conn *n, bool keep, int err, const char *text)
{
    const struct http_pool_ops *ops = n->client->ops;
    struct http_end end = {err, text, http1_retry_after_s(n->response.retry_after)};
    void *arg = n->arg;

    if (keep) {
        http1_conn_forget_request(n);
        http1_conn_leave_queues(n);
        n->is_kept = true;
        http1_conn_be_idle(n);
    } else {
        bool had_request = n->is_active;
        http1_conn_free(n);
        if (!had_request)
            return;
    }
    ops->done(arg, &end);
}

/* -- Deadlines ---------------------------------------------------------------------------------------- */

static void http1_client_set_timer(struct http1_client *c, int64_t at_ns)
{
    if (at_ns >= c->timer_ns)
        return;
    struct timeval left = timeval_until(at_ns);
    c->timer_ns = at_ns;
    event_add(c->timer, &left);
}

static void http1_conn_time_out(struct http1_conn *n, bool opening)
{
    char text[ERROR_TEXT_MAX];

    if (opening)
        snprintf(text, sizeof(text), "Connection timed out after %lld milliseconds",
                 (long long)(CONNECT_TIMEOUT_NS / NS_PER_MS));
    else
        snprintf(text, sizeof(text), "Operation timed out after %lld milliseconds with %lld bytes received",
                 (long long)(n->timeout_ns / NS_PER_MS), (long long)n->received);
    http1_conn_end(n, false, -ETIMEDOUT, text);
}

static void http1_client_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct http1_client *c = arg;
    int64_t now_ns = mono_ns();
    struct http1_conn *n;

    while ((n = TAILQ_FIRST(&c->active)) && n->deadline_ns <= now_ns)
        http1_conn_time_out(n, false);
    while ((n = TAILQ_FIRST(&c->opening)) && n->open_until_ns <= now_ns)
        http1_conn_time_out(n, true);
    c->timer_ns = DEADLINE_NEVER;
    if ((n = TAILQ_FIRST(&c->active)))
        http1_client_set_timer(c, n->deadline_ns);
    if ((n = TAILQ_FIRST(&c->opening)))
        http1_client_set_timer(c, n->open_until_ns);
}

/* -- Sending ------------------------------------------------------------------------------------------ */

static void http1_conn_send(struct http1_conn *n)
{
    if (!n->is_sent) {
        n->is_sent = true;
        n->latest_ns = mono_ns();
        n->client->ops->sent(n->arg, n->latest_ns);
    }
    while (n->out_sent < n->out_size) {
        ssize_t sent = send(n->fd, n->out + n->out_sent, n->out_size - n->out_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        /* After an error the server may have responded before it closed: what can be read decides. */
        if (sent < 0 && errno != EAGAIN)
            return;
        if (sent < 0) {
            event_add(&n->writable, NULL);
            return;
        }
        n->out_sent += (size_t)sent;
    }
    free(TAKE_PTR(n->out));
}

/* -- Opening ------------------------------------------------------------------------------------------ */

static void http1_conn_open(struct http1_conn *n);

static void http1_conn_fail_to_open(struct http1_conn *n)
{
    char text[ERROR_TEXT_MAX];

    if (n->target->n_sockets == 0)
        snprintf(text, sizeof(text), "Could not resolve host: %s", n->target->host_port);
    else
        snprintf(text, sizeof(text), "Failed to connect to %s: %s", n->target->host_port,
                 strerror(n->open_errno));
    if (n->refused)
        http1_conn_end(n, false, -EPERM, n->refused);
    else
        http1_conn_end(n, false, n->open_errno ? -n->open_errno : -EHOSTUNREACH, text);
}

static void http1_conn_on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct http1_conn *n = arg;
    socklen_t size = sizeof(n->open_errno);

    if (n->fd < 0) {
        http1_conn_fail_to_open(n);
        return;
    }
    if (n->is_opening) {
        if (getsockopt(n->fd, SOL_SOCKET, SO_ERROR, &n->open_errno, &size) < 0)
            n->open_errno = errno;
        if (n->open_errno != 0) {
            http1_conn_close_socket(n);
            http1_conn_open(n);
            return;
        }
        http1_conn_end_opening(n);
        event_add(&n->readable, NULL);
        if (!n->is_active) {
            http1_conn_leave_queues(n);
            http1_conn_be_idle(n); /* before those that are still being opened */
        }
    }
    if (n->is_active)
        http1_conn_send(n);
}

/* -- Receiving ---------------------------------------------------------------------------------------- */

static void http1_conn_take(struct http1_conn *n, const char *bytes, size_t size)
{
    const struct http_pool_ops *ops = n->client->ops;
    struct http1_response *r = &n->response;
    const char *body;
    size_t body_size;

    n->received += (int64_t)size;
    for (;;) {
        switch (http1_response_next(r, &bytes, &size, &body, &body_size)) {
        case HTTP1_MORE:
            return;
        case HTTP1_HEAD:
            ops->head(n->arg, r->status, r->content_type[0] ? r->content_type : NULL);
            break;
        case HTTP1_BODY:
            if (ops->body(n->arg, body, body_size, n->latest_ns))
                break;
            http1_conn_end(n, false, -ECANCELED, "the response is not read to its end");
            return;
        case HTTP1_END:
            http1_conn_end(n, r->keep_alive && size == 0 && !n->out, 0, NULL);
            return;
        case HTTP1_BAD:
            http1_conn_end(n, false, -EPROTO, r->error);
            return;
        }
    }
}

/* The server closed the connection: err 0, or why the kernel did. */
static void http1_conn_closed(struct http1_conn *n, int err)
{
    char text[ERROR_TEXT_MAX];

    if (!n->is_active) {
        http1_conn_free(n);
    } else if (n->is_kept && !n->response.began) {
        http1_conn_end(n, false, -ECONNRESET, "the connection was closed before a response arrived");
    } else if (err) {
        snprintf(text, sizeof(text), "Recv failure: %s", strerror(err));
        http1_conn_end(n, false, -err, text);
    } else if (http1_response_close(&n->response) == HTTP1_END) {
        http1_conn_end(n, false, 0, NULL);
    } else {
        http1_conn_end(n, false, -ECONNRESET, n->response.error);
    }
}

static void http1_conn_on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct http1_conn *n = arg;
    struct http1_client *c = n->client;
    ssize_t size = arrival_receive(&c->clock, fd, c->buffer, sizeof(c->buffer), n->latest_ns, &n->latest_ns);

    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    /* Nobody asked: what an idle connection receives belongs to no request. */
    if (size > 0 && n->is_active)
        http1_conn_take(n, c->buffer, (size_t)size);
    else
        http1_conn_closed(n, size < 0 ? errno : 0);
}

/* -- Opening, the rest -------------------------------------------------------------------------------- */

/* -1 with errno. Where descriptors run out, the connection that was idle for longest makes room. */
static int http1_client_socket(struct http1_client *c, int family)
{
    int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    int fd = socket(family, type, 0);
    struct http1_conn *oldest = TAILQ_FIRST(&c->idle);

    if (fd >= 0 || errno != EMFILE)
        return fd;
    while (oldest && oldest->is_opening)
        oldest = TAILQ_NEXT(oldest, link);
    if (oldest)
        http1_conn_free(oldest);
    return socket(family, type, 0);
}

static void http1_set_options(int fd)
{
    static const struct {
        int level, option, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_S},
    };

    for (size_t i = 0; i < ARRAY_SIZE(options); i++)
        setsockopt(fd, options[i].level, options[i].option, &options[i].value, sizeof(options[i].value));
    arrival_enable(fd);
}

/* A socket that is being connected to the address; -1 with open_errno or refused. */
static int http1_conn_connect(struct http1_conn *n, const struct sockaddr *to)
{
    struct in6_addr ip;
    const struct network_refusal *refusal =
        network_refuses(n->client->policy, address_of_socket(to, &ip) ? &ip : NULL);

    if (refusal) {
        n->refused = refusal->why;
        return -1;
    }
    int fd = http1_client_socket(n->client, to->sa_family);
    if (fd >= 0) {
        http1_set_options(fd);
        if (connect(fd, to,
                    to->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) ==
                0 ||
            errno == EINPROGRESS)
            return fd;
    }
    n->open_errno = errno;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Tries the addresses that are left. The end is always reported later, by the event. */
static void http1_conn_open(struct http1_conn *n)
{
    const struct load_target *t = n->target;

    while (n->fd < 0 && n->next_socket < t->n_sockets)
        n->fd = http1_conn_connect(n, (const struct sockaddr *)&t->sockets[n->next_socket++]);
    event_assign(&n->readable, n->client->base, n->fd, EV_READ | EV_PERSIST, http1_conn_on_readable, n);
    event_assign(&n->writable, n->client->base, n->fd, EV_WRITE, http1_conn_on_writable, n);
    if (n->fd >= 0)
        event_add(&n->writable, NULL);
    else
        event_active(&n->writable, EV_WRITE, 0);
}

static bool http1_origin_is(const void *owner, size_t number, const void *key)
{
    const struct http1_client *c = owner;
    return streq(c->origins[number].host_port, key);
}

static void http1_client_find_origin(struct http1_client *c, struct load_target *t)
{
    size_t known = c->origins_by_name.n;

    if (t->origin >= 0)
        return;
    t->origin = hash_table_number(&c->origins_by_name, hash_bytes(t->host_port, strlen(t->host_port)),
                                  http1_origin_is, c, t->host_port);
    if (t->origin < 0)
        out_of_memory();
    if ((size_t)t->origin < known)
        return;
    VEC_GROW(c->origins, known, c->origins_cap);
    c->origins[known] = (struct http1_origin){xstrdup(t->host_port), xcalloc(1, sizeof(*c->origins->idle))};
    TAILQ_INIT(c->origins[known].idle);
}

static struct http1_conn *http1_conn_new(struct http1_client *c, struct load_target *target)
{
    struct http1_conn *n = xcalloc(1, sizeof(*n));

    http1_client_find_origin(c, target);
    *n = (struct http1_conn){.client = c,
                             .target = target,
                             .fd = -1,
                             .is_opening = true,
                             .open_until_ns = mono_ns() + CONNECT_TIMEOUT_NS};
    TAILQ_INSERT_TAIL(&c->opening, n, of_opening);
    c->n_opening++;
    http1_client_set_timer(c, n->open_until_ns);
    http1_conn_be_idle(n);
    http1_conn_open(n);
    return n;
}

/* The server may have closed it since the last iteration of the event loop. */
static bool http1_conn_is_usable(const struct http1_conn *n)
{
    char byte;
    return n->is_opening || (recv(n->fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN);
}

static struct http1_conn *http1_client_take_idle(struct http1_client *c, struct load_target *target)
{
    struct http1_conn *n;

    http1_client_find_origin(c, target);
    while ((n = TAILQ_FIRST(c->origins[target->origin].idle)) && !http1_conn_is_usable(n))
        http1_conn_free(n);
    if (!n)
        n = http1_conn_new(c, target);
    http1_conn_leave_queues(n);
    return n;
}

static void http1_client_add_active(struct http1_client *c, struct http1_conn *n)
{
    struct http1_conn *earlier = TAILQ_LAST(&c->active, http1_conn_queue);

    while (earlier && earlier->deadline_ns > n->deadline_ns)
        earlier = TAILQ_PREV(earlier, http1_conn_queue, link);
    if (earlier)
        TAILQ_INSERT_AFTER(&c->active, earlier, n, link);
    else
        TAILQ_INSERT_HEAD(&c->active, n, link);
    n->is_active = true;
    http1_client_set_timer(c, n->deadline_ns);
}

/* -- The client --------------------------------------------------------------------------------------- */

bool http1_client_can(const struct load_target *target)
{
    return target->request_head != NULL;
}

void http1_client_send(struct http1_client *c, struct load_target *target, const char *body, size_t size,
                       int64_t timeout_ns, void *arg)
{
    size_t head_size = strlen(target->request_head);
    char length[LENGTH_TEXT_MAX];
    size_t length_size = (size_t)snprintf(length, sizeof(length), "%zu\r\n\r\n", size);
    struct http1_conn *n = http1_client_take_idle(c, target);

    n->target = target;
    n->arg = arg;
    n->timeout_ns = timeout_ns;
    n->deadline_ns = mono_ns() + timeout_ns;
    http1_client_add_active(c, n);
    n->out_size = head_size + length_size + size;
    n->out = xrealloc(NULL, n->out_size, 1);
    memcpy(n->out, target->request_head, head_size);
    memcpy(n->out + head_size, length, length_size);
    memcpy(n->out + head_size + length_size, body, size);
    if (!n->is_opening)
        http1_conn_send(n);
}

void http1_client_open(struct http1_client *c, struct load_target *target, size_t n)
{
    struct http1_conn *idle;

    http1_client_find_origin(c, target);
    TAILQ_FOREACH(idle, c->origins[target->origin].idle, of_origin)
        n -= n > 0;
    for (; n > 0; n--)
        http1_conn_new(c, target);
}

static void http1_client_on_opened(evutil_socket_t fd, short what, void *arg)
{
    struct http1_client *c = arg;
    void (*opened)(void *arg) = c->opened;

    c->opened = NULL;
    if (opened)
        opened(c->opened_arg);
}

void http1_client_when_open(struct http1_client *c, void (*opened)(void *arg), void *arg)
{
    c->opened = opened;
    c->opened_arg = arg;
    if (c->n_opening == 0)
        http1_client_activate_opened(c);
}

void http1_client_cancel(struct http1_client *c, const char *error)
{
    struct http1_conn *n;

    while ((n = TAILQ_FIRST(&c->active)))
        http1_conn_end(n, false, -ECANCELED, error);
}

struct http1_client *http1_client_new(struct event_base *base, const struct network_policy *policy,
                                      const struct http_pool_ops *ops)
{
    struct http1_client *c = xcalloc(1, sizeof(*c));

    c->base = base;
    c->policy = policy;
    c->ops = ops;
    c->timer_ns = DEADLINE_NEVER;
    TAILQ_INIT(&c->active);
    TAILQ_INIT(&c->idle);
    TAILQ_INIT(&c->opening);
    c->timer = evtimer_new(base, http1_client_on_timer, c);
    c->on_opened = evtimer_new(base, http1_client_on_opened, c);
    if (!c->timer || !c->on_opened)
        out_of_memory();
    return c;
}

struct http1_client *http1_client_free(struct http1_client *c)
{
    struct http1_conn *n;

    if (!c)
        return NULL;
    while ((n = TAILQ_FIRST(&c->active)) || (n = TAILQ_FIRST(&c->idle)))
        http1_conn_free(n);
    for (size_t i = 0; i < c->origins_by_name.n; i++) {
        free(c->origins[i].host_port);
        free(c->origins[i].idle);
    }
    free(c->origins);
    hash_table_done(&c->origins_by_name);
    event_free(c->timer);
    event_free(c->on_opened);
    free(c);
    return NULL;
}
