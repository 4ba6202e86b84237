/* SPDX-License-Identifier: Apache-2.0 */
/* profd itself: that it lives, which one it is. */
#include "daemon/api/api_internal.h"
#include "daemon/catalog/catalog.h"
#include "version.h"

void get_health(struct api *api, struct http_request *r, int64_t id)
{
    http_reply(r, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

void get_version(struct api *api, struct http_request *r, int64_t id)
{
    const struct config *c = api->modules.config;
    json_t *body = json_object(), *limits = json_object();

    json_put_str(body, "version", PROFD_VERSION);
    json_put_int(body, "pid", getpid());
    json_put_int(body, "started_at", api->started_at);
    json_put_str(body, "state_dir", c->state_dir);
    json_put_str(body, "catalog", catalog_path(api->modules.catalog));
    json_put_str(body, "catalog_error", catalog_broken_reason(api->modules.catalog));
    json_put_str(body, "store", c->store.path);
    json_put_str(body, "socket", c->socket);
    json_put_str(body, "listen", c->listen);
    json_put_int(body, "sessions", sessions_count(api->modules.sessions));
    json_put_int(body, "connections", http_connections(api->server));
    json_put_int(limits, "workers", (int64_t)c->fleet.workers_max);
    json_put_int(limits, "sessions", c->session.sessions_max);
    json_put_int(limits, "connections", c->connections_max);
    json_put_int(limits, "session_ns", c->session.session_limit_ns);
    json_put_int(limits, "stop_ns", c->session.stop_timeout_ns);
    json_object_set_new(body, "limits", limits);
    http_reply_json(r, 200, body);
}
