/* SPDX-License-Identifier: Apache-2.0 */
/*
 * consul=SERVICE, of the agent on this host, or consul=URL/v1/health/service/SERVICE: the instances of a service in
 * Consul whose checks pass.
 *
 * hashicorp/consul, agent/health_endpoint.go (healthServiceNodes(), commit 00827ca5) and agent/http.go: the answer is
 * an array of {"Node", "Service", "Checks"}, empty where the token may read nothing; 403 where the token is unknown.
 * X-Consul-Index and what else is for blocking queries is ignored. An instance without an address of its own has that
 * of its node.
 *
 * The role of a worker is Service.Meta.role (or role_label=), else a tag "role=prefill" or "prefill". Service.Meta.scheme
 * may be "https".
 */
#include "base/alloc.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/source.h"
#include "daemon/fleet/url.h"
#include <errno.h>
#include <inttypes.h>

#define AGENT            "http://127.0.0.1:8500" /* the default of Consul's HTTP API */
#define SERVICE_PATH     "/v1/health/service/"
#define SERVICE_NAME_MAX 128
#define PASSING          "passing"
#define ROLE_TAG         "role="
#define ROLE_META        "role"
#define TAGS_MAX         64 /* of one instance that are read */

static bool service_name_is_plain(const char *name)
{
    size_t size = strlen(name);

    return size > 0 && size <= SERVICE_NAME_MAX &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == size;
}

static int consul_check(const struct source_config *c, const char **reason)
{
    if (source_is_url(c->value)) {
        const char *path = strstr(c->value, SERVICE_PATH);
        if (source_url_check(c->value, reason) < 0)
            return -EINVAL;
        if (path && !strchr("?/", path[strlen(SERVICE_PATH)]))
            return 0;
    } else if (service_name_is_plain(c->value)) {
        return 0;
    }
    *reason = "the name of a service, or URL" SERVICE_PATH "NAME";
    return -EINVAL;
}

static int consul_request(const struct source_config *c, const char *next, struct source_request *ret,
                          char why[static SOURCE_WHY_MAX])
{
    *ret = (struct source_request){
        .url = source_is_url(c->value) ? xstrdup(c->value)
                                       : xasprintf(AGENT SERVICE_PATH "%s?" PASSING, c->value),
        .token_file = c->consul_token_file,
        .ca_file = c->consul_ca_file,
        .keys = "consul_",
        .token_header = "X-Consul-Token",
    };
    return 0;
}

static void consul_take_role(const struct source_config *c, const json_t *service, struct worker *w)
{
    const char *role =
        json_get_str(json_object_get(service, "Meta"), c->role_label ? c->role_label : ROLE_META);
    const json_t *tags = json_object_get(service, "Tags");

    if (role)
        source_take_role(w, role);
    for (size_t i = 0; i < MIN(json_array_size(tags), (size_t)TAGS_MAX) && w->role == ROLE_UNKNOWN; i++) {
        const char *tag = json_string_value(json_array_get(tags, i));
        if (tag)
            source_take_role(w, starts_with(tag, ROLE_TAG) ? tag + strlen(ROLE_TAG) : tag);
    }
}

/* One check that does not pass is enough: those of a query without ?passing. */
static enum health consul_health(const json_t *checks)
{
    const json_t *check;
    size_t i;

    json_array_foreach((json_t *)checks, i, check) {
        const char *status = json_get_str(check, "Status");
        if (status && !streq(status, PASSING))
            return HEALTH_UNHEALTHY;
    }
    return HEALTH_HEALTHY;
}

/* HOST:PORT, to be freed. NULL where the instance has none. */
static char *consul_address(const json_t *node, const json_t *service)
{
    const char *host = json_get_str(service, "Address");
    int64_t port = json_get_int(service, "Port", 0);

    if (!host || !*host)
        host = json_get_str(node, "Address");
    if (!host || !*host || port < 1 || port > UINT16_MAX)
        return NULL;
    return url_host_port(host, (int)port);
}

static int consul_add_entry(const struct source_config *c, const json_t *entry, size_t max, struct fleet *f,
                            size_t *n_incomplete)
{
    const json_t *node = json_object_get(entry, "Node"), *service = json_object_get(entry, "Service");
    const char *scheme = json_get_str(json_object_get(service, "Meta"), "scheme");
    const char *node_id = json_get_str(node, "ID"), *id = json_get_str(service, "ID");
    int64_t created = json_get_int(service, "CreateIndex", 0);
    struct worker *w;

    if (!json_is_object(node) || !json_is_object(service))
        return -EPROTO;
    _cleanup_(freep) char *address = consul_address(node, service);
    if (!address) {
        (*n_incomplete)++;
        return 0;
    }
    int r = source_add_worker(f, max, streq(scheme, "https") ? scheme : NULL, address, &w);
    if (r < 0 || !w)
        return r;
    consul_take_role(c, service, w);
    w->health = consul_health(json_object_get(entry, "Checks"));
    /* The id of a service is unique on its node, until it is registered anew: that gives it another index. */
    if (node_id && id && *node_id && *id && created > 0)
        w->identity = xasprintf("%s/%s@%" PRId64, node_id, id, created);
    return 0;
}

static int consul_parse(const struct source_config *c, const char *data, size_t size, size_t max,
                        struct fleet *f, char **ret_next, char why[static SOURCE_WHY_MAX])
{
    char error[200];
    _cleanup_json_ list = json_parse(data, size, error);
    size_t i, n_incomplete = 0;
    json_t *entry;

    if (!json_is_array(list)) {
        snprintf(why, SOURCE_WHY_MAX, "the answer is %s",
                 list ? "JSON that is not a list of instances" : answer_kind(data, size));
        return -EPROTO;
    }
    json_array_foreach(list, i, entry) {
        int r = consul_add_entry(c, entry, max, f, &n_incomplete);
        if (r == -EPROTO)
            snprintf(why, SOURCE_WHY_MAX, "entry %zu has no Node and Service", i + 1);
        if (r < 0)
            return r;
    }
    if (n_incomplete > 0)
        fleet_add_note(f, "%zu of %zu instances of the service have no port or no address and are ignored",
                       n_incomplete, json_array_size(list));
    return 0;
}

static const char *consul_remedy(const struct source_config *c, int err, int status)
{
    if (status == 401 || status == 403)
        return "consul_token_file= in profd.conf takes a token with service:read and node:read.";
    if (err == -ENOENT)
        return "Consul shows an empty list also for an unknown service, and where the token "
               "(consul_token_file=) has no "
               "service:read and node:read.";
    if (err == -ECONNREFUSED && !source_is_url(c->value))
        return "Without a URL, the Consul agent on profd's host is asked: " AGENT ".";
    return NULL;
}

const struct fleet_source source_consul = {
    .key = "consul",
    .check = consul_check,
    .request = consul_request,
    .parse = consul_parse,
    .remedy = consul_remedy,
};
