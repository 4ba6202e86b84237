/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A completions server that computes nothing: each step it sends one token to every stream that is open, as
 * an engine does, and notes when. The prompt's last number is the request's, max_tokens its length.
 *
 *   stream-server GAP_US LOG [EVENTS]
 *
 * Steps begin GAP_US apart, with 0 one after another. With EVENTS each write has as many tokens, each of them an event in a
 * chunk of its own, and answers are multiples of it: what a client can take then depends less on the cost of a write.
 * Prints its port when it listens. At SIGTERM it writes LOG, a line of JSON for each request: {"id", "received_ns",
 * "sent_ns": [...]}, of CLOCK_MONOTONIC; received_ns is when the request's last bytes arrived at this machine, whenever the
 * server read them.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/load/arrival.h"
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define REQUEST_MAX    (64 << 10)
#define TOKENS_DEFAULT 16
#define BACKLOG        16384
#define EVENTS_MAX     64
#define EVENT_SIZE_MAX 512

struct request {
    STAILQ_ENTRY(request) link;
    int64_t id, received_ns;
    size_t n, wanted;
    int64_t sent_ns[];
};
STAILQ_HEAD(request_queue, request);

struct conn {
    LIST_ENTRY(conn) link; /* while it streams */
    struct server *server;
    struct event *readable;
    int fd;
    struct request *request; /* NULL: none is being answered */
    char *in;
    size_t size, capacity;
    int64_t arrived_ns;
};
LIST_HEAD(conn_list, conn);

struct server {
    struct event_base *base;
    struct event *step;
    int64_t gap_ns, next_ns;
    struct conn_list streaming;
    struct request_queue requests;
    size_t n_events; /* of a write */
    char token[EVENTS_MAX * EVENT_SIZE_MAX], last[EVENTS_MAX * EVENT_SIZE_MAX];
    size_t token_size, last_size;
    struct arrival_clock clock;
    bool stepping;
};

static const char head[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char models[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
                             "29\r\n\r\n{\"data\": [{\"id\": \"nothing\"}]}";
static const char not_found[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

static size_t chunk(char *buf, size_t max, const char *events)
{
    return (size_t)snprintf(buf, max, "%zx\r\n%s\r\n", strlen(events), events);
}

static void close_conn(struct conn *c)
{
    if (c->request)
        LIST_REMOVE(c, link);
    event_free(c->readable);
    close(c->fd);
    free(c->in);
    free(c);
}

static bool send_fully(int fd, const char *bytes, size_t size)
{
    return send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static void end_stream(struct conn *c)
{
    char text[640], total[700];
    const struct request *q = c->request;

    snprintf(text, sizeof(text),
             "data: "
             "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"model\":\"nothing\",\"choices\":[],"
             "\"usage\":{\"prompt_tokens\":4,"
             "\"total_tokens\":%zu,\"completion_tokens\":%zu}}\n\ndata: [DONE]\n\n",
             q->n + 4, q->n);
    size_t n = chunk(total, sizeof(total), text);
    memcpy(total + n, "0\r\n\r\n", 5);
    LIST_REMOVE(c, link);
    c->request = NULL;
    send_fully(c->fd, total, n + 5);
}

static void arm(struct server *s)
{
    struct timeval now = {0}, at = timeval_until(s->next_ns);

    s->stepping = !LIST_EMPTY(&s->streaming);
    if (s->stepping)
        event_add(s->step, s->gap_ns ? &at : &now);
}

static void on_step(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;
    struct conn *c, *next;

    for (c = LIST_FIRST(&s->streaming); c; c = next) {
        struct request *q = c->request;
        bool last = q->n + s->n_events == q->wanted;
        int64_t now_ns = mono_ns();
        next = LIST_NEXT(c, link);
        for (size_t i = 0; i < s->n_events; i++)
            q->sent_ns[q->n + i] = now_ns;
        if (!send_fully(c->fd, last ? s->last : s->token, last ? s->last_size : s->token_size))
            close_conn(c);
        else if ((q->n += s->n_events) == q->wanted)
            end_stream(c);
    }
    s->next_ns = MAX(s->next_ns + s->gap_ns, mono_ns());
    arm(s);
}

static void begin_stream(struct conn *c, char *body)
{
    struct server *s = c->server;
    const char *prompt = strstr(body, "\"request "), *max = strstr(body, "\"max_tokens\":");
    size_t wanted = max ? strtoul(max + strlen("\"max_tokens\":"), NULL, 10) : TOKENS_DEFAULT;

    wanted = (wanted + s->n_events - 1) / s->n_events * s->n_events;
    c->request = xcalloc(1, sizeof(*c->request) + wanted * sizeof(*c->request->sent_ns));
    c->request->id = prompt ? strtoll(prompt + strlen("\"request "), NULL, 10) : -1;
    c->request->wanted = wanted;
    c->request->received_ns = c->arrived_ns;
    STAILQ_INSERT_TAIL(&s->requests, c->request, link);
    LIST_INSERT_HEAD(&s->streaming, c, link);
    send_fully(c->fd, head, sizeof(head) - 1);
    if (!s->stepping) {
        s->next_ns = mono_ns() + s->gap_ns;
        arm(s);
    }
}

/* False: the connection is gone. */
static bool take_request(struct conn *c)
{
    c->in[c->size] = '\0';
    char *body = strstr(c->in, "\r\n\r\n");
    if (!body)
        return c->size < REQUEST_MAX;
    body += 4;
    const char *length = strcasestr(c->in, "\r\ncontent-length:");
    size_t total = (size_t)(body - c->in) + (length && length < body ? strtoul(length + 17, NULL, 10) : 0);
    if (total > REQUEST_MAX || c->size < total)
        return total <= REQUEST_MAX;
    c->size = 0;
    if (strncmp(c->in, "POST /v1/completions ", 21) == 0)
        begin_stream(c, body);
    else if (strncmp(c->in, "GET /v1/models ", 15) == 0)
        return send_fully(c->fd, models, sizeof(models) - 1);
    else
        return send_fully(c->fd, not_found, sizeof(not_found) - 1);
    return true;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;

    if (c->size + 4096 > c->capacity) {
        c->capacity = MAX(2 * c->capacity, (size_t)8192);
        c->in = xrealloc(c->in, c->capacity + 1, 1);
    }
    ssize_t n =
        arrival_receive(&c->server->clock, fd, c->in + c->size, c->capacity - c->size, 0, &c->arrived_ns);
    if (n < 0 && errno == EAGAIN)
        return;
    c->size += n > 0 ? (size_t)n : 0;
    if (n <= 0 || !take_request(c))
        close_conn(c);
}

static void on_connection(evutil_socket_t listening, short what, void *arg)
{
    struct server *s = arg;
    int one = 1, fd;

    while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct conn *c = xcalloc(1, sizeof(*c));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        arrival_enable(fd);
        *c = (struct conn){
            .server = s, .fd = fd, .readable = event_new(s->base, fd, EV_READ | EV_PERSIST, on_readable, c)};
        event_add(c->readable, NULL);
    }
}

static int listen_anywhere(int *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) < 0)
        return -errno;
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;
    event_base_loopbreak(s->base);
}

static int write_log(const struct server *s, const char *path)
{
    const struct request *q;
    _cleanup_(fclosep) FILE *out = fopen(path, "w");

    if (!out)
        return -errno;
    STAILQ_FOREACH(q, &s->requests, link) {
        fprintf(out, "{\"id\": %" PRId64 ", \"received_ns\": %" PRId64 ", \"sent_ns\": [", q->id,
                q->received_ns);
        for (size_t i = 0; i < q->n; i++)
            fprintf(out, i ? ", %" PRId64 : "%" PRId64, q->sent_ns[i]);
        fprintf(out, "]}\n");
    }
    return 0;
}

/* As large as vLLM's. */
static void make_tokens(struct server *s)
{
    static const char format[] =
        "data: {\"id\":\"cmpl-6f0c1d7be2a94c5db1e1\",\"object\":\"text_completion\",\"created\":1790000000,"
        "\"model\":\"nothing\",\"choices\":[{\"index\":0,\"text\":\" token\",\"logprobs\":null,"
        "\"finish_reason\":%s,\"stop_reason\":null}]}\n\n";
    char text[EVENT_SIZE_MAX - 16];

    for (size_t i = 0; i < s->n_events; i++) {
        bool is_last = i + 1 == s->n_events;
        snprintf(text, sizeof(text), format, "null");
        s->token_size += chunk(s->token + s->token_size, EVENT_SIZE_MAX, text);
        snprintf(text, sizeof(text), format, is_last ? "\"length\"" : "null");
        s->last_size += chunk(s->last + s->last_size, EVENT_SIZE_MAX, text);
    }
}

static struct event_base *precise_base(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base;

    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

int main(int argc, char **argv)
{
    struct rlimit files;
    struct server s = {.streaming = LIST_HEAD_INITIALIZER(s.streaming),
                       .requests = STAILQ_HEAD_INITIALIZER(s.requests)};
    int port = 0, fd = listen_anywhere(&port);

    s.n_events = argc == 4 ? strtoul(argv[3], NULL, 10) : 1;
    if (argc < 3 || argc > 4 || s.n_events < 1 || s.n_events > EVENTS_MAX || fd < 0) {
        fprintf(stderr, "usage: stream-server GAP_US LOG [EVENTS]\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    s.gap_ns = strtoll(argv[1], NULL, 10) * NS_PER_US;
    s.base = precise_base();
    s.step = evtimer_new(s.base, on_step, &s);
    make_tokens(&s);
    struct event *listening = event_new(s.base, fd, EV_READ | EV_PERSIST, on_connection, &s);
    struct event *term = evsignal_new(s.base, SIGTERM, on_signal, &s);
    event_add(listening, NULL);
    event_add(term, NULL);
    printf("%d\n", port);
    fflush(stdout);
    event_base_dispatch(s.base);
    return write_log(&s, argv[2]) < 0;
}
