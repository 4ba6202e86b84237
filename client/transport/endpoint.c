/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/endpoint.h"

#include "base/alloc.h"
#include "base/own_place.h"
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

int place_socket_error(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path))
        return ENAMETOOLONG;
    strcpy(address.sun_path, path);
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return errno;
    return 0;
}

static char *own_default(void)
{
    _cleanup_(freep) char *state = own_state_dir();
    return state ? own_socket(state) : xstrdup(SYSTEM_SOCKET);
}

bool place_has_home(void)
{
    _cleanup_(freep) char *state = own_state_dir();
    return state;
}

static char *default_socket(void)
{
    _cleanup_(freep) char *own = own_default();

    if (strcmp(own, SYSTEM_SOCKET) == 0)
        return TAKE_PTR(own);
    int system_error = place_socket_error(SYSTEM_SOCKET);
    /* Where the system's one may not be used and there is no own one, its error is the one that helps. */
    if (system_error == 0 || (system_error == EACCES && place_socket_error(own) != 0))
        return xstrdup(SYSTEM_SOCKET);
    return TAKE_PTR(own);
}

static int place_of_host(const char *host, struct place *ret, struct problem *p)
{
    bool has_scheme = strstr(host, "://");
    size_t n = strlen(host);

    if (has_scheme && !starts_with(host, "http://") && !starts_with(host, "https://")) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--host: '%s' is neither http:// nor https://", host);
        return -EINVAL;
    }
    while (n > 0 && host[n - 1] == '/')
        n--;
    *ret = (struct place){.url = xasprintf("%s%.*s", has_scheme ? "" : "http://", (int)n, host)};
    return 0;
}

int place_find(const char *socket, const char *host, struct place *ret, struct problem *p)
{
    const char *environment = getenv("PROFD_SOCKET");

    if (socket && host)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--socket and --host exclude each other");
    if (host)
        return place_of_host(host, ret, p);
    char *path = socket                        ? xstrdup(socket)
                 : environment && *environment ? xstrdup(environment)
                                               : default_socket();
    if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        problem_set(p, -ENAMETOOLONG, PROBLEM_BAD_REQUEST, "the path of a socket cannot be as long as %s",
                    path);
        free(path);
        return -ENAMETOOLONG;
    }
    *ret = (struct place){.socket = path, .url = xstrdup("http://localhost")};
    return 0;
}

void place_done(struct place *p)
{
    free(p->socket);
    free(p->url);
    *p = (struct place){0};
}
