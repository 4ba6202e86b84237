/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets, connections and the gate in front of libevhtp.
 *
 * libevhtp accepts, parses what the gate lets through, and keeps the request and the connection; all three
 * callbacks of the bufferevent are ours. Its read callback is called with exactly one request in the input
 * buffer, its write callback when that request's reply is out and the connection stays, its event callback
 * never. Replies are written by http_request.c: libevhtp sends bodies to HEAD and chunks to HTTP/1.0.
 *
 * With TLS, libevhtp makes each connection's SSL of the context that lies in its evhtp_t, which is ours; none
 * of its own set-up is used. The handshake is part of what the first head's deadline bounds.
 *
 * At the limit of connections a new one is accepted all the same, and one whose client has shown no right
 * token is closed for it (http_strangers.h). Whoever showed one with the last request of a connection keeps
 * it. New connections come in portions, with a turn of the loop between two: what a client sent at once is
 * read before others can displace it.
 *
 * A connection has one deadline and one timer. The deadline is moved without touching the timer where it only
 * grows, so a download costs no timer work for each write, and a server without connections has no timer.
 */
#include "daemon/api/http.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/api/http_internal.h"
#include "daemon/api/http_strangers.h"
#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <evhtp.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/queue.h>
#include <sys/socket.h>

/* How long a closing connection is read on, so that the client sees the reply and no reset. */
#define LINGER_NS (2 * NS_PER_S)
/* Connections over the limit that may be told so at a time, on one side; beyond, they wait in the listen
 * queue. */
#define REFUSED_MAX 32
/* Connections that are accepted in one turn of the loop. */
#define ACCEPTS_PER_TURN 32
/* Accepting is tried again this long after descriptors ran out, or when a connection ends. */
#define ACCEPT_RETRY_NS NS_PER_S
/* Of the connections, this part is kept for Unix sockets where there are both. */
#define LOCAL_SHARE_DIVISOR 4
/* A lack that comes and goes is logged this often. */
#define SHORTAGE_LOG_NS (60 * NS_PER_S)

const struct http_limits http_limits_default = {
    .connections_max = 256,
    .strangers_share = 32,
    .head_max = 16 << 10,
    .headers_max = 64,
    .body_max = 1 << 20,
    .head_deadline_ns = 10 * NS_PER_S,
    .body_deadline_ns = 30 * NS_PER_S,
    .idle_ns = 60 * NS_PER_S,
    .send_stall_ns = 30 * NS_PER_S,
    .stream_lag_max = 256 << 10,
};

enum phase {
    PHASE_HEAD,    /* a head is awaited or incomplete */
    PHASE_BODY,    /* the head has passed, its body is incomplete */
    PHASE_HANDLER, /* the request was handed on, its reply is owed */
    PHASE_STREAM,  /* the reply goes on as long as handler and client like */
    PHASE_REPLY,   /* the reply is on its way, the request is gone */
    PHASE_LINGER,  /* everything is said; what still comes is discarded */
};

struct http_conn {
    LIST_ENTRY(http_conn) link;
    struct http_server *server;
    evhtp_connection_t *evhtp;
    struct bufferevent *bev;
    bufferevent_data_cb evhtp_read, evhtp_write;
    void *evhtp_arg;
    struct http_peer peer;
    struct stranger stranger; /* a member while the connection may be closed for others */
    bool is_known;            /* the last request showed a right token, or the socket is local */
    bool tls;
    size_t input_max; /* of TLS; 0: no limit */

    enum phase phase;
    bool served;       /* counts against connections_max */
    bool close;        /* no further request will be answered */
    bool eof;          /* the client sends nothing more */
    bool dropped;      /* ends at the next turn of the loop */
    bool head_started; /* the deadline is the head's, not the idle connection's */
    size_t scanned;    /* of an incomplete head */
    size_t head_size;
    evhtp_request_t *evhtp_request;
    struct http_request *request; /* from its head on */
    struct http_file *file;       /* the rest of the reply */
    bool *gone;                   /* set when the connection is freed while libevhtp reads */

    int64_t deadline_ns, armed_ns; /* the timer fires at armed_ns, which may be too early */
    struct event *timer;
};

LIST_HEAD(conn_list, http_conn);

/* Apart, so that whoever can reach the TCP port cannot shut the Unix socket, which only the permitted can
 * reach. */
enum { SIDE_REMOTE, SIDE_LOCAL, _SIDE_MAX };

struct http_server {
    struct event_base *base;
    struct http_limits limits;
    struct http_handlers handlers;
    evhtp_t **listeners; /* one for each listening socket */
    size_t n_listeners, listeners_cap;
    SSL_CTX *tls; /* NULL: none */
    struct conn_list conns;
    struct strangers strangers;
    unsigned n_conns;
    struct side {
        unsigned n_served, n_refused;
        bool paused; /* accepts nobody for the moment */
    } sides[_SIDE_MAX];
    bool stopping;
    struct event *accept_timer;
    struct event *turn_end; /* active where anybody was accepted in this turn */
    unsigned n_accepted;    /* in this turn */
    uint64_t n_displaced;
    int64_t shortage_logged_ns;
    uint64_t refusals[HTTP_REFUSALS_MAX];
};

static struct evbuffer *input(struct http_conn *c)
{
    return bufferevent_get_input(c->bev);
}

struct evbuffer *http_conn_output(struct http_conn *c)
{
    return bufferevent_get_output(c->bev);
}

const struct http_peer *http_conn_peer(const struct http_conn *c)
{
    return &c->peer;
}

bool http_conn_closes(const struct http_conn *c)
{
    return c->close || c->server->stopping;
}

static void conn_close(struct http_conn *c)
{
    evhtp_connection_free(c->evhtp);
}

/* Deadlines. */

static void set_deadline(struct http_conn *c, int64_t deadline_ns)
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
static void pace_reading(struct http_conn *c)
{
    if (c->input_max > 0 && evbuffer_get_length(input(c)) >= c->input_max)
        bufferevent_disable(c->bev, EV_READ);
    else
        bufferevent_enable(c->bev, EV_READ);
}

/* Bytes beyond max stay in the kernel; 0 is no limit. A watermark would leave the rest of a TLS record inside
 * OpenSSL, where no event wakes it. */
static void set_input_max(struct http_conn *c, size_t max)
{
    if (!c->tls) {
        bufferevent_setwatermark(c->bev, EV_READ, 0, max);
        return;
    }
    c->input_max = max;
    pace_reading(c);
}

static bool discards_input(const struct http_conn *c)
{
    return c->close && c->phase != PHASE_HEAD && c->phase != PHASE_BODY;
}

/* Only while it waits for its client, and counts. */
static void set_displaceable(struct http_conn *c, bool displaceable)
{
    if (displaceable && c->served && !c->is_known)
        strangers_add(&c->server->strangers, &c->stranger, &c->peer.ip);
    else
        strangers_remove(&c->server->strangers, &c->stranger);
}

/* Replies. */

static void on_file_ready(void *arg);

void http_conn_replied(struct http_conn *c, struct http_file *take_file)
{
    c->request = NULL;
    c->file = take_file;
    if (c->file)
        http_file_on_ready(c->file, on_file_ready, c);
    c->phase = PHASE_REPLY;
    c->close = http_conn_closes(c);
    set_displaceable(c, true);
    set_deadline(c, mono_ns() + c->server->limits.send_stall_ns);
    if (evbuffer_get_length(http_conn_output(c)) == 0)
        event_active(c->timer, EV_TIMEOUT, 1);
}

void http_conn_stream(struct http_conn *c)
{
    c->phase = PHASE_STREAM;
    c->close = true;
    set_input_max(c, 0);
    evbuffer_drain(input(c), SIZE_MAX);
    set_deadline(c, mono_ns() + c->server->limits.send_stall_ns);
}

int http_conn_stream_room(struct http_conn *c, size_t size)
{
    size_t waiting = evbuffer_get_length(http_conn_output(c));

    if (c->dropped || c->phase != PHASE_STREAM)
        return -EPIPE;
    if (waiting + size > c->server->limits.stream_lag_max) {
        conn_drop(c);
        return -ENOBUFS;
    }
    if (waiting == 0)
        set_deadline(c, mono_ns() + c->server->limits.send_stall_ns);
    return 0;
}

uint64_t http_displaced(const struct http_server *s)
{
    return s->n_displaced;
}

uint64_t http_refusals(const struct http_server *s, size_t i)
{
    return s->refusals[i];
}

/* What the client still sends is read, so that no reset overtakes the reply, and discarded. */
static void discard_input(struct http_conn *c)
{
    set_input_max(c, 0);
    evbuffer_drain(input(c), SIZE_MAX);
}

/* Answers in the place of a handler, and closes. */
static void refuse(struct http_conn *c, int status, const char *detail)
{
    c->server->refusals[http_refusal_index(status)]++;
    http_refusal_render(http_conn_output(c), status, detail);
    c->close = true;
    discard_input(c);
    http_request_free(c->request);
    http_conn_replied(c, NULL);
}

/* The gate. */

static void await_head(struct http_conn *c)
{
    c->phase = PHASE_HEAD;
    c->head_started = false;
    c->scanned = 0;
    set_input_max(c, c->server->limits.head_max);
    set_deadline(c, mono_ns() + c->server->limits.idle_ns);
}

/* RFC 9112, 2.2: blank lines in front of a request are ignored. True where something else follows. */
static bool skip_blank_lines(struct evbuffer *in)
{
    char ends[2];

    while (evbuffer_copyout(in, ends, 2) == 2 && ends[0] == '\r' && ends[1] == '\n')
        evbuffer_drain(in, 2);
    size_t size = evbuffer_get_length(in);
    return size > 1 || (size == 1 && evbuffer_copyout(in, ends, 1) == 1 && ends[0] != '\r');
}

/* Whoever is not gets his answer instead, the last of the connection. */
static bool is_admitted(struct http_conn *c)
{
    const struct http_handlers *h = &c->server->handlers;

    c->close = true;
    if (h->admit && !h->admit(c->request, h->arg)) {
        discard_input(c);
        return false;
    }
    c->close = false;
    c->is_known = c->peer.local || c->request->user;
    set_displaceable(c, true);
    return true;
}

static void read_head(struct http_conn *c)
{
    const struct http_limits *limits = &c->server->limits;
    struct http_refusal why;
    struct http_head head;

    if (!c->head_started) {
        c->head_started = true;
        set_deadline(c, mono_ns() + limits->head_deadline_ns);
    }
    if (!skip_blank_lines(input(c)))
        return;
    size_t size = MIN(evbuffer_get_length(input(c)), limits->head_max);
    const char *data = (const char *)evbuffer_pullup(input(c), (ssize_t)size);
    ssize_t n = http_head_find(data, size, limits->head_max, &c->scanned, &why);
    if (n == 0)
        return;
    if (n < 0 || http_head_parse(data, (size_t)n, limits, &head, &why) < 0)
        return refuse(c, why.status, why.detail);

    c->phase = PHASE_BODY;
    c->head_size = (size_t)n;
    c->request = xcalloc(1, sizeof(*c->request));
    *c->request = (struct http_request){.conn = c, .head = head, .body = "", .begun_ns = mono_ns()};
    if (!is_admitted(c))
        return;
    set_input_max(c, c->head_size + (size_t)head.content_length);
    set_deadline(c, mono_ns() + limits->body_deadline_ns);
    if (head.expects_continue && evbuffer_get_length(input(c)) == c->head_size)
        evbuffer_add_printf(http_conn_output(c), "HTTP/1.1 100 Continue\r\n\r\n");
}

/* Shows libevhtp the first size bytes of the input as if nothing else had arrived. False where it freed the
 * connection. */
static bool hand_on(struct http_conn *c, size_t size)
{
    struct evbuffer *rest = NULL;
    bool gone = false;

    if (evbuffer_get_length(input(c)) > size) {
        struct evbuffer *first = evbuffer_new();
        rest = evbuffer_new();
        evbuffer_add_buffer(rest, input(c));
        evbuffer_remove_buffer(rest, first, size);
        evbuffer_prepend_buffer(input(c), first);
        evbuffer_free(first);
    }
    c->gone = &gone;
    c->evhtp_read(c->bev, c->evhtp_arg);
    if (!gone) {
        c->gone = NULL;
        evbuffer_drain(input(c), SIZE_MAX);
        if (rest && !discards_input(c))
            evbuffer_prepend_buffer(input(c), rest);
        if (c->tls)
            pace_reading(c);
    }
    if (rest)
        evbuffer_free(rest);
    return !gone;
}

/* Lets the next request pass, if it is there and none is under way. False where the connection was freed. */
static bool gate(struct http_conn *c)
{
    if (c->phase == PHASE_HEAD && evbuffer_get_length(input(c)) > 0)
        read_head(c);
    if (c->phase != PHASE_BODY)
        return true;
    const struct http_head *head = &c->request->head;
    size_t size = c->head_size + (size_t)head->content_length;
    if (evbuffer_get_length(input(c)) < size)
        return true;

    c->phase = PHASE_HANDLER;
    set_displaceable(c, false);
    c->close = !head->keep_alive;
    set_input_max(c, c->close ? 0 : c->server->limits.head_max);
    set_deadline(c, DEADLINE_NEVER);
    if (!hand_on(c, size))
        return false;
    if (!c->evhtp_request)
        refuse(c, 400, "the request could not be read");
    return true;
}

/* libevhtp has read a request. */
static void on_request(evhtp_request_t *evhtp_request, void *arg)
{
    struct http_server *s = arg;
    void *conn;

    bufferevent_getcb(evhtp_connection_get_bev(evhtp_request->conn), NULL, NULL, NULL, &conn);
    struct http_conn *c = conn;
    struct http_request *r = c->request;
    size_t size = evbuffer_get_length(evhtp_request->buffer_in);
    if (!c->gone || !r || (int64_t)size != r->head.content_length)
        return;
    r->body_size = size;
    if (size > 0) {
        r->body = (const char *)evbuffer_pullup(evhtp_request->buffer_in, -1);
        r->begun_ns = mono_ns();
    }
    c->evhtp_request = evhtp_request;
    s->handlers.handle(r, s->handlers.arg);
}

/* Callbacks of the bufferevent. */

static void linger(struct http_conn *c)
{
    if (c->eof)
        return conn_close(c);
    c->phase = PHASE_LINGER;
    if (c->tls) {
        SSL_shutdown(bufferevent_openssl_get_ssl(c->bev));
        ERR_clear_error();
    }
    shutdown(bufferevent_getfd(c->bev), SHUT_WR);
    set_input_max(c, 0);
    evbuffer_drain(input(c), SIZE_MAX);
    set_deadline(c, mono_ns() + LINGER_NS);
}

/* After the end of what a client sends, only replies that are already there still go out. */
static void close_if_done(struct http_conn *c)
{
    if (c->eof && c->phase != PHASE_REPLY)
        conn_close(c);
}

static void on_reply_out(struct http_conn *c)
{
    if (http_conn_closes(c)) {
        c->close = true;
        return linger(c);
    }
    evhtp_request_set_keepalive(c->evhtp_request, 1);
    evhtp_send_reply_end(c->evhtp_request);
    c->evhtp_request = NULL;
    c->evhtp_write(c->bev, c->evhtp_arg);
    await_head(c);
    if (gate(c))
        close_if_done(c);
}

static void on_readable(struct bufferevent *bev, void *arg)
{
    struct http_conn *c = arg;

    if (discards_input(c))
        evbuffer_drain(input(c), SIZE_MAX);
    else if (gate(c) && c->tls)
        pace_reading(c);
}

/* The output is empty. */
static void on_written(struct bufferevent *bev, void *arg)
{
    struct http_conn *c = arg;

    if (evbuffer_get_length(http_conn_output(c)) > 0)
        return;
    if (c->phase == PHASE_STREAM) {
        set_deadline(c, DEADLINE_NEVER);
        /* The head is all that HEAD asks for. */
        if (c->request->head.method == HTTP_HEAD)
            conn_drop(c);
    }
    if (c->phase != PHASE_REPLY)
        return;
    int more = c->file ? http_file_feed(c->file, http_conn_output(c), c->tls) : 0;
    if (more < 0)
        return conn_close(c);
    if (more > 0)
        return;
    c->file = http_file_free(c->file);
    on_reply_out(c);
}

static void on_file_ready(void *arg)
{
    struct http_conn *c = arg;
    on_written(c->bev, c);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct http_conn *c = arg;

    if (what == BEV_EVENT_CONNECTED) /* the handshake is done */
        return;
    /* After TLS's end of data libevent writes no more. */
    if (c->tls || what != (BEV_EVENT_EOF | BEV_EVENT_READING))
        return conn_close(c);
    c->eof = true;
    close_if_done(c);
}

static void on_sent(struct evbuffer *out, const struct evbuffer_cb_info *info, void *arg)
{
    struct http_conn *c = arg;

    if (info->n_deleted > 0 && (c->phase == PHASE_REPLY || c->phase == PHASE_STREAM))
        c->deadline_ns = mono_ns() + c->server->limits.send_stall_ns;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct http_conn *c = arg;

    c->armed_ns = DEADLINE_NEVER;
    if (c->dropped)
        return conn_close(c);
    if (mono_ns() < c->deadline_ns) {
        /* Too early: the deadline moved, or an empty reply asked for the turn that a written one gets. */
        set_deadline(c, c->deadline_ns);
        return on_written(c->bev, c);
    }
    bool started = c->phase == PHASE_HEAD ? evbuffer_get_length(input(c)) > 0 : c->phase == PHASE_BODY;
    if (started)
        return refuse(c, 408, "the request did not arrive in time");
    conn_close(c);
}

/* Accepting. */

static int side_of(const struct http_conn *c)
{
    return c->peer.local ? SIDE_LOCAL : SIDE_REMOTE;
}

static void accept_enable(struct http_server *s, int side, bool enable)
{
    for (size_t i = 0; i < s->n_listeners; i++) {
        struct evconnlistener *listener = s->listeners[i]->server;
        if (!listener || http_socket_is_tcp(evconnlistener_get_fd(listener)) != (side == SIDE_REMOTE))
            continue;
        if (enable)
            evconnlistener_enable(listener);
        else
            evconnlistener_disable(listener);
    }
    s->sides[side].paused = !enable;
}

static void accept_again(struct http_server *s)
{
    for (int side = 0; side < _SIDE_MAX; side++)
        if (s->sides[side].paused && s->sides[side].n_refused < REFUSED_MAX &&
            s->n_accepted < ACCEPTS_PER_TURN)
            accept_enable(s, side, true);
}

static void on_turn_end(evutil_socket_t fd, short what, void *arg)
{
    struct http_server *s = arg;

    s->n_accepted = 0;
    accept_again(s);
}

static void log_shortage(struct http_server *s, const char *what, const char *effect)
{
    int64_t now_ns = mono_ns();

    if (s->shortage_logged_ns && now_ns - s->shortage_logged_ns < SHORTAGE_LOG_NS)
        return;
    s->shortage_logged_ns = now_ns;
    log_warning("http: %s with %u connections open; %s", what, s->n_conns, effect);
}

static void on_accept_timer(evutil_socket_t fd, short what, void *arg)
{
    accept_again(arg);
}

static void on_accept_error(struct evconnlistener *listener, void *arg)
{
    evhtp_t *htp = arg;
    struct http_server *s = htp->arg;
    struct timeval retry = timeval_of(ACCEPT_RETRY_NS);

    log_shortage(s, strerror(errno), "clients have to wait");
    for (int side = 0; side < _SIDE_MAX; side++)
        accept_enable(s, side, false);
    evtimer_add(s->accept_timer, &retry);
}

static evhtp_res on_conn_fini(evhtp_connection_t *evhtp, void *arg)
{
    struct http_conn *c = arg;
    struct http_server *s = c->server;

    if (c->gone)
        *c->gone = true;
    LIST_REMOVE(c, link);
    strangers_remove(&s->strangers, &c->stranger);
    s->n_conns--;
    if (c->served)
        s->sides[side_of(c)].n_served--;
    else
        s->sides[side_of(c)].n_refused--;
    evbuffer_remove_cb(http_conn_output(c), on_sent, c);
    if (c->request)
        http_request_abandon(TAKE_PTR(c->request));
    http_file_free(c->file);
    event_free(c->timer);
    free(c);
    accept_again(s);
    return EVHTP_RES_OK;
}

static void prepare_socket(int fd, bool local)
{
    int on = 1;

    /* libevent's listener leaves this to us; a child must not keep a client's connection open. */
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (!local)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static bool may_serve(const struct http_server *s, int side)
{
    unsigned max = s->limits.connections_max, reserved = s->n_listeners > 1 ? max / LOCAL_SHARE_DIVISOR : 0;
    unsigned n_local = s->sides[SIDE_LOCAL].n_served, n_remote = s->sides[SIDE_REMOTE].n_served;

    return n_local + n_remote < max && (side == SIDE_LOCAL || n_remote < max - reserved);
}

/* False where there was none. */
static bool displace(struct http_server *s, struct stranger *stranger)
{
    if (!stranger)
        return false;
    conn_close((struct http_conn *)((char *)stranger - offsetof(struct http_conn, stranger)));
    s->n_displaced++;
    return true;
}

static void make_room(struct http_server *s, const struct http_conn *c)
{
    if (!c->peer.local)
        displace(s, strangers_over_share(&s->strangers, &c->peer.ip, s->limits.strangers_share));
    if (may_serve(s, side_of(c)))
        return;
    log_shortage(s, "the limit is reached",
                 "those without a token make room, and where there are none, new ones get status 503");
    while (!may_serve(s, side_of(c)) && displace(s, strangers_first(&s->strangers)))
        ;
}

static void count_accept(struct http_server *s)
{
    if (s->n_accepted++ == 0)
        event_active(s->turn_end, EV_TIMEOUT, 1);
    for (int side = 0; side < _SIDE_MAX && s->n_accepted == ACCEPTS_PER_TURN; side++)
        accept_enable(s, side, false);
}

static evhtp_res on_accept(evhtp_connection_t *evhtp, void *arg)
{
    struct http_server *s = arg;
    struct http_conn *c = xcalloc(1, sizeof(*c));

    *c = (struct http_conn){
        .server = s, .evhtp = evhtp, .bev = evhtp_connection_get_bev(evhtp), .armed_ns = DEADLINE_NEVER};
    c->tls = evhtp->ssl;
    c->timer = evtimer_new(s->base, on_timer, c);
    LIST_INSERT_HEAD(&s->conns, c, link);
    s->n_conns++;
    http_peer_read(evhtp->sock, &c->peer);
    c->is_known = c->peer.local;
    make_room(s, c);
    struct side *side = &s->sides[side_of(c)];
    c->served = may_serve(s, side_of(c));
    if (c->served)
        side->n_served++;
    else
        side->n_refused++;
    prepare_socket(evhtp->sock, c->peer.local);
    bufferevent_getcb(c->bev, &c->evhtp_read, &c->evhtp_write, NULL, &c->evhtp_arg);
    bufferevent_setcb(c->bev, on_readable, on_written, on_event, c);
    evbuffer_add_cb(http_conn_output(c), on_sent, c);
    evhtp_connection_set_hook(evhtp, evhtp_hook_on_connection_fini, (evhtp_hook)on_conn_fini, c);

    set_displaceable(c, true);
    await_head(c);
    c->head_started = true;
    set_deadline(c, mono_ns() + s->limits.head_deadline_ns);
    if (!c->served) {
        refuse(c, 503, "too many connections");
        set_deadline(c, mono_ns() + LINGER_NS); /* the handshake may be ahead of the reply */
    }
    if (side->n_refused >= REFUSED_MAX)
        accept_enable(s, side_of(c), false);
    count_accept(s);
    return EVHTP_RES_OK;
}

/* The server. */

int http_server_new(struct event_base *base, const struct http_limits *limits,
                    const struct http_handlers *handlers, struct http_server **ret)
{
    struct http_server *s = xcalloc(1, sizeof(*s));

    *s = (struct http_server){.base = base, .limits = *limits, .handlers = *handlers};
    LIST_INIT(&s->conns);
    LIST_INIT(&s->strangers.groups);
    s->accept_timer = evtimer_new(base, on_accept_timer, s);
    s->turn_end = evtimer_new(base, on_turn_end, s);
    /* sendfile() has no flag for it. */
    signal(SIGPIPE, SIG_IGN);
    *ret = s;
    return 0;
}

static void set_tls(struct http_server *s, evhtp_t *htp)
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
    evhtp_disable_flag(htp, EVHTP_FLAG_ENABLE_100_CONT);
    /* A callback that libevent defers keeps its bufferevent alive, for ever if the loop ends before. */
    evhtp_set_bev_flags(htp, BEV_OPT_CLOSE_ON_FREE);
    evhtp_set_gencb(htp, on_request, s);
    evhtp_set_post_accept_cb(htp, on_accept, s);
    if (evhtp_accept_socket(htp, fd, 0) < 0) {
        evhtp_free(htp);
        return -EIO;
    }
    TAKE_FD(fd);
    evconnlistener_set_error_cb(htp->server, on_accept_error);
    VEC_GROW(s->listeners, s->n_listeners, s->listeners_cap);
    s->listeners[s->n_listeners++] = htp;
    set_tls(s, htp);
    return 0;
}

void http_server_set_tls(struct http_server *s, SSL_CTX *context)
{
    if (context)
        SSL_CTX_up_ref(context);
    SSL_CTX_free(s->tls);
    s->tls = context;
    for (size_t i = 0; i < s->n_listeners; i++)
        set_tls(s, s->listeners[i]);
}

void http_server_stop_accepting(struct http_server *s)
{
    struct http_conn *c, *next;

    s->stopping = true;
    evtimer_del(s->accept_timer);
    evtimer_del(s->turn_end);
    for (size_t i = 0; i < s->n_listeners; i++)
        evhtp_unbind_socket(s->listeners[i]);
    for (c = LIST_FIRST(&s->conns); c; c = next) {
        next = LIST_NEXT(c, link);
        if (c->phase == PHASE_HEAD && evbuffer_get_length(input(c)) == 0)
            conn_close(c);
    }
}

struct http_server *http_server_free(struct http_server *s)
{
    if (!s)
        return NULL;
    http_server_stop_accepting(s);
    while (!LIST_EMPTY(&s->conns))
        conn_close(LIST_FIRST(&s->conns));
    for (size_t i = 0; i < s->n_listeners; i++) {
        s->listeners[i]->ssl_ctx = NULL; /* it is ours */
        evhtp_free(s->listeners[i]);
    }
    SSL_CTX_free(s->tls);
    event_free(s->accept_timer);
    event_free(s->turn_end);
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
