/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/tunnel.h"

#include "base/alloc.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

struct tunnel {
    int fd;     /* of libcurl where curl is set */
    CURL *curl; /* NULL: a Unix socket */
};

static int tunnel_open_local(struct tunnel *t, const char *path, struct problem *p)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (t->fd < 0 || connect(t->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        fcntl(t->fd, F_SETFL, O_NONBLOCK) < 0)
        return problem_set(p, -errno, PROBLEM_UPSTREAM, "cannot reach profd at %s: %s", path,
                           strerror(errno));
    return 0;
}

static int tunnel_open_remote(struct tunnel *t, const struct connection *d, struct problem *p)
{
    char error[CURL_ERROR_SIZE] = "";
    curl_socket_t fd = CURL_SOCKET_BAD;

    t->curl = curl_easy_init();
    if (!t->curl)
        return problem_set(p, -ENOMEM, PROBLEM_INTERNAL, "cannot create a connection");
    connection_prepare(d, t->curl, "/");
    /* The bytes are the relay's: libcurl sends no request, and so no token. */
    curl_easy_setopt(t->curl, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(t->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(t->curl, CURLOPT_ERRORBUFFER, error);
    CURLcode code = curl_easy_perform(t->curl);
    if (code == CURLE_OK)
        code = curl_easy_getinfo(t->curl, CURLINFO_ACTIVESOCKET, &fd);
    curl_easy_setopt(t->curl, CURLOPT_ERRORBUFFER, NULL);
    t->fd = fd;
    if (code == CURLE_OK && fd != CURL_SOCKET_BAD)
        return 0;
    return problem_set(p, -EIO, PROBLEM_UPSTREAM, "cannot reach profd at %s: %s", connection_name(d),
                       *error ? error : curl_easy_strerror(code));
}

int tunnel_open(const struct connection *d, struct tunnel **ret, struct problem *p)
{
    _cleanup_(tunnel_closep) struct tunnel *t = xcalloc(1, sizeof(*t));
    const char *path = connection_socket(d);

    t->fd = -1;
    int r = path ? tunnel_open_local(t, path, p) : tunnel_open_remote(t, d, p);
    if (r == 0)
        *ret = TAKE_PTR(t);
    return r;
}

struct tunnel *tunnel_close(struct tunnel *t)
{
    if (!t)
        return NULL;
    if (t->curl)
        curl_easy_cleanup(t->curl);
    else
        closep(&t->fd);
    free(t);
    return NULL;
}

int tunnel_fd(const struct tunnel *t)
{
    return t->fd;
}

static ssize_t tunnel_error(CURLcode code)
{
    return code == CURLE_AGAIN ? -EAGAIN : -EIO;
}

ssize_t tunnel_read(struct tunnel *t, void *data, size_t size)
{
    size_t n = 0;

    if (t->curl) {
        CURLcode code = curl_easy_recv(t->curl, data, size, &n);
        return code == CURLE_OK ? (ssize_t)n : tunnel_error(code);
    }
    ssize_t got = recv(t->fd, data, size, MSG_DONTWAIT);
    return got < 0 ? -errno : got;
}

ssize_t tunnel_write(struct tunnel *t, const void *data, size_t size)
{
    size_t n = 0;

    if (t->curl) {
        CURLcode code = curl_easy_send(t->curl, data, size, &n);
        return code == CURLE_OK ? (ssize_t)n : tunnel_error(code);
    }
    ssize_t sent = send(t->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}
