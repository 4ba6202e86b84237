/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends GETs at a steady rate over many keep-alive connections, and prints their latencies as JSON. A latency
 * counts from the planned time of its request, so that a server which falls behind cannot hide it. --serve is
 * a peer: libevent's own HTTP server, which responds with a fixed body of BYTES bytes.
 *
 *   http-load PATH|HOST:PORT TARGET CONNECTIONS RATE SECONDS
 *   http-load --serve SOCKET BYTES
 */
#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#define TICK_NS    (NS_PER_MS / 2)
#define GRACE_S    10
#define CONNECT_NS NS_PER_MS /* between two connections, so that no listen queue overflows */

struct load;

struct conn {
    struct load *load;
    struct bufferevent *bev;
    int64_t due_ns; /* of the request in flight; 0: none */
    size_t left;    /* of its answer's body */
    bool in_body;
};

struct load {
    struct event_base *base;
    struct sockaddr_storage to;
    socklen_t to_size;
    char *request;
    struct conn *conns;
    size_t n_conns, n_open, next;
    struct event *tick;
    int64_t begin_ns, end_ns, interval_ns, due_ns;
    int64_t *took_ns;
    size_t n_took, cap_took, n_sent, n_busy, n_failed, n_not_200;
};

static void answered(struct conn *c)
{
    struct load *l = c->load;

    VEC_GROW(l->took_ns, l->n_took, l->cap_took);
    l->took_ns[l->n_took++] = mono_ns() - c->due_ns;
    c->due_ns = 0;
    c->in_body = false;
}

static void read_head(struct conn *c, struct evbuffer *in)
{
    struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
    if (end.pos < 0)
        return;
    size_t size = (size_t)end.pos + 4;
    _cleanup_(freep) char *head = xcalloc(size + 1, 1);
    evbuffer_remove(in, head, size);
    const char *length = strcasestr(head, "\r\ncontent-length:");
    c->load->n_not_200 += strncmp(head, "HTTP/1.1 200", 12) != 0;
    c->left = length ? strtoul(length + strlen("\r\ncontent-length:"), NULL, 10) : 0;
    c->in_body = true;
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct conn *c = arg;
    struct evbuffer *in = bufferevent_get_input(bev);

    if (!c->in_body)
        read_head(c, in);
    if (!c->in_body)
        return;
    size_t n = MIN(c->left, evbuffer_get_length(in));
    evbuffer_drain(in, n);
    c->left -= n;
    if (c->left == 0)
        answered(c);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct conn *c = arg;

    if (what & BEV_EVENT_CONNECTED) {
        c->load->n_open++;
        return;
    }
    c->load->n_failed++;
    c->load->n_open--;
    bufferevent_free(c->bev);
    c->bev = NULL;
}

static void send_one(struct load *l)
{
    for (size_t tried = 0; tried < l->n_conns; tried++) {
        struct conn *c = &l->conns[l->next++ % l->n_conns];
        if (!c->bev || c->due_ns)
            continue;
        c->due_ns = l->due_ns;
        bufferevent_write(c->bev, l->request, strlen(l->request));
        l->n_sent++;
        return;
    }
    l->n_busy++; /* every connection waits */
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct load *l = arg;
    int64_t now = mono_ns();
    struct timeval pause = timeval_of(TICK_NS);

    for (; l->due_ns <= now && l->due_ns < l->end_ns; l->due_ns += l->interval_ns)
        send_one(l);
    if (now > l->end_ns + GRACE_S * NS_PER_S || (now >= l->end_ns && l->n_took + l->n_failed >= l->n_sent))
        event_base_loopbreak(l->base);
    else
        event_add(l->tick, &pause);
}

static int parse_address(const char *text, struct load *l)
{
    unsigned port;
    const char *colon = strrchr(text, ':');
    if (!colon) {
        struct sockaddr_un *un = (struct sockaddr_un *)&l->to;
        un->sun_family = AF_UNIX;
        snprintf(un->sun_path, sizeof(un->sun_path), "%s", text);
        l->to_size = sizeof(*un);
        return 0;
    }
    if (sscanf(colon, ":%u", &port) != 1)
        return -EINVAL;
    *(struct sockaddr_in *)&l->to = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    l->to_size = sizeof(struct sockaddr_in);
    return 0;
}

static void connect_all(struct load *l)
{
    struct timespec pause = {.tv_nsec = CONNECT_NS};
    for (size_t i = 0; i < l->n_conns; i++) {
        struct conn *c = &l->conns[i];
        c->load = l;
        c->bev = bufferevent_socket_new(l->base, -1, BEV_OPT_CLOSE_ON_FREE);
        bufferevent_setcb(c->bev, on_read, NULL, on_event, c);
        bufferevent_enable(c->bev, EV_READ | EV_WRITE);
        bufferevent_socket_connect(c->bev, (struct sockaddr *)&l->to, (int)l->to_size);
        event_base_loop(l->base, EVLOOP_NONBLOCK);
        nanosleep(&pause, NULL);
    }
    for (int i = 0; i < 5000 && l->n_open + l->n_failed < l->n_conns; i++) {
        event_base_loop(l->base, EVLOOP_NONBLOCK);
        nanosleep(&pause, NULL);
    }
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double percentile_ms(const struct load *l, double part)
{
    return l->n_took == 0 ? 0
                          : (double)l->took_ns[(size_t)((double)(l->n_took - 1) * part)] / (double)NS_PER_MS;
}

static void report(struct load *l, double seconds)
{
    qsort(l->took_ns, l->n_took, sizeof(*l->took_ns), compare);
    printf("{\"connections\": %zu, \"failed\": %zu, \"sent\": %zu, \"answered\": %zu, \"not_200\": %zu, "
           "\"unsent\": %zu, "
           "\"rate\": %.0f, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f}\n",
           l->n_open, l->n_failed, l->n_sent, l->n_took, l->n_not_200, l->n_busy, (double)l->n_took / seconds,
           percentile_ms(l, 0.5), percentile_ms(l, 0.99), percentile_ms(l, 1));
}

static int load(struct event_base *base, char **argv)
{
    struct load l = {.base = base, .n_conns = strtoul(argv[2], NULL, 10)};
    double rate = strtod(argv[3], NULL), seconds = strtod(argv[4], NULL);

    if (l.n_conns == 0 || rate <= 0 || seconds <= 0 || parse_address(argv[0], &l) < 0)
        return -EINVAL;
    l.request = xasprintf("GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n", argv[1]);
    l.conns = xcalloc(l.n_conns, sizeof(*l.conns));
    connect_all(&l);
    l.interval_ns = (int64_t)((double)NS_PER_S / rate);
    l.begin_ns = l.due_ns = mono_ns();
    l.end_ns = l.begin_ns + (int64_t)(seconds * (double)NS_PER_S);
    l.tick = evtimer_new(base, on_tick, &l);
    on_tick(-1, 0, &l);
    event_base_dispatch(base);
    report(&l, seconds);
    return 0;
}

static void answer(struct evhttp_request *q, void *body)
{
    struct evbuffer *out = evbuffer_new();
    evbuffer_add_reference(out, body, strlen(body), NULL, NULL);
    evhttp_add_header(evhttp_request_get_output_headers(q), "content-type", "application/json");
    evhttp_send_reply(q, 200, "OK", out);
    evbuffer_free(out);
}

static int serve(struct event_base *base, char **argv)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t size = strtoul(argv[1], NULL, 10);
    char *body = xcalloc(size + 1, 1);

    memset(body, 'x', size);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", argv[0]);
    struct evhttp *http = evhttp_new(base);
    struct evconnlistener *listener = evconnlistener_new_bind(base, NULL, NULL, LEV_OPT_CLOSE_ON_FREE, 1024,
                                                              (struct sockaddr *)&un, sizeof(un));
    if (!listener)
        return -errno;
    evhttp_bind_listener(http, listener);
    evhttp_set_gencb(http, answer, body);
    puts("ready");
    fflush(stdout);
    return event_base_dispatch(base);
}

int main(int argc, char **argv)
{
    struct rlimit files;
    struct event_config *config = event_config_new();

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    signal(SIGPIPE, SIG_IGN);
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    if (argc == 4 && streq(argv[1], "--serve"))
        return serve(base, argv + 2) < 0;
    if (argc == 6 && load(base, argv + 1) == 0)
        return 0;
    fprintf(stderr, "http-load PATH|HOST:PORT TARGET CONNECTIONS RATE SECONDS, or --serve SOCKET BYTES\n");
    return 2;
}
