/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/api.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/api/bus.h"
#include "daemon/api/handler.h"
#include "daemon/api/listen.h"
#include "daemon/api/routes.h"
#include "daemon/hosts/leases.h"
#include "daemon/hosts/peer_traces.h"
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* -- The gate ----------------------------------------------------------------------------------------- */

static void api_count(struct api *api, struct http_request *r, const struct route *route)
{
    http_count_reply(r, &api->counts[route_index(route)], &api->durations[route_class(route)]);
}

/* A head has arrived: whether its body may follow. The server's own bound of a body is that of the largest. */
static bool api_admit(struct http_request *r, void *arg)
{
    struct api *api = arg;
    struct route_match match = {0};
    _cleanup_(problem_done) struct problem refusal = {0};

    api->requests++;
    api_count(api, r, NULL);
    int err = route_find(http_method(r), http_path(r), &match, NULL);
    const struct route *route = err == 0 ? match.route : NULL;
    err = access_check(api->access, r, route, &refusal);
    if (err == 0 && http_body_length(r) > (route && route->body_max > 0 ? route->body_max : ROUTE_BODY_MAX))
        err = problem_set(&refusal, -EMSGSIZE, PROBLEM_TOO_LARGE, "the request's body is too large");
    if (err < 0)
        http_reply_problem(r, &refusal);
    return err == 0;
}

void api_dispatch(struct api *api, struct http_request *r)
{
    struct route_match match;
    const char *name;
    _cleanup_(problem_done) struct problem p = {0};

    int err = route_find(http_method(r), http_path(r), &match, &p);
    if (err == -EOPNOTSUPP) {
        http_reply_header(r, "Allow", match.allow);
        reply_problem(r, 405, &p, NULL, NULL);
        return;
    }
    for (size_t i = 0; err == 0 && (name = http_query_key(r, i)); i++)
        err = route_check_parameter(match.route, name, &p);
    if (err == 0)
        err = route_resolve(api->modules.catalog, &match, &p);
    if (err == -ENOENT && match.id_kind == 't' && elsewhere_ask_ref(api, r, &match, match.uuid))
        return;
    if (err < 0) {
        http_reply_problem(r, &p);
        return;
    }
    api_count(api, r, match.route);
    match.route->handle(api, r, &match);
}

static void api_handle(struct http_request *r, void *arg)
{
    api_dispatch(arg, r);
}

/* -- Life --------------------------------------------------------------------------------------------- */

int api_new(const struct api_modules *modules, struct api **ret)
{
    struct http_limits limits = http_limits_default;
    struct api *api = xcalloc(1, sizeof(*api));
    const struct http_handlers handlers = {.admit = api_admit, .handle = api_handle, .arg = api};

    *api = (struct api){.modules = *modules, .started_at = wall_ns(), .socket_gid = (gid_t)-1};
    remote_kept_init(&api->remote_kept, modules->base);
    catalog_reads_init(&api->catalog_reads, modules->offload, catalog_path(modules->catalog));
    limits.connections_max = (unsigned)modules->settings->connections_max;
    limits.body_max = ROUTE_WORKLOAD_MAX;
    int r = http_server_new(modules->base, &limits, &handlers, &api->server);
    if (r < 0) {
        remote_kept_done(&api->remote_kept);
        free(api);
        return r;
    }
    api->counts = xcalloc(routes_count() + 1, sizeof(*api->counts));
    for (int class = 0; class < _ROUTE_CLASS_MAX; class ++)
        for (int status = 0; status < HTTP_STATUS_CLASSES; status++)
            api->durations[class].by_class[status].scale = SCALE_ANSWERS;
    api->hub = event_hub_new(api);
    api->fleet_streams = fleet_streams_new(api);
    api->peer_traces = peer_traces_new(modules->base, modules->peers, modules->catalog);
    *ret = api;
    return 0;
}

static int api_serve(struct api *api, int take_fd, const char *name, struct problem *p)
{
    int r = http_server_listen(api->server, take_fd);
    return r < 0 ? problem_set(p, r, PROBLEM_INTERNAL, "cannot listen on %s: %s", name, strerror(-r)) : 0;
}

/* The group that the mode of a socket in the file system admits. */
static void api_learn_group(struct api *api, int fd)
{
    struct sockaddr_un address = {0};
    socklen_t size = sizeof(address) - 1;
    struct stat st;

    if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 && address.sun_family == AF_UNIX &&
        address.sun_path[0] && stat(address.sun_path, &st) == 0 && st.st_mode & S_IWGRP)
        api->socket_gid = st.st_gid;
}

static int api_open_unix(struct api *api, struct problem *p)
{
    const struct api_settings *c = api->modules.settings;
    struct stat st;
    int fd;

    int r = listen_unix(c->socket, c->group, &fd, p);
    if (r < 0)
        return r;
    if (stat(c->socket, &st) == 0) {
        api->socket = xstrdup(c->socket);
        api->socket_device = st.st_dev;
        api->socket_inode = st.st_ino;
    }
    api_learn_group(api, fd);
    return api_serve(api, fd, c->socket, p);
}

/* Where TCP is served: on systemd's sockets, or where there are none on those of listen=. */
static int api_find_addresses(const struct activation *given, const char *listen, struct listen_address *ret,
                              size_t *ret_n, struct problem *p)
{
    const char *reason;
    size_t n = 0;

    for (size_t i = 0; i < given->n; i++)
        if (!given->sockets[i].local)
            ret[n++] = given->sockets[i].address;
    *ret_n = n;
    if (n > 0 || !listen)
        return 0;
    int r = listen_addresses_parse(listen, ret, LISTEN_MAX, ret_n, &reason);
    return r < 0 ? problem_set(p, r, PROBLEM_BAD_REQUEST, "listen=%s: %s", listen, reason) : 0;
}

int api_open(struct api *api, struct problem *p)
{
    _cleanup_(activation_done) struct activation given = {0};
    const struct api_settings *c = api->modules.settings;
    struct listen_address addresses[LISTEN_MAX];
    size_t n = 0;

    int r = activation_take(&given, p);
    if (r >= 0)
        r = api_find_addresses(&given, c->listen, addresses, &n, p);
    if (r >= 0)
        r = access_new(c, addresses, n, &api->access, p);
    if (r < 0)
        return r;
    http_server_set_tls(api->server, access_tls(api->access));
    /* Sockets of systemd stay open after the end of profd: clients that connect then wait for the next one. */
    for (size_t i = 0; i < given.n && r >= 0; i++) {
        if (given.sockets[i].local)
            api_learn_group(api, given.sockets[i].fd);
        r = api_serve(api, TAKE_FD(given.sockets[i].fd), "the socket of systemd", p);
    }
    if (r >= 0 && given.n_local == 0)
        r = api_open_unix(api, p);
    for (size_t i = 0; given.n == given.n_local && r >= 0 && i < n; i++) {
        int fd;
        r = listen_tcp(&addresses[i], &fd, p);
        if (r >= 0)
            r = api_serve(api, fd, addresses[i].text, p);
    }
    if (r >= 0 && c->bus != BUS_KIND_NONE)
        r = bus_new(api, c->bus, &api->bus);
    return r;
}

int api_check_settings(const struct api_settings *c, struct problem *p)
{
    const struct activation nothing = {0};
    struct listen_address addresses[LISTEN_MAX];
    struct access *access = NULL;
    size_t n = 0;

    int r = api_find_addresses(&nothing, c->listen, addresses, &n, p);
    if (r >= 0)
        r = access_new(c, addresses, n, &access, p);
    access_free(access);
    return r;
}

static void api_on_token_gone(const char *token, void *arg)
{
    const struct api *api = arg;

    leases_end_of(api->modules.leases, token);
}

int api_reload(struct api *api, const struct api_settings *c, struct problem *p)
{
    int r = access_reload(api->access, c, api_on_token_gone, api, p);

    if (r == 0)
        http_server_set_tls(api->server, access_tls(api->access));
    return r;
}

void api_traffic(const struct api *api, struct api_traffic *ret)
{
    *ret = (struct api_traffic){.connections = http_connections(api->server), .requests = api->requests};
}

void api_recheck_streams(struct api *api)
{
    event_hub_recheck(api->hub);
    fleet_streams_recheck(api->fleet_streams);
}

void api_renew(struct api *api)
{
    api_recheck_streams(api);
    http_server_set_connections_max(api->server, (unsigned)api->modules.settings->connections_max);
}

void api_stop_accepting(struct api *api)
{
    http_server_stop_accepting(api->server);
    bus_stop_accepting(api->bus);
}

void api_close(struct api *api)
{
    if (!api)
        return;
    api->server = http_server_free(api->server); /* its streams leave the hub */
    api->peer_traces = peer_traces_free(api->peer_traces);
    bus_close(api->bus);
    event_hub_close(api->hub);
    api->fleet_streams = fleet_streams_free(api->fleet_streams);
    if (api->socket)
        listen_unix_remove(api->socket, api->socket_device, api->socket_inode);
}

struct api *api_free(struct api *api)
{
    if (!api)
        return NULL;
    bus_free(api->bus);
    event_hub_free(api->hub);
    access_free(api->access);
    remote_kept_done(&api->remote_kept);
    free(api->counts);
    free(api->socket);
    free(api);
    return NULL;
}
