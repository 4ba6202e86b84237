/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PodList (v1) into workers.
 *
 * An answer for a namespace that does not exist is an empty list as well, with status 200.
 */
#include "daemon/fleet/kubernetes.h"
#include <errno.h>
#include <strings.h>

/* The container's probes of that port say https. */
static bool probe_is_tls(const json_t *container, const char *name, int64_t number)
{
    static const char *const probes[] = {"readinessProbe", "livenessProbe", "startupProbe"};

    for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
        const json_t *get = json_object_get(json_object_get(container, probes[i]), "httpGet");
        const json_t *port = json_object_get(get, "port");
        const char *scheme = json_get_str(get, "scheme");
        bool same = json_is_integer(port) ? json_integer_value(port) == number
                                          : json_is_string(port) && streq(json_string_value(port), name);
        if (same && scheme)
            return strcasecmp(scheme, "HTTPS") == 0;
    }
    return name && streq(name, "https");
}

static size_t container_ports(const json_t *container, bool sidecar, struct kubernetes_port *ports, size_t n)
{
    const json_t *list = json_object_get(container, "ports"), *port;
    size_t i;

    json_array_foreach(list, i, port) {
        const char *name = json_get_str(port, "name"), *protocol = json_get_str(port, "protocol");
        int64_t number = json_get_int(port, "containerPort", 0);
        if (n == KUBERNETES_PORTS_MAX)
            break;
        if ((protocol && !streq(protocol, "TCP")) || number < 1 || number > 65535)
            continue;
        ports[n++] = (struct kubernetes_port){.name = name ? name : "",
                                              .number = (int)number,
                                              .tls = probe_is_tls(container, name, number),
                                              .sidecar = sidecar};
    }
    return n;
}

/* Of the containers, and of init containers that go on running: llm-d's routing sidecar is one. */
static size_t pod_ports(const json_t *pod, struct kubernetes_port ports[static KUBERNETES_PORTS_MAX])
{
    const json_t *spec = json_object_get(pod, "spec"), *container;
    size_t i, n = 0;

    json_array_foreach(json_object_get(spec, "containers"), i, container)
        n = container_ports(container, false, ports, n);
    json_array_foreach(json_object_get(spec, "initContainers"), i, container)
        if (streq(json_get_str(container, "restartPolicy"), "Always"))
            n = container_ports(container, true, ports, n);
    return n;
}

static enum health pod_health(const json_t *status)
{
    const json_t *condition;
    size_t i;

    json_array_foreach(json_object_get(status, "conditions"), i, condition)
        if (streq(json_get_str(condition, "type"), "Ready"))
            return streq(json_get_str(condition, "status"), "True") ? HEALTH_HEALTHY : HEALTH_UNHEALTHY;
    return HEALTH_UNKNOWN;
}

static int pod_read(struct kubernetes_page *page, const json_t *pod)
{
    const json_t *metadata = json_object_get(pod, "metadata"), *status = json_object_get(pod, "status");
    const char *phase = json_get_str(status, "phase"), *address = json_get_str(status, "podIP");
    struct kubernetes_port ports[KUBERNETES_PORTS_MAX];
    const struct kubernetes_entry e = {
        .labels = json_object_get(metadata, "labels"),
        .annotations = json_object_get(metadata, "annotations"),
        .address = address && address[0] ? address : NULL,
        .uid = json_get_str(metadata, "uid"),
        .name = json_get_str(metadata, "name"),
        .node = json_get_str(json_object_get(pod, "spec"), "nodeName"),
        .health = pod_health(status),
        .terminating = json_is_string(json_object_get(metadata, "deletionTimestamp")),
    };

    if (!json_is_object(pod) || (page->scope->node && !streq(e.node, page->scope->node)))
        return 0;
    if (streq(phase, "Succeeded") || streq(phase, "Failed")) {
        page->n_ended++;
        return 0;
    }
    return kubernetes_add_entry(page, &e, ports, pod_ports(pod, ports));
}

int kubernetes_read_pods(const struct kubernetes_scope *s, const char *data, size_t size, size_t max,
                         struct fleet *f, char **ret_next, char why[static SOURCE_WHY_MAX])
{
    struct kubernetes_page page = {.scope = s, .fleet = f, .max = max};
    _cleanup_json_ root = NULL;
    const json_t *pod;
    size_t i;

    why[0] = '\0';
    const json_t *items = kubernetes_list_items(data, size, "PodList", &root, ret_next, why);
    if (why[0])
        return -EPROTO;
    json_array_foreach(items, i, pod) {
        int r = pod_read(&page, pod);
        if (r < 0)
            return r;
    }
    kubernetes_page_notes(&page);
    if (f->n_workers == 0 && f->n_notes == 0 && !*ret_next)
        fleet_add_note(f, "no pod has these labels%s%s, or the namespace does not exist",
                       s->node ? " on the node " : "", s->node ? s->node : "");
    return 0;
}
