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
    const struct api_modules *m = &api->modules;
    json_t *body = json_object(), *limits = json_object();

    json_put_str(body, "version", PROFD_VERSION);
    json_put_int(body, "pid", getpid());
    json_put_int(body, "started_at", api->started_at);
    json_put_str(body, "state_dir", m->state_dir);
    json_put_str(body, "catalog", catalog_path(m->catalog));
    json_put_str(body, "catalog_error", catalog_broken_reason(m->catalog));
    json_put_str(body, "store", store_path(m->store));
    json_put_str(body, "socket", m->settings->socket);
    json_put_str(body, "listen", m->settings->listen);
    json_put_int(body, "sessions", sessions_count(m->sessions));
    json_put_int(body, "connections", http_connections(api->server));
    json_put_int(limits, "workers", (int64_t)m->fleet_settings->workers_max);
    json_put_int(limits, "sessions", m->session_settings->sessions_max);
    json_put_int(limits, "connections", m->settings->connections_max);
    json_put_int(limits, "session_ns", m->session_settings->session_limit_ns);
    json_put_int(limits, "stop_ns", m->session_settings->stop_timeout_ns);
    json_object_set_new(body, "limits", limits);
    http_reply_json(r, 200, body);
}
