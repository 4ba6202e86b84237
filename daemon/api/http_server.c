/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets, the list of connections, and how many there may be. The only file that includes evhtp.h.
 *
 * What libevhtp does here: it owns a listener for each socket (evhtp_accept_socket()), accepts, and makes the
 * bufferevent of each connection, with TLS by the context that lies in its evhtp_t, which is ours. That is
 * all. evhtp_connection_take_ownership() hands the bufferevent over before a byte was read, and the rest of
 * the library's connection is freed at once: its parser, which corrupts a request that arrives in pieces
 * (1.2.18, unfixed), its replies, its keep-alive, its limits and its thread pool see nothing of a client.
 * HTTP is http_conn.c's, http_head.c's and http_request.c's, over libevent. Without libevhtp this file would
 * call evconnlistener_new() and bufferevent_openssl_socket_new() itself.
 *
 * At the limit of connections a new one is accepted all the same, and one whose client has shown no valid
 * token is closed in its favor (http_peers.h). A connection whose last request showed one stays. New
 * connections come in portions, with an iteration of the loop between two: what a client sent at once is read
 * before others can displace it.
 */
#include "daemon/api/http_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <evhtp.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>

/* Connections over the limit that may be answered 503 at a time, on one side; beyond, they wait in the listen
 * queue. */
#define REFUSED_MAX 32
/* Connections that are accepted in one iteration of the loop. */
#define ACCEPTS_PER_ITERATION 32
/* Accepting is tried again this long after descriptors ran out, or when a connection ends. */
#define ACCEPT_RETRY_NS NS_PER_S
/* Of the connections, this part is kept for Unix sockets where there are both. */
#define LOCAL_SHARE_DIVISOR 4
/* A shortage that comes and goes is logged this often. */
#define SHORTAGE_LOG_NS (60 * NS_PER_S)

const struct http_limits http_limits_default = {
    .connections_max = 256,
    .anonymous_share = 32,
    .head_max = 16 << 10,
    .headers_max = 64,
    .body_max = 1 << 20,
    .head_deadline_ns = 10 * NS_PER_S,
    .body_deadline_ns = 30 * NS_PER_S,
    .idle_ns = 60 * NS_PER_S,
    .send_stall_ns = 30 * NS_PER_S,
    .stream_lag_max = 256 << 10,
};

/* -- Limits of connections ---------------------------------------------------------------------------- */

static enum http_side server_side(const struct http_conn *c)
{
    return c->peer.local ? HTTP_SIDE_LOCAL : HTTP_SIDE_REMOTE;
}

static void server_enable_accept(struct http_server *s, int side, bool enable)
{
    for (size_t i = 0; i < s->n_listeners; i++) {
        struct evconnlistener *listener = s->listeners[i]->server;
        if (!listener || http_socket_is_tcp(evconnlistener_get_fd(listener)) != (side == HTTP_SIDE_REMOTE))
            continue;
        if (enable)
            evconnlistener_enable(listener);
        else
            evconnlistener_disable(listener);
    }
    s->sides[side].paused = !enable;
}

static void server_resume_accept(struct http_server *s)
{
    for (int side = 0; side < _HTTP_SIDE_MAX; side++)
        if (s->sides[side].paused && s->sides[side].n_refused < REFUSED_MAX &&
            s->n_accepted < ACCEPTS_PER_ITERATION)
            server_enable_accept(s, side, true);
}

static void server_on_accept_again(evutil_socket_t fd, short what, void *arg)
{
    struct http_server *s = arg;

    s->n_accepted = 0;
    server_resume_accept(s);
}

static void server_on_accept_timer(evutil_socket_t fd, short what, void *arg)
{
    server_resume_accept(arg);
}

static void server_log_shortage(struct http_server *s, const char *what, const char *effect)
{
    int64_t now_ns = mono_ns();

    if (s->shortage_logged_ns && now_ns - s->shortage_logged_ns < SHORTAGE_LOG_NS)
        return;
    s->shortage_logged_ns = now_ns;
    log_warning("http: %s with %u connections open; %s", what, s->n_conns, effect);
}

static bool server_may_serve(const struct http_server *s, enum http_side side)
{
    unsigned max = s->limits.connections_max, reserved = s->n_listeners > 1 ? max / LOCAL_SHARE_DIVISOR : 0;
    unsigned n_local = s->sides[HTTP_SIDE_LOCAL].n_served, n_remote = s->sides[HTTP_SIDE_REMOTE].n_served;

    return n_local + n_remote < max && (side == HTTP_SIDE_LOCAL || n_remote < max - reserved);
}

/* False where there was none. */
static bool server_displace(struct http_server *s, struct anonymous *a)
{
    if (!a)
        return false;
    http_conn_close(container_of(a, struct http_conn, anonymous));
    s->n_displaced++;
    return true;
}

static void server_make_room(struct http_server *s, const struct http_conn *c)
{
    if (!c->peer.local)
        server_displace(s, anonymous_over_share(&s->anonymous, &c->peer.ip, s->limits.anonymous_share));
    if (server_may_serve(s, server_side(c)))
        return;
    server_log_shortage(
        s, "the limit is reached",
        "connections without a token are closed in favor of new ones; where there are none, new ones get "
        "status 503");
    while (!server_may_serve(s, server_side(c)) && server_displace(s, anonymous_first(&s->anonymous)))
        ;
}

static void server_on_conn_closed(struct http_conn *c)
{
    struct http_server *s = c->server;

    LIST_REMOVE(c, link);
    s->n_conns--;
    if (c->served)
        s->sides[server_side(c)].n_served--;
    else
        s->sides[server_side(c)].n_refused--;
    server_resume_accept(s);
}

/* -- Accepting ---------------------------------------------------------------------------------------- */

static void server_on_accept_error(struct evconnlistener *listener, void *arg)
{
    evhtp_t *htp = arg;
    struct http_server *s = htp->arg;
    struct timeval retry = timeval_of(ACCEPT_RETRY_NS);

    server_log_shortage(s, strerror(errno), "clients have to wait");
    for (int side = 0; side < _HTTP_SIDE_MAX; side++)
        server_enable_accept(s, side, false);
    evtimer_add(s->accept_timer, &retry);
}

/* libevhtp frees its own connection after any result but EVHTP_RES_OK; the bufferevent is ours by then. */
static evhtp_res server_on_accept(evhtp_connection_t *evhtp, void *arg)
{
    struct http_server *s = arg;
    struct bufferevent *bev = evhtp_connection_take_ownership(evhtp);
    struct http_conn *c = http_conn_new(s, bev);
    int fd = bufferevent_getfd(bev), on = 1;

    if (c->tls) /* which points to the connection of libevhtp */
        SSL_set_app_data(bufferevent_openssl_get_ssl(bev), NULL);
    /* libevent's listener leaves this to us; a child must not keep a client's connection open. */
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (!c->peer.local)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));

    LIST_INSERT_HEAD(&s->conns, c, link);
    s->n_conns++;
    server_make_room(s, c);
    enum http_side side = server_side(c);
    c->served = server_may_serve(s, side);
    if (c->served)
        s->sides[side].n_served++;
    else
        s->sides[side].n_refused++;
    http_conn_begin(c);

    if (s->sides[side].n_refused >= REFUSED_MAX)
        server_enable_accept(s, side, false);
    if (s->n_accepted++ == 0)
        event_active(s->accept_again, EV_TIMEOUT, 1);
    for (int i = 0; i < _HTTP_SIDE_MAX && s->n_accepted == ACCEPTS_PER_ITERATION; i++)
        server_enable_accept(s, i, false);
    return EVHTP_RES_ERROR;
}

/* -- Life --------------------------------------------------------------------------------------------- */

int http_server_new(struct event_base *base, const struct http_limits *limits,
                    const struct http_handlers *handlers, struct http_server **ret)
{
    struct http_server *s = xcalloc(1, sizeof(*s));

    *s = (struct http_server){
        .base = base, .limits = *limits, .handlers = *handlers, .on_conn_closed = server_on_conn_closed};
    LIST_INIT(&s->conns);
    LIST_INIT(&s->anonymous.groups);
    s->accept_timer = evtimer_new(base, server_on_accept_timer, s);
    s->accept_again = evtimer_new(base, server_on_accept_again, s);
    /* sendfile() has no flag for it. */
    signal(SIGPIPE, SIG_IGN);
    *ret = s;
    return 0;
}

static void server_set_listener_tls(struct http_server *s, evhtp_t *htp)
{
    if (htp->server && http_socket_is_tcp(evconnlistener_get_fd(htp->server)))
        htp->ssl_ctx = s->tls;
}

int http_server_listen(struct http_server *s, int take_fd)
{
    _cleanup_(closep) int fd = take_fd;

    /* A socket from systemd is blocking, and the second accept() would hang the loop. */
    if (evutil_make_socket_nonblocking(fd) < 0 || evutil_make_socket_closeonexec(fd) < 0)
        return -errno;
    evhtp_t *htp = evhtp_new(s->base, s);
    if (!htp)
        return -ENOMEM;
    /* A callback that libevent defers keeps its bufferevent alive, for ever if the loop ends before. */
    evhtp_set_bev_flags(htp, BEV_OPT_CLOSE_ON_FREE);
    evhtp_set_post_accept_cb(htp, server_on_accept, s);
    if (evhtp_accept_socket(htp, fd, 0) < 0) {
        evhtp_free(htp);
        return -EIO;
    }
    TAKE_FD(fd);
    evconnlistener_set_error_cb(htp->server, server_on_accept_error);
    VEC_GROW(s->listeners, s->n_listeners, s->cap_listeners);
    s->listeners[s->n_listeners++] = htp;
    server_set_listener_tls(s, htp);
    return 0;
}

void http_server_set_tls(struct http_server *s, SSL_CTX *context)
{
    if (context)
        SSL_CTX_up_ref(context);
    SSL_CTX_free(s->tls);
    s->tls = context;
    for (size_t i = 0; i < s->n_listeners; i++)
        server_set_listener_tls(s, s->listeners[i]);
}

void http_server_stop_accepting(struct http_server *s)
{
    struct http_conn *c, *next;

    s->stopping = true;
    evtimer_del(s->accept_timer);
    evtimer_del(s->accept_again);
    for (size_t i = 0; i < s->n_listeners; i++)
        evhtp_unbind_socket(s->listeners[i]);
    for (c = LIST_FIRST(&s->conns); c; c = next) {
        next = LIST_NEXT(c, link);
        if (c->phase == HTTP_PHASE_HEAD && evbuffer_get_length(bufferevent_get_input(c->bev)) == 0)
            http_conn_close(c);
    }
}

struct http_server *http_server_free(struct http_server *s)
{
    if (!s)
        return NULL;
    http_server_stop_accepting(s);
    while (!LIST_EMPTY(&s->conns))
        http_conn_close(LIST_FIRST(&s->conns));
    for (size_t i = 0; i < s->n_listeners; i++) {
        s->listeners[i]->ssl_ctx = NULL; /* it is ours */
        evhtp_free(s->listeners[i]);
    }
    SSL_CTX_free(s->tls);
    event_free(s->accept_timer);
    event_free(s->accept_again);
    free(s->listeners);
    free(s);
    return NULL;
}

void http_server_set_connections_max(struct http_server *s, unsigned max)
{
    s->limits.connections_max = max;
}

unsigned http_connections(const struct http_server *s)
{
    return s->n_conns;
}

uint64_t http_displaced(const struct http_server *s)
{
    return s->n_displaced;
}

uint64_t http_refusals(const struct http_server *s, size_t i)
{
    return s->refusals[i];
}
