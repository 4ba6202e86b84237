/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EndpointSliceList (discovery.k8s.io/v1) into workers.
 *
 * A Service has several slices: of at most 100 endpoints, of one family of addresses, and of one set of ports, since a
 * named target port may have another number in each pod. An endpoint may be in two slices while it moves. Slices carry
 * the labels of the Service, not those of the pods (kubernetes/endpointslice @daa4d010, utils.go, setEndpointSliceLabels).
 */
#include "daemon/fleet/kubernetes.h"
#include <errno.h>
#include <strings.h>

/* A Service without pods has one slice without endpoints (reconciler.go, placeholder); a name without any slice is no
 * Service, or one without a selector. */
#define NO_SLICE                                                                                             \
    "there are no EndpointSlices of that Service: it does not exist, or it has no selector, or the "         \
    "namespace "                                                                                             \
    "does not exist"

static bool is_tls(const json_t *port)
{
    const char *protocol = json_get_str(port, "appProtocol"), *name = json_get_str(port, "name");

    if (protocol)
        return strcasecmp(protocol, "https") == 0 || ends_with(protocol, "/https");
    return name && (streq(name, "https") || starts_with(name, "https-"));
}

static size_t slice_ports(const json_t *slice, struct kubernetes_port ports[static KUBERNETES_PORTS_MAX])
{
    const json_t *list = json_object_get(slice, "ports"), *port;
    size_t i, n = 0;

    json_array_foreach(list, i, port) {
        const char *name = json_get_str(port, "name"), *protocol = json_get_str(port, "protocol");
        int64_t number = json_get_int(port, "port", 0);
        if (n == KUBERNETES_PORTS_MAX)
            break;
        if ((protocol && !streq(protocol, "TCP")) || number < 1 || number > 65535)
            continue;
        ports[n++] =
            (struct kubernetes_port){.name = name ? name : "", .number = (int)number, .tls = is_tls(port)};
    }
    return n;
}

/* "ready" that is absent is to be read as true (types.go, EndpointConditions). Where a Service publishes addresses that
 * are not ready, "ready" is always true, and "serving" is the state. */
static enum health endpoint_health(const json_t *conditions)
{
    bool ready = json_get_bool(conditions, "ready", true);
    return ready && json_get_bool(conditions, "serving", ready) ? HEALTH_HEALTHY : HEALTH_UNHEALTHY;
}

static int endpoint_read(struct kubernetes_page *page, const json_t *slice, const json_t *endpoint,
                         const struct kubernetes_port *ports, size_t n_ports)
{
    const json_t *conditions = json_object_get(endpoint, "conditions");
    const json_t *target = json_object_get(endpoint, "targetRef");
    /* All but the first have no meaning (types.go, Endpoint.Addresses). */
    const json_t *address = json_array_get(json_object_get(endpoint, "addresses"), 0);
    const struct kubernetes_entry e = {
        .labels = json_object_get(json_object_get(slice, "metadata"), "labels"),
        .address = json_string_value(address),
        .uid = json_get_str(target, "uid"),
        .name = json_get_str(target, "name"),
        .node = json_get_str(endpoint, "nodeName"),
        .health = endpoint_health(conditions),
        .terminating = json_get_bool(conditions, "terminating", false),
    };

    if (!json_is_object(endpoint) || (page->scope->node && !streq(e.node, page->scope->node)))
        return 0;
    return kubernetes_add_entry(page, &e, ports, n_ports);
}

int kubernetes_read_slices(const struct kubernetes_scope *s, const char *data, size_t size, size_t max,
                           struct fleet *f, char **ret_next, char why[static SOURCE_WHY_MAX])
{
    struct kubernetes_page page = {.scope = s, .fleet = f, .max = max};
    struct kubernetes_port ports[KUBERNETES_PORTS_MAX];
    const json_t *slice, *endpoint;
    _cleanup_json_ root = NULL;
    size_t i, k, n_endpoints = 0;
    int r = 0;

    why[0] = '\0';
    const json_t *items = kubernetes_list_items(data, size, "EndpointSliceList", &root, ret_next, why);
    if (why[0])
        return -EPROTO;
    json_array_foreach(items, i, slice) {
        const json_t *endpoints = json_object_get(slice, "endpoints");
        size_t n_ports = slice_ports(slice, ports);
        n_endpoints += json_array_size(endpoints);
        json_array_foreach(endpoints, k, endpoint) {
            r = endpoint_read(&page, slice, endpoint, ports, n_ports);
            if (r < 0)
                return r;
        }
    }
    kubernetes_page_notes(&page);
    if (f->n_workers > 0 || f->n_notes > 0 || *ret_next)
        return 0;
    if (json_array_size(items) == 0)
        fleet_add_note(f, "%s", NO_SLICE);
    else if (n_endpoints == 0)
        fleet_add_note(f, "the Service exists and has no endpoints");
    else if (s->node)
        fleet_add_note(f, "no pod of the Service is on the node %s", s->node);
    return 0;
}
