/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/unix_http.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/http1_response.h"
#include "version.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CONNECT_TIMEOUT_S 5
#define TICK_MS           200
#define BLOCK_BYTES       (64u << 10)

struct unix_exchange {
    const struct unix_request *q;
    struct unix_response *response;
    struct http1_response head;
    int fd;
    int64_t begin_ns, last_ns; /* of the request, and of the last byte that was sent or received */
};

/* A profd that is busy takes connections from its queue when it can. */
static int unix_exchange_connect(struct unix_exchange *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval timeout = {.tv_sec = CONNECT_TIMEOUT_S};

    if (strlen(e->q->socket) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, e->q->socket);
    e->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (e->fd < 0)
        return -errno;
    setsockopt(e->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (connect(e->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    e->response->is_connected = true;
    return fcntl(e->fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* Until the socket has data, or room for it. */
static int unix_exchange_wait(struct unix_exchange *e, short events)
{
    const struct unix_request *q = e->q;
    struct pollfd fd = {.fd = e->fd, .events = events};

    do {
        int64_t now = mono_ns();
        int r = q->tick(q->arg);
        if (r < 0)
            return r;
        if ((q->timeout_ns && now - e->begin_ns >= q->timeout_ns) ||
            (q->silence_ns && now - e->last_ns >= q->silence_ns))
            return -ETIMEDOUT;
    } while (poll(&fd, 1, TICK_MS) <= 0);
    e->last_ns = mono_ns();
    return 0;
}

/* A server may refuse a request before it has read all of it: then its response is what counts. */
static int unix_exchange_send(struct unix_exchange *e)
{
    const struct unix_request *q = e->q;
    const char *json = q->json ? q->json : "";
    _cleanup_(freep) char *text =
        xasprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: profctl/" PROFD_VERSION
                  "\r\nConnection: close\r\n%s%s%s%sContent-Length: %zu\r\n\r\n%s",
                  q->method, q->path, q->json ? "Content-Type: application/json\r\n" : "",
                  q->range ? "Range: bytes=" : "", q->range ? q->range : "", q->range ? "\r\n" : "",
                  strlen(json), json);

    for (size_t size = strlen(text), sent = 0; sent < size;) {
        ssize_t n = send(e->fd, text + sent, size - sent, MSG_NOSIGNAL);
        if (n >= 0)
            sent += (size_t)n;
        else if (errno == EPIPE || errno == ECONNRESET)
            break;
        else if (errno != EAGAIN && errno != EINTR)
            return -errno;
        int r = n < 0 ? unix_exchange_wait(e, POLLOUT) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* Bytes that were read; 0: the end. */
static ssize_t unix_exchange_read(struct unix_exchange *e, char *to, size_t size)
{
    for (;;) {
        int r = unix_exchange_wait(e, POLLIN);
        if (r < 0)
            return r;
        ssize_t n = recv(e->fd, to, size, 0);
        if (n >= 0 || (errno != EAGAIN && errno != EINTR))
            return n >= 0 ? n : -errno;
    }
}

/* Passes on what the bytes have of the body. */
static int unix_exchange_take(struct unix_exchange *e, const char *bytes, size_t size, enum http1_step *ret)
{
    const char *body;
    size_t n;
    int r = 0;

    do {
        *ret = http1_response_next(&e->head, &bytes, &size, &body, &n);
        if (*ret == HTTP1_BODY)
            r = e->q->take(e->head.status, body, n, e->q->arg);
    } while (r >= 0 && (*ret == HTTP1_HEAD || *ret == HTTP1_BODY));
    return r;
}

static int unix_exchange_receive(struct unix_exchange *e)
{
    _cleanup_(freep) char *block = xcalloc(BLOCK_BYTES, 1);
    enum http1_step step = HTTP1_MORE;

    while (step == HTTP1_MORE) {
        ssize_t n = unix_exchange_read(e, block, BLOCK_BYTES);
        if (n < 0)
            return (int)n;
        int r = n > 0 ? unix_exchange_take(e, block, (size_t)n, &step) : 0;
        if (r < 0)
            return r;
        if (n == 0)
            step = http1_response_close(&e->head);
    }
    e->response->why = e->head.error;
    return step == HTTP1_END ? 0 : -EPROTO;
}

int unix_exchange(const struct unix_request *q, struct unix_response *ret)
{
    struct unix_exchange e = {.q = q, .response = ret, .fd = -1, .begin_ns = mono_ns()};

    *ret = (struct unix_response){0};
    e.last_ns = e.begin_ns;
    int r = unix_exchange_connect(&e);
    if (r == 0)
        r = unix_exchange_send(&e);
    if (r == 0)
        r = unix_exchange_receive(&e);
    ret->status = e.head.status;
    ret->link = *e.head.link ? xstrdup(e.head.link) : NULL;
    if (!ret->why)
        ret->why = strerror(-r);
    http1_response_done(&e.head);
    closep(&e.fd);
    return r;
}
