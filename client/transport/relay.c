/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/relay.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/http_reason.h"
#include "base/json.h"
#include "client/cli/screen.h"
#include "client/transport/peer_user.h"
#include "client/transport/relay_head.h"
#include "client/transport/tunnel.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/queue.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#define RELAY_CONNECTIONS_MAX 64
/* Of those, for processes of other users of this machine, who can connect to the port, but are to occupy no place of its owner's. */
#define RELAY_OTHERS_MAX 16
#define RELAY_BACKLOG    64
/* Threads that wait to be joined: all connections, and one that began since. */
#define ENDED_MAX  (RELAY_CONNECTIONS_MAX + 1)
#define PIPE_BYTES (128 << 10)
/* For the first head of a connection; browsers open some in advance. */
#define FIRST_HEAD_MS 60000
#define STACK_BYTES   (1 << 20)

struct relay {
    const struct connection *connection;
    struct relay_rules rules;
    char *host, *origin, *prefix;
    int fd;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t left;  /* a link has ended */
    LIST_HEAD(, relay_link) links;
    unsigned n_links, n_others;
    pthread_t ended[ENDED_MAX]; /* to be joined, which frees what libraries keep for each */
    unsigned n_ended;
};

/* Bytes on their way in one direction. */
struct relay_pipe {
    size_t from, to; /* of data */
    char data[PIPE_BYTES];
};

/* One connection of the browser. */
struct relay_link {
    LIST_ENTRY(relay_link) next;
    struct relay *relay;
    int fd;
    struct tunnel *tunnel; /* NULL before the first request */
    int64_t body_left;     /* of the request whose head has passed */
    bool ends;             /* once what is in to_client is sent */
    bool has_thread;
    bool is_others; /* not of the user who runs the relay */
    struct relay_pipe in, to_profd, to_client;
};

static size_t pipe_size(const struct relay_pipe *p)
{
    return p->to - p->from;
}

static size_t pipe_room(struct relay_pipe *p)
{
    if (p->from > 0 && (p->from == p->to || p->to == PIPE_BYTES)) {
        memmove(p->data, p->data + p->from, pipe_size(p));
        p->to -= p->from;
        p->from = 0;
    }
    return PIPE_BYTES - p->to;
}

static void pipe_add(struct relay_pipe *p, const char *data, size_t size)
{
    memcpy(p->data + p->to, data, size);
    p->to += size;
}

/* -- Requests ----------------------------------------------------------------------------------------- */

static void link_refuse(struct relay_link *l, int status, enum problem_kind kind, const char *detail,
                        const char *remedy)
{
    _cleanup_json_ body = json_object();

    json_put_int(body, "status", status);
    json_put_str(body, "title", http_reason(status));
    json_put_str(body, "code", problem_code(kind));
    json_put_str(body, "detail", detail);
    json_put_str(body, "remedy", remedy);
    _cleanup_(freep) char *text = json_dumps(body, JSON_COMPACT);
    _cleanup_(freep) char *reply =
        xasprintf("HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\n"
                  "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s\n",
                  status, http_reason(status), strlen(text) + 1, text);
    if (strlen(reply) <= pipe_room(&l->to_client))
        pipe_add(&l->to_client, reply, strlen(reply));
    l->ends = true;
}

static void link_pass_body(struct relay_link *l)
{
    size_t n = MIN(pipe_size(&l->in), pipe_room(&l->to_profd));

    n = (size_t)MIN((int64_t)n, l->body_left);
    pipe_add(&l->to_profd, l->in.data + l->in.from, n);
    l->in.from += n;
    l->body_left -= (int64_t)n;
}

/* False where it needs more bytes, or room for them. */
static bool link_pass_head(struct relay_link *l)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct relay_head head;

    if (pipe_size(&l->in) == 0 || pipe_size(&l->to_profd) > 0)
        return false;
    pipe_room(&l->to_profd);
    ssize_t n = relay_head_read(l->in.data + l->in.from, pipe_size(&l->in), &l->relay->rules, &head);
    if (n == 0)
        return false;
    if (n < 0) {
        link_refuse(l, head.status, head.status == 403 ? PROBLEM_DENIED : PROBLEM_BAD_REQUEST, head.detail,
                    NULL);
        return true;
    }
    _cleanup_(freep) char *text = head.text;
    if (!l->tunnel && tunnel_open(l->relay->connection, &l->tunnel, &p) < 0) {
        link_refuse(l, 502, PROBLEM_UPSTREAM, p.what, "Check that profd is running: profctl status.");
        return true;
    }
    if (head.size > pipe_room(&l->to_profd)) {
        link_refuse(l, 431, PROBLEM_TOO_LARGE, "the request's head is too large", NULL);
        return true;
    }
    l->in.from += (size_t)n;
    pipe_add(&l->to_profd, text, head.size);
    l->body_left = head.body_size;
    return true;
}

static bool link_pass_requests(struct relay_link *l)
{
    bool has_passed = false;

    while (!l->ends) {
        if (l->body_left > 0) {
            size_t before = l->in.from;
            link_pass_body(l);
            has_passed |= l->in.from > before;
            if (l->body_left > 0)
                break;
        } else if (link_pass_head(l)) {
            has_passed = true;
        } else {
            break;
        }
    }
    return has_passed;
}

/* -- Bytes -------------------------------------------------------------------------------------------- */

/* 1: some bytes moved; 0: none can before the next poll; negative: that side has ended. */
static int link_read_client(struct relay_link *l)
{
    size_t room = l->ends ? 0 : pipe_room(&l->in);

    if (room == 0)
        return 0;
    ssize_t n = recv(l->fd, l->in.data + l->in.to, room, MSG_DONTWAIT);
    if (n > 0)
        l->in.to += (size_t)n;
    return n > 0 ? 1 : n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -ECONNRESET;
}

static int link_write_client(struct relay_link *l)
{
    struct relay_pipe *p = &l->to_client;

    if (pipe_size(p) == 0)
        return 0;
    ssize_t n = send(l->fd, p->data + p->from, pipe_size(p), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        p->from += (size_t)n;
    return n > 0 ? 1 : errno == EAGAIN || errno == EINTR ? 0 : -ECONNRESET;
}

static int link_read_profd(struct relay_link *l)
{
    size_t room = l->tunnel && !l->ends ? pipe_room(&l->to_client) : 0;

    if (room == 0)
        return 0;
    ssize_t n = tunnel_read(l->tunnel, l->to_client.data + l->to_client.to, room);
    if (n > 0)
        l->to_client.to += (size_t)n;
    if (n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR))
        l->ends = true;
    return n > 0;
}

static int link_write_profd(struct relay_link *l)
{
    struct relay_pipe *p = &l->to_profd;

    if (pipe_size(p) == 0 || l->ends)
        return 0;
    ssize_t n = tunnel_write(l->tunnel, p->data + p->from, pipe_size(p));
    if (n > 0)
        p->from += (size_t)n;
    else if (n != -EAGAIN && n != -EINTR && n != 0)
        p->from = p->to; /* profd refused the rest of a body: its reply may be there to be read */
    return n > 0;
}

/* Negative after its time is up, or where the browser is gone. */
static int link_wait(struct relay_link *l)
{
    struct pollfd fds[2] = {{.fd = l->fd}, {.fd = l->tunnel ? tunnel_fd(l->tunnel) : -1}};

    if (!l->ends && pipe_room(&l->in) > 0)
        fds[0].events |= POLLIN;
    if (pipe_size(&l->to_client) > 0)
        fds[0].events |= POLLOUT;
    if (!l->ends && pipe_room(&l->to_client) > 0)
        fds[1].events |= POLLIN;
    if (!l->ends && pipe_size(&l->to_profd) > 0)
        fds[1].events |= POLLOUT;
    /* What profd closed would wake it again and again, while the browser has not taken all. */
    if (fds[1].events == 0)
        fds[1].fd = -1;
    int n = poll(fds, 2, l->tunnel && !l->ends ? -1 : FIRST_HEAD_MS);
    if (fds[0].revents & (POLLHUP | POLLERR))
        return -ECONNRESET;
    return n > 0 || (n < 0 && errno == EINTR) ? 0 : -ETIMEDOUT;
}

static void link_serve(struct relay_link *l)
{
    for (;;) {
        int read = link_read_client(l);
        bool has_moved = read > 0;
        has_moved |= link_pass_requests(l);
        has_moved |= link_write_profd(l) > 0;
        has_moved |= link_read_profd(l) > 0;
        int written = link_write_client(l);
        has_moved |= written > 0;
        if (read < 0 || written < 0 || (l->ends && pipe_size(&l->to_client) == 0))
            return;
        if (!has_moved && link_wait(l) < 0)
            return;
    }
}

/* So that the browser sees a reply, and no reset, where it still sends a body that was refused. */
static void link_linger(struct relay_link *l)
{
    struct pollfd fd = {.fd = l->fd, .events = POLLIN};
    int64_t end_ns = mono_ns() + 2 * NS_PER_S;

    shutdown(l->fd, SHUT_WR);
    while (mono_ns() < end_ns && poll(&fd, 1, 500) > 0 &&
           recv(l->fd, l->in.data, PIPE_BYTES, MSG_DONTWAIT) > 0)
        continue;
}

static void link_end(struct relay_link *l)
{
    struct relay *r = l->relay;

    pthread_mutex_lock(&r->lock);
    LIST_REMOVE(l, next);
    r->n_links--;
    r->n_others -= l->is_others;
    if (l->has_thread)
        r->ended[r->n_ended++] = pthread_self();
    close(l->fd);
    pthread_cond_signal(&r->left);
    pthread_mutex_unlock(&r->lock);
    free(l);
}

static void *link_thread(void *arg)
{
    struct relay_link *l = arg;

    l->has_thread = true;
    link_serve(l);
    if (l->ends)
        link_linger(l);
    tunnel_close(l->tunnel);
    link_end(l);
    return NULL;
}

/* -- Connections -------------------------------------------------------------------------------------- */

static struct relay_link *link_new(struct relay *r, int take_fd)
{
    struct relay_link *l = NULL;
    uid_t user = peer_user(take_fd);
    bool is_others = user != geteuid() && user != 0;

    pthread_mutex_lock(&r->lock);
    if (is_others ? r->n_others < RELAY_OTHERS_MAX
                  : r->n_links - r->n_others < RELAY_CONNECTIONS_MAX - RELAY_OTHERS_MAX) {
        l = xcalloc(1, sizeof(*l));
        l->relay = r;
        l->fd = take_fd;
        l->is_others = is_others;
        LIST_INSERT_HEAD(&r->links, l, next);
        r->n_links++;
        r->n_others += is_others;
    }
    pthread_mutex_unlock(&r->lock);
    if (!l)
        close(take_fd);
    return l;
}

/* Called before each new thread, so that no more have ended than there may be connections. */
static void relay_join_ended(struct relay *r)
{
    pthread_t ended[ENDED_MAX];

    pthread_mutex_lock(&r->lock);
    unsigned n = r->n_ended;
    memcpy(ended, r->ended, n * sizeof(*ended));
    r->n_ended = 0;
    pthread_mutex_unlock(&r->lock);
    for (unsigned i = 0; i < n; i++)
        pthread_join(ended[i], NULL);
}

static void relay_accept(struct relay *r)
{
    pthread_attr_t attributes;
    pthread_t thread;

    relay_join_ended(r);
    int fd = accept4(r->fd, NULL, NULL, SOCK_CLOEXEC);
    struct relay_link *l = fd >= 0 ? link_new(r, fd) : NULL;

    if (!l)
        return;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (pthread_create(&thread, &attributes, link_thread, l) != 0)
        link_end(l);
    pthread_attr_destroy(&attributes);
}

/* Each thread notices that its browser is gone; one that connects to profd does so for seconds
 * at most. */
static void relay_end_links(struct relay *r)
{
    struct relay_link *l;

    pthread_mutex_lock(&r->lock);
    LIST_FOREACH(l, &r->links, next)
        shutdown(l->fd, SHUT_RDWR);
    while (r->n_links > 0)
        pthread_cond_wait(&r->left, &r->lock);
    pthread_mutex_unlock(&r->lock);
    relay_join_ended(r);
}

void relay_run(struct relay *r)
{
    const sigset_t set = screen_signals();
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    struct pollfd fds[] = {{.fd = r->fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};

    signal(SIGPIPE, SIG_IGN);
    while (poll(fds, ARRAY_SIZE(fds), -1) >= 0 || errno == EINTR) {
        if (fds[1].revents)
            break;
        if (fds[0].revents)
            relay_accept(r);
    }
    close(signals);
    relay_end_links(r);
}

struct relay *relay_free(struct relay *r)
{
    if (!r)
        return NULL;
    closep(&r->fd);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->left);
    free(r->host);
    free(r->origin);
    free(r->prefix);
    free(r);
    return NULL;
}

int relay_port(const struct relay *r)
{
    return r->rules.port;
}

static int relay_listen(struct relay *r, int port, struct problem *p)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int one = 1;

    r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->fd < 0 || setsockopt(r->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
        bind(r->fd, (struct sockaddr *)&address, size) < 0 || listen(r->fd, RELAY_BACKLOG) < 0 ||
        getsockname(r->fd, (struct sockaddr *)&address, &size) < 0) {
        int err = errno;
        problem_remedy(p, "Pass another port with --port, or omit it.");
        return problem_set(p, -err, PROBLEM_BUSY, "cannot listen on 127.0.0.1:%d: %s", port, strerror(err));
    }
    r->rules.port = ntohs(address.sin_port);
    return 0;
}

int relay_new(const struct connection *d, int port, struct relay **ret, struct problem *p)
{
    const char *url = connection_url(d), *start = strstr(url, "://");
    _cleanup_(relay_freep) struct relay *r = xcalloc(1, sizeof(*r));
    size_t scheme = start ? (size_t)(start - url) + 3 : 0, n = strcspn(url + scheme, "/");

    r->connection = d;
    r->fd = -1;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->left, NULL);
    LIST_INIT(&r->links);
    r->host = xstrndup(url + scheme, n);
    r->origin = xstrndup(url, scheme + n);
    r->prefix = xstrdup(url + scheme + n);
    r->rules = (struct relay_rules){
        .host = r->host, .origin = r->origin, .prefix = r->prefix, .to_socket = connection_socket(d) != NULL};
    int err = relay_listen(r, port, p);
    if (err == 0)
        *ret = TAKE_PTR(r);
    return err;
}
