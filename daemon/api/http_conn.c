/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: the phases of a request on it, and the limits in time and bytes that bound each phase.
 *
 * Bytes wait in the input buffer until a complete request is there. Its head is checked by http_head.c, and
 * admitted by the server's owner, before its body is read. While a handler has the request, further bytes of
 * the client wait for the next one.
 *
 * A connection has one deadline and one timer. The deadline is moved without touching the timer where it only
 * grows, so a download costs no timer work for each write, and a server without connections has no timer.
 */
#include "daemon/api/http_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/api/http_file.h"
#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <sys/socket.h>

/* How long a closing connection is read on, so that the client sees the reply and no reset. */
#define LINGER_NS (2 * NS_PER_S)

static void conn_advance(struct http_conn *c);
static void conn_on_written(struct bufferevent *bev, void *arg);

static struct evbuffer *conn_input(struct http_conn *c)
{
    return bufferevent_get_input(c->bev);
}

struct evbuffer *http_conn_output(struct http_conn *c)
{
    return bufferevent_get_output(c->bev);
}

bool http_conn_closes(const struct http_conn *c)
{
    return c->close || c->server->stopping;
}

/* -- Limits ------------------------------------------------------------------------------------------- */

static void conn_set_deadline(struct http_conn *c, int64_t deadline_ns)
{
    c->deadline_ns = deadline_ns;
    if (deadline_ns >= c->armed_ns)
        return;
    struct timeval left = timeval_until(deadline_ns);
    evtimer_add(c->timer, &left);
    c->armed_ns = deadline_ns;
}

/* Ends the connection from the loop, for callers that hold its request. */
static void conn_drop(struct http_conn *c)
{
    c->dropped = true;
    event_active(c->timer, EV_TIMEOUT, 1);
}

/* Of a TLS connection. One record, at most, lies beyond the limit. */
static void conn_pace_tls(struct http_conn *c)
{
    if (c->input_max > 0 && evbuffer_get_length(conn_input(c)) >= c->input_max)
        bufferevent_disable(c->bev, EV_READ);
    else
        bufferevent_enable(c->bev, EV_READ);
}

/* Bytes beyond max stay in the kernel; 0 is no limit. A watermark would leave the rest of a TLS record inside
 * OpenSSL, where no event wakes it. */
static void conn_set_input_max(struct http_conn *c, size_t max)
{
    if (!c->tls) {
        bufferevent_setwatermark(c->bev, EV_READ, 0, max);
        return;
    }
    c->input_max = max;
    conn_pace_tls(c);
}

/* What the client still sends is read, so that no reset overtakes the reply, and discarded. */
static void conn_discard_input(struct http_conn *c)
{
    conn_set_input_max(c, 0);
    evbuffer_drain(conn_input(c), SIZE_MAX);
}

static bool conn_discards_input(const struct http_conn *c)
{
    return c->close && c->phase != HTTP_PHASE_HEAD && c->phase != HTTP_PHASE_BODY;
}

/* Only while the connection waits for its client, and counts. */
static void conn_set_displaceable(struct http_conn *c, bool displaceable)
{
    if (displaceable && c->served && !c->is_known)
        anonymous_add(&c->server->anonymous, &c->anonymous, &c->peer.ip);
    else
        anonymous_remove(&c->server->anonymous, &c->anonymous);
}

/* -- Replies ------------------------------------------------------------------------------------------ */

static void conn_on_file_ready(void *arg)
{
    struct http_conn *c = arg;
    conn_on_written(c->bev, c);
}

void http_conn_replied(struct http_conn *c, struct http_file *take_file)
{
    c->request = NULL;
    c->file = take_file;
    if (c->file)
        http_file_on_ready(c->file, conn_on_file_ready, c);
    c->phase = HTTP_PHASE_REPLY;
    c->close = http_conn_closes(c);
    conn_set_displaceable(c, true);
    conn_set_deadline(c, mono_ns() + c->server->limits.send_stall_ns);
    if (evbuffer_get_length(http_conn_output(c)) == 0)
        event_active(c->timer, EV_TIMEOUT, 1);
}

void http_conn_stream(struct http_conn *c)
{
    c->phase = HTTP_PHASE_STREAM;
    c->close = true;
    conn_discard_input(c);
    conn_set_deadline(c, mono_ns() + c->server->limits.send_stall_ns);
}

int http_conn_stream_room(struct http_conn *c, size_t size)
{
    size_t waiting = evbuffer_get_length(http_conn_output(c));

    if (c->dropped || c->phase != HTTP_PHASE_STREAM)
        return -EPIPE;
    if (waiting + size > c->server->limits.stream_lag_max) {
        conn_drop(c);
        return -ENOBUFS;
    }
    if (waiting == 0)
        conn_set_deadline(c, mono_ns() + c->server->limits.send_stall_ns);
    return 0;
}

/* Answers in place of a handler, and closes. */
static void conn_refuse(struct http_conn *c, int status, const char *detail)
{
    c->server->refusals[http_refusal_index(status)]++;
    http_render_refusal(http_conn_output(c), status, detail);
    c->close = true;
    conn_discard_input(c);
    http_request_free(c->request);
    http_conn_replied(c, NULL);
}

/* -- Requests ----------------------------------------------------------------------------------------- */

static void conn_await_head(struct http_conn *c)
{
    c->phase = HTTP_PHASE_HEAD;
    c->head_started = false;
    c->scanned = 0;
    conn_set_input_max(c, c->server->limits.head_max);
    conn_set_deadline(c, mono_ns() + c->server->limits.idle_ns);
}

/* RFC 9112, 2.2: blank lines in front of a request are ignored. True where something else follows. */
static bool conn_skip_blank_lines(struct evbuffer *in)
{
    char ends[2];

    while (evbuffer_copyout(in, ends, 2) == 2 && ends[0] == '\r' && ends[1] == '\n')
        evbuffer_drain(in, 2);
    size_t size = evbuffer_get_length(in);
    return size > 1 || (size == 1 && evbuffer_copyout(in, ends, 1) == 1 && ends[0] != '\r');
}

/* A request that is not admitted was replied to, which is the connection's last reply. */
static bool conn_admit(struct http_conn *c)
{
    const struct http_handlers *h = &c->server->handlers;

    c->close = true;
    if (h->admit && !h->admit(c->request, h->arg)) {
        conn_discard_input(c);
        return false;
    }
    c->close = false;
    c->is_known = c->peer.local || c->request->user;
    conn_set_displaceable(c, true);
    return true;
}

static void conn_read_head(struct http_conn *c)
{
    const struct http_limits *limits = &c->server->limits;
    struct evbuffer *in = conn_input(c);
    struct http_refusal why;
    struct http_head head;

    if (!c->head_started) {
        c->head_started = true;
        conn_set_deadline(c, mono_ns() + limits->head_deadline_ns);
    }
    if (!conn_skip_blank_lines(in))
        return;
    size_t size = MIN(evbuffer_get_length(in), limits->head_max);
    const char *data = (const char *)evbuffer_pullup(in, (ssize_t)size);
    ssize_t n = http_head_find(data, size, limits->head_max, &c->scanned, &why);
    if (n == 0)
        return;
    if (n < 0 || http_head_parse(data, (size_t)n, limits, &head, &why) < 0) {
        conn_refuse(c, why.status, why.detail);
        return;
    }

    c->phase = HTTP_PHASE_BODY;
    c->head_size = (size_t)n;
    c->request = xcalloc(1, sizeof(*c->request));
    *c->request = (struct http_request){.conn = c,
                                        .head = head,
                                        .body = "",
                                        .begun_ns = mono_ns(),
                                        .relayed = c->peer.local && http_head_field(&head, RELAY_HEADER)};
    if (!conn_admit(c))
        return;
    conn_set_input_max(c, c->head_size + (size_t)head.content_length);
    conn_set_deadline(c, mono_ns() + limits->body_deadline_ns);
    if (head.expects_continue && evbuffer_get_length(in) == c->head_size)
        evbuffer_add_printf(http_conn_output(c), "HTTP/1.1 100 Continue\r\n\r\n");
}

/* Moves the body out of the input, where the next request follows it. */
static void conn_take_body(struct http_conn *c)
{
    struct http_request *r = c->request;

    evbuffer_drain(conn_input(c), c->head_size);
    r->body_size = (size_t)r->head.content_length;
    if (r->body_size == 0)
        return;
    r->body_buffer = evbuffer_new();
    evbuffer_remove_buffer(conn_input(c), r->body_buffer, r->body_size);
    r->body = (const char *)evbuffer_pullup(r->body_buffer, -1);
    r->begun_ns = mono_ns();
}

/* Lets the handler have the next request, if that is complete and no other is in progress. */
static void conn_advance(struct http_conn *c)
{
    const struct http_handlers *h = &c->server->handlers;

    if (c->phase == HTTP_PHASE_HEAD && evbuffer_get_length(conn_input(c)) > 0)
        conn_read_head(c);
    if (c->phase != HTTP_PHASE_BODY)
        return;
    const struct http_head *head = &c->request->head;
    if (evbuffer_get_length(conn_input(c)) < c->head_size + (size_t)head->content_length)
        return;

    c->phase = HTTP_PHASE_HANDLER;
    conn_set_displaceable(c, false);
    c->close = !head->keep_alive;
    conn_take_body(c);
    conn_set_input_max(c, c->close ? 0 : c->server->limits.head_max);
    conn_set_deadline(c, DEADLINE_NEVER);
    h->handle(c->request, h->arg);
    if (conn_discards_input(c))
        evbuffer_drain(conn_input(c), SIZE_MAX);
}

/* -- Callbacks of the bufferevent --------------------------------------------------------------------- */

/* After the end of the client's data, only replies that are already there are still sent. */
static void conn_close_if_done(struct http_conn *c)
{
    if (c->eof && c->phase != HTTP_PHASE_REPLY)
        http_conn_close(c);
}

static void conn_linger(struct http_conn *c)
{
    if (c->eof) {
        http_conn_close(c);
        return;
    }
    c->phase = HTTP_PHASE_LINGER;
    if (c->tls) {
        SSL_shutdown(bufferevent_openssl_get_ssl(c->bev));
        ERR_clear_error();
    }
    shutdown(bufferevent_getfd(c->bev), SHUT_WR);
    conn_discard_input(c);
    conn_set_deadline(c, mono_ns() + LINGER_NS);
}

static void conn_on_readable(struct bufferevent *bev, void *arg)
{
    struct http_conn *c = arg;

    if (conn_discards_input(c)) {
        evbuffer_drain(conn_input(c), SIZE_MAX);
        return;
    }
    conn_advance(c);
    if (c->tls)
        conn_pace_tls(c);
}

/* The output is empty. */
static void conn_on_written(struct bufferevent *bev, void *arg)
{
    struct http_conn *c = arg;

    if (evbuffer_get_length(http_conn_output(c)) > 0)
        return;
    if (c->phase == HTTP_PHASE_STREAM) {
        conn_set_deadline(c, DEADLINE_NEVER);
        /* The head is all that HEAD asks for. */
        if (c->request->head.method == HTTP_HEAD)
            conn_drop(c);
    }
    if (c->phase != HTTP_PHASE_REPLY)
        return;
    int more = c->file ? http_file_feed(c->file, http_conn_output(c), c->tls) : 0;
    if (more < 0)
        http_conn_close(c);
    if (more != 0)
        return;
    c->file = http_file_free(c->file);
    if (http_conn_closes(c)) {
        c->close = true;
        conn_linger(c);
        return;
    }
    conn_await_head(c);
    conn_advance(c);
    conn_close_if_done(c);
}

static void conn_on_event(struct bufferevent *bev, short what, void *arg)
{
    struct http_conn *c = arg;

    if (what == BEV_EVENT_CONNECTED) /* the handshake is done */
        return;
    /* After TLS's end of data libevent writes no more. */
    if (c->tls || what != (BEV_EVENT_EOF | BEV_EVENT_READING)) {
        http_conn_close(c);
        return;
    }
    c->eof = true;
    conn_close_if_done(c);
}

static void conn_on_sent(struct evbuffer *out, const struct evbuffer_cb_info *info, void *arg)
{
    struct http_conn *c = arg;

    if (info->n_deleted > 0 && (c->phase == HTTP_PHASE_REPLY || c->phase == HTTP_PHASE_STREAM))
        c->deadline_ns = mono_ns() + c->server->limits.send_stall_ns;
}

static void conn_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct http_conn *c = arg;

    c->armed_ns = DEADLINE_NEVER;
    if (c->dropped) {
        http_conn_close(c);
        return;
    }
    if (mono_ns() < c->deadline_ns) {
        /* Too early: the deadline moved, or an empty reply asked for the callback that a written one gets. */
        conn_set_deadline(c, c->deadline_ns);
        conn_on_written(c->bev, c);
        return;
    }
    bool started =
        c->phase == HTTP_PHASE_HEAD ? evbuffer_get_length(conn_input(c)) > 0 : c->phase == HTTP_PHASE_BODY;
    if (started)
        conn_refuse(c, 408, "the request did not arrive in time");
    else
        http_conn_close(c);
}

/* -- Life --------------------------------------------------------------------------------------------- */

struct http_conn *http_conn_new(struct http_server *s, struct bufferevent *take_bev)
{
    struct http_conn *c = xcalloc(1, sizeof(*c));

    *c = (struct http_conn){.server = s,
                            .bev = take_bev,
                            .tls = bufferevent_openssl_get_ssl(take_bev) != NULL,
                            .armed_ns = DEADLINE_NEVER};
    c->timer = evtimer_new(s->base, conn_on_timer, c);
    http_peer_read(bufferevent_getfd(take_bev), &c->peer);
    c->is_known = c->peer.local;
    bufferevent_setcb(c->bev, conn_on_readable, conn_on_written, conn_on_event, c);
    evbuffer_add_cb(http_conn_output(c), conn_on_sent, c);
    bufferevent_enable(c->bev, EV_READ);
    return c;
}

void http_conn_begin(struct http_conn *c)
{
    conn_set_displaceable(c, true);
    conn_await_head(c);
    c->head_started = true;
    conn_set_deadline(c, mono_ns() + c->server->limits.head_deadline_ns);
    if (c->served)
        return;
    conn_refuse(c, 503, "too many connections");
    conn_set_deadline(c, mono_ns() + LINGER_NS); /* the handshake may precede the reply */
}

void http_conn_close(struct http_conn *c)
{
    SSL *ssl = bufferevent_openssl_get_ssl(c->bev);

    c->server->on_conn_closed(c);
    anonymous_remove(&c->server->anonymous, &c->anonymous);
    evbuffer_remove_cb(http_conn_output(c), conn_on_sent, c);
    if (c->request)
        http_request_abandon(TAKE_PTR(c->request));
    http_file_free(c->file);
    event_free(c->timer);
    if (ssl) {
        SSL_set_shutdown(ssl, SSL_RECEIVED_SHUTDOWN);
        SSL_shutdown(ssl);
        ERR_clear_error();
    }
    bufferevent_free(c->bev);
    free(c);
}
