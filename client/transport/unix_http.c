/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/unix_http.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "client/transport/http_answer.h"
#include "version.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CONNECT_TIMEOUT_S 5
#define TICK_MS           200
#define BLOCK_BYTES       (64u << 10)
_Static_assert(BLOCK_BYTES >= HTTP_ANSWER_HEAD_MAX, "a head fits into a block");

struct exchange {
    const struct unix_request *q;
    struct unix_response *response;
    int fd;
    int64_t begin_ns, last_ns; /* of the request, and of the last byte that was sent or received */
    char *block;
};

/* A profd that is busy takes connections from its queue when it can. */
static int exchange_connect(struct exchange *e)
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
static int exchange_wait(struct exchange *e, short events)
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
static int exchange_send(struct exchange *e)
{
    const struct unix_request *q = e->q;
    const char *json = q->json ? q->json : "";
    _cleanup_(freep) char *text = xasprintf(
        "%s %s HTTP/1.0\r\nHost: localhost\r\nUser-Agent: profctl/" PROFD_VERSION "\r\n"
        "%sContent-Length: %zu\r\n\r\n%s",
        q->method, q->path, q->json ? "Content-Type: application/json\r\n" : "", strlen(json), json);

    for (size_t size = strlen(text), sent = 0; sent < size;) {
        ssize_t n = send(e->fd, text + sent, size - sent, MSG_NOSIGNAL);
        if (n >= 0)
            sent += (size_t)n;
        else if (errno == EPIPE || errno == ECONNRESET)
            break;
        else if (errno != EAGAIN && errno != EINTR)
            return -errno;
        int r = n < 0 ? exchange_wait(e, POLLOUT) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* Bytes that were read; 0: the end. */
static ssize_t exchange_read(struct exchange *e, char *to, size_t size)
{
    for (;;) {
        int r = exchange_wait(e, POLLIN);
        if (r < 0)
            return r;
        ssize_t n = recv(e->fd, to, size, 0);
        if (n >= 0 || (errno != EAGAIN && errno != EINTR))
            return n >= 0 ? n : -errno;
    }
}

/* Leaves in the block what follows the head: *ret_size bytes at *ret_at. */
static int exchange_read_head(struct exchange *e, struct http_answer *ret, size_t *ret_at, size_t *ret_size)
{
    size_t size = 0;
    ssize_t head;

    while ((head = http_answer_parse(e->block, size, ret)) == 0) {
        ssize_t n = exchange_read(e, e->block + size, BLOCK_BYTES - size);
        if (n <= 0)
            return n < 0 ? (int)n : -ECONNRESET;
        size += (size_t)n;
    }
    if (head < 0)
        return (int)head;
    e->response->status = ret->status;
    e->response->link = ret->link ? xstrndup(ret->link, ret->link_size) : NULL;
    *ret_at = (size_t)head;
    *ret_size = size - (size_t)head;
    return 0;
}

static int exchange_receive(struct exchange *e)
{
    struct http_answer head;
    size_t at = 0, size = 0;
    int64_t left;
    int r = exchange_read_head(e, &head, &at, &size);

    if (r < 0)
        return r;
    for (left = head.content_length < 0 ? INT64_MAX : head.content_length;; at = 0) {
        size = (size_t)MIN((int64_t)size, left);
        left -= (int64_t)size;
        r = size > 0 ? e->q->take(head.status, e->block + at, size, e->q->arg) : 0;
        if (r < 0 || left == 0)
            return r;
        ssize_t n = exchange_read(e, e->block, BLOCK_BYTES);
        if (n <= 0)
            return n < 0 ? (int)n : head.content_length < 0 ? 0 : -ECONNRESET;
        size = (size_t)n;
    }
}

int unix_exchange(const struct unix_request *q, struct unix_response *ret)
{
    _cleanup_(freep) char *block = xcalloc(BLOCK_BYTES, 1);
    struct exchange e = {.q = q, .response = ret, .fd = -1, .begin_ns = mono_ns(), .block = block};

    *ret = (struct unix_response){0};
    e.last_ns = e.begin_ns;
    int r = exchange_connect(&e);
    if (r == 0)
        r = exchange_send(&e);
    if (r == 0)
        r = exchange_receive(&e);
    closep(&e.fd);
    return r;
}
