/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/fault-http.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/http_reason.h"
#include "base/log.h"
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <netinet/tcp.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>

#define HEAD_MAX       (64 * 1024)
#define BODY_MAX       (1024 * 1024)
#define BACKLOG        512
#define FLOOD_SLICE    (64 * 1024)
#define CUT            1000 /* bytes that are announced and never sent */
#define ACCEPT_REST_NS (50 * NS_PER_MS)

struct http_port {
    struct event_base *base;
    http_handler handler;
    void *user;
    struct in_addr address;
    unsigned number;
    int held_fd;                     /* bound but not listening, while refusing */
    struct evconnlistener *listener; /* NULL while refusing */
    struct event *accept_again;
    LIST_HEAD(, http_conn) conns;
};

struct http_conn {
    LIST_ENTRY(http_conn) entry;
    struct http_port *port;
    struct bufferevent *bev;
    struct http_conn **slot;
    bool answering;   /* a request is with the handler, or its answer is on its way */
    bool close_after; /* this answer is the last */
    bool head_only;   /* the request was HEAD */
    const char *filler;
    struct evbuffer *drip;
    struct event *drip_timer;
};

static struct http_conn *conn_free(struct http_conn *c)
{
    if (c->slot)
        *c->slot = NULL;
    LIST_REMOVE(c, entry);
    if (c->drip_timer)
        event_free(c->drip_timer);
    if (c->drip)
        evbuffer_free(c->drip);
    bufferevent_free(c->bev);
    free(c);
    return NULL;
}

void http_watch(struct http_conn *c, struct http_conn **slot)
{
    c->slot = slot;
    if (slot)
        *slot = c;
}

void http_reset(struct http_conn *c)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    conn_free(c);
}

/* The answer is in the output buffer: closes when it has left, or turns to the next request. */
static void answer_done(struct http_conn *c)
{
    if (c->close_after) {
        if (evbuffer_get_length(bufferevent_get_output(c->bev)) == 0)
            conn_free(c);
        return;
    }
    c->answering = false;
    if (evbuffer_get_length(bufferevent_get_input(c->bev)) > 0)
        bufferevent_trigger(c->bev, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

static void on_drip(evutil_socket_t fd, short what, void *arg)
{
    struct http_conn *c = arg;
    evbuffer_remove_buffer(c->drip, bufferevent_get_output(c->bev), 1);
    if (evbuffer_get_length(c->drip) > 0)
        return;
    event_del(c->drip_timer);
    answer_done(c);
}

static void drip_body(struct http_conn *c, const char *body, size_t size)
{
    if (!c->drip) {
        c->drip = evbuffer_new();
        c->drip_timer = event_new(c->port->base, -1, EV_PERSIST, on_drip, c);
    }
    evbuffer_add(c->drip, body, size);
    struct timeval second = timeval_of(NS_PER_S);
    event_add(c->drip_timer, &second);
}

void http_answer(struct http_conn *c, const struct http_answer *a)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);
    char date[64];
    time_t t = time(NULL) + a->date_offset_s;
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime(&t));
    evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\ndate: %s\r\nserver: uvicorn\r\ncontent-length: %zu\r\n",
                        a->status, http_reason(a->status), date, a->body_size + (a->cut ? CUT : 0));
    c->close_after |= a->cut;
    if (a->type)
        evbuffer_add_printf(out, "content-type: %s\r\n", a->type);
    evbuffer_add_printf(out, "%s%s\r\n", a->headers ? a->headers : "",
                        c->close_after ? "connection: close\r\n" : "");

    size_t size = c->head_only ? 0 : a->body_size;
    if (a->drip && size > 0) {
        drip_body(c, a->body, size);
        return;
    }
    evbuffer_add(out, a->body, size);
    answer_done(c);
}

void http_raw(struct http_conn *c, const char *text)
{
    c->close_after = true;
    evbuffer_add(bufferevent_get_output(c->bev), text, strlen(text));
    answer_done(c);
}

static void refuse_request(struct http_conn *c, int status)
{
    c->answering = c->close_after = true;
    http_answer(c, &(struct http_answer){.status = status});
}

static void pour(struct http_conn *c)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);
    for (size_t n = strlen(c->filler); evbuffer_get_length(out) < FLOOD_SLICE;)
        evbuffer_add(out, c->filler, n);
}

void http_flood(struct http_conn *c, const char *head, const char *filler)
{
    c->filler = filler;
    bufferevent_write(c->bev, head, strlen(head));
    pour(c);
}

static void on_write(struct bufferevent *bev, void *arg)
{
    struct http_conn *c = arg;
    if (c->filler)
        pour(c);
    else if (c->answering && c->close_after && !(c->drip && evbuffer_get_length(c->drip) > 0))
        answer_done(c);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        conn_free(arg);
}

/* What the head of a request says; its strings point into the text, which is cut up for it. */
struct head {
    struct http_request request;
    size_t body_size;
    bool chunked;
    bool close;
};

static void parse_header(struct head *h, const char *name, const char *value)
{
    if (strcasecmp(name, "content-length") == 0)
        h->body_size = strtoul(value, NULL, 10);
    else if (strcasecmp(name, "transfer-encoding") == 0)
        h->chunked = true;
    else if (strcasecmp(name, "connection") == 0)
        h->close = strcasecmp(value, "close") == 0;
    else if (strcasecmp(name, "authorization") == 0 && strncasecmp(value, "Bearer ", 7) == 0)
        h->request.bearer = value + 7;
}

/* Text is a whole head, NUL-terminated, without the empty line. */
static int parse_head(char *text, struct head *ret)
{
    struct head h = {.request = {.query = "", .bearer = ""}};
    char *lines, *words, *line = strtok_r(text, "\r\n", &lines);
    char *method = line ? strtok_r(line, " ", &words) : NULL;
    char *path = method ? strtok_r(NULL, " ", &words) : NULL;
    char *version = path ? strtok_r(NULL, " ", &words) : NULL;
    if (!version || !starts_with(version, "HTTP/1."))
        return -EINVAL;
    h.close = streq(version, "HTTP/1.0");
    char *query = strchr(path, '?');
    if (query) {
        *query++ = '\0';
        h.request.query = query;
    }
    h.request.method = method;
    h.request.path = path;
    while ((line = strtok_r(NULL, "\r\n", &lines))) {
        char *colon = strchr(line, ':');
        if (!colon)
            return -EINVAL;
        *colon++ = '\0';
        parse_header(&h, line, colon + strspn(colon, " \t"));
    }
    *ret = h;
    return 0;
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct http_conn *c = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    if (c->answering)
        return;
    struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
    if (end.pos < 0 || end.pos > HEAD_MAX) {
        if (evbuffer_get_length(in) > HEAD_MAX)
            refuse_request(c, 431);
        return;
    }

    size_t head_size = (size_t)end.pos + 4;
    _cleanup_(freep) char *text = xcalloc(head_size + 1, 1);
    evbuffer_copyout(in, text, (size_t)end.pos);
    struct head h;
    if (parse_head(text, &h) < 0 || h.chunked || h.body_size > BODY_MAX) {
        refuse_request(c, h.chunked ? 411 : 400);
        return;
    }
    if (evbuffer_get_length(in) < head_size + h.body_size)
        return;

    _cleanup_(freep) char *body = xcalloc(h.body_size + 1, 1);
    evbuffer_drain(in, head_size);
    evbuffer_remove(in, body, h.body_size);
    h.request.body = body;
    h.request.body_size = h.body_size;
    c->answering = true;
    c->close_after = h.close;
    c->head_only = streq(h.request.method, "HEAD");
    c->port->handler(c, &h.request, c->port->user);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from, int from_size,
                      void *arg)
{
    struct http_port *p = arg;
    struct http_conn *c = xcalloc(1, sizeof(*c));
    c->port = p;
    c->bev = bufferevent_socket_new(p->base, fd, BEV_OPT_CLOSE_ON_FREE);
    LIST_INSERT_HEAD(&p->conns, c, entry);
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    bufferevent_setcb(c->bev, on_read, on_write, on_event, c);
    bufferevent_setwatermark(c->bev, EV_READ, 0, HEAD_MAX + BODY_MAX + 4);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
}

static void on_accept_again(evutil_socket_t fd, short what, void *arg)
{
    struct http_port *p = arg;
    if (p->listener)
        evconnlistener_enable(p->listener);
}

/* Without a rest, a listener out of descriptors is ready at every turn of the loop. */
static void on_accept_error(struct evconnlistener *l, void *arg)
{
    struct http_port *p = arg;
    log_warning("cannot accept on port %u: %m", p->number);
    evconnlistener_disable(l);
    struct timeval rest = timeval_of(ACCEPT_REST_NS);
    event_add(p->accept_again, &rest);
}

/* Bound to the address and the number, 0 for any; sets *number. */
static int bound_socket(struct in_addr address, unsigned *number)
{
    _cleanup_(closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int one = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*number), .sin_addr = address};
    socklen_t size = sizeof(a);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
        bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || getsockname(fd, (struct sockaddr *)&a, &size) < 0)
        return -errno;
    *number = ntohs(a.sin_port);
    return TAKE_FD(fd);
}

int http_port_listen(struct http_port *p)
{
    if (p->listener)
        return 0;
    p->listener = evconnlistener_new(p->base, on_accept, p, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
                                     BACKLOG, p->held_fd);
    if (!p->listener)
        return -errno;
    p->held_fd = -1;
    evconnlistener_set_error_cb(p->listener, on_accept_error);
    return 0;
}

static void reset_all(struct http_port *p, const struct http_conn *spare)
{
    struct http_conn *next;
    for (struct http_conn *c = LIST_FIRST(&p->conns); c; c = next) {
        next = LIST_NEXT(c, entry);
        if (c != spare)
            http_reset(c);
    }
}

void http_port_hang_up(struct http_port *p)
{
    reset_all(p, NULL);
}

int http_port_refuse(struct http_port *p, struct http_conn *spare)
{
    if (spare)
        spare->close_after = true;
    reset_all(p, spare);
    if (!p->listener)
        return 0;
    evconnlistener_free(p->listener);
    p->listener = NULL;
    /* Held bound, so that no other program is given the number meanwhile. */
    p->held_fd = bound_socket(p->address, &p->number);
    return p->held_fd < 0 ? p->held_fd : 0;
}

int http_port_new(struct event_base *base, struct in_addr address, http_handler handler, void *user,
                  struct http_port **ret)
{
    struct http_port *p = xcalloc(1, sizeof(*p));
    *p =
        (struct http_port){.base = base, .address = address, .handler = handler, .user = user, .held_fd = -1};
    LIST_INIT(&p->conns);
    p->accept_again = evtimer_new(base, on_accept_again, p);
    p->held_fd = bound_socket(p->address, &p->number);
    int r = p->held_fd < 0 ? p->held_fd : http_port_listen(p);
    if (r < 0) {
        http_port_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

struct http_port *http_port_free(struct http_port *p)
{
    if (!p)
        return NULL;
    while (!LIST_EMPTY(&p->conns))
        conn_free(LIST_FIRST(&p->conns));
    if (p->listener)
        evconnlistener_free(p->listener);
    closep(&p->held_fd);
    event_free(p->accept_again);
    free(p);
    return NULL;
}

char *http_port_url(const struct http_port *p)
{
    char address[INET_ADDRSTRLEN];
    return xasprintf("http://%s:%u", inet_ntop(AF_INET, &p->address, address, sizeof(address)), p->number);
}

bool http_query_has(const char *query, const char *pair)
{
    size_t n = strlen(pair);
    for (const char *s = query; (s = strstr(s, pair)); s++)
        if ((s == query || s[-1] == '&') && (s[n] == '\0' || s[n] == '&'))
            return true;
    return false;
}
