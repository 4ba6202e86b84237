/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/door.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/api/door_internal.h"
#include "daemon/api/listen.h"
#include "daemon/api/routes.h"
#include "daemon/fleet/url.h"
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* -- The gate ----------------------------------------------------------------------------------------- */

/* "127.0.0.1:9460", "[::1]", "localhost:80". */
static bool names_loopback(const char *host)
{
    size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    _cleanup_(freep) char *name = xstrndup(host, n);
    return host_is_loopback(name);
}

/*
 * A TCP port of this host can be reached by every web page that its users look at. A page tells on itself by
 * what its browser adds; one that had its own name resolved to loopback, by that name.
 */
static int check_browser(const struct http_request *r, struct problem *p)
{
    const char *host = http_header(r, "Host"), *site = http_header(r, "Sec-Fetch-Site");

    if (http_peer(r)->local)
        return 0;
    if (http_header(r, "Origin") || (site && !streq(site, "none")))
        return problem_set(p, -EPERM, PROBLEM_DENIED, "web pages may not talk to profd");
    if (!host || !names_loopback(host))
        return problem_set(p, -EPERM, PROBLEM_DENIED, "profd is called %s here, which is no loopback address",
                           host ? host : "nothing");
    return 0;
}

static int check_parameters(const struct http_request *r, const struct route *route, struct problem *p)
{
    const char *name;

    for (size_t i = 0; (name = http_query_key(r, i)); i++)
        if (route_check_parameter(route, name, p) < 0)
            return -EINVAL;
    return 0;
}

static void reply_method(struct http_request *r, const struct route_match *match, const struct problem *p)
{
    http_reply_header(r, "Allow", match->allow);
    reply_problem(r, 405, p, NULL, NULL);
}

static void on_request(struct http_request *r, void *arg)
{
    struct door *d = arg;
    struct route_match match;
    _cleanup_(problem_done) struct problem p = {0};

    int err = check_browser(r, &p);
    if (err == 0)
        err = route_find(http_method(r), http_path(r), &match, &p);
    if (err == 0)
        err = check_parameters(r, match.route, &p);
    if (err == 0)
        match.route->handle(d, r, match.id);
    else if (err == -EOPNOTSUPP)
        reply_method(r, &match, &p);
    else
        http_reply_problem(r, &p);
}

/* -- Life --------------------------------------------------------------------------------------------- */

int door_new(const struct door_rooms *rooms, struct door **ret)
{
    struct http_limits limits = http_limits_default;
    struct door *d = xcalloc(1, sizeof(*d));

    *d = (struct door){.rooms = *rooms, .started_at = wall_ns()};
    limits.connections_max = (unsigned)rooms->config->connections_max;
    int r = http_server_new(rooms->base, &limits, on_request, d, &d->server);
    if (r < 0) {
        free(d);
        return r;
    }
    d->hub = event_hub_new(d);
    *ret = d;
    return 0;
}

static int open_unix(struct door *d, struct problem *p)
{
    const struct config *c = d->rooms.config;
    struct stat st;
    int fd;

    int r = listen_unix(c->socket, c->group, &fd, p);
    if (r < 0)
        return r;
    if (stat(c->socket, &st) == 0) {
        d->socket = xstrdup(c->socket);
        d->socket_device = st.st_dev;
        d->socket_inode = st.st_ino;
    }
    r = http_server_listen(d->server, fd);
    return r < 0 ? problem_set(p, r, PROBLEM_INTERNAL, "cannot listen on %s: %s", c->socket, strerror(-r))
                 : 0;
}

int door_open(struct door *d, struct problem *p)
{
    const char *address = d->rooms.config->listen;
    int fd;

    int r = open_unix(d, p);
    if (r < 0 || !address)
        return r;
    r = listen_tcp(address, &fd, p);
    if (r < 0)
        return r;
    r = http_server_listen(d->server, fd);
    return r < 0 ? problem_set(p, r, PROBLEM_INTERNAL, "cannot listen on %s: %s", address, strerror(-r)) : 0;
}

void door_stop_accepting(struct door *d)
{
    http_server_stop_accepting(d->server);
}

void door_close(struct door *d)
{
    if (!d)
        return;
    d->server = http_server_free(d->server); /* its streams leave the hub */
    event_hub_close(d->hub);
    if (d->socket)
        listen_unix_remove(d->socket, d->socket_device, d->socket_inode);
}

struct door *door_free(struct door *d)
{
    if (!d)
        return NULL;
    event_hub_free(d->hub);
    free(d->socket);
    free(d);
    return NULL;
}
