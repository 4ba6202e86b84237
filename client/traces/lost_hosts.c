/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/lost_hosts.h"

#include "base/alloc.h"
#include <errno.h>

void lost_hosts_add(struct client *c, const json_t *trace, int err, const struct problem *p)
{
    const char *uuid = json_get_str(trace, "host_uuid");

    /* -EREMOTEIO: profd reported it, so that profd itself answers. */
    if (!uuid || (p->kind != PROBLEM_UNREACHABLE && p->kind != PROBLEM_UPSTREAM) || err != -EREMOTEIO)
        return;
    if (!c->lost_hosts)
        c->lost_hosts = json_object();
    json_object_set_new(c->lost_hosts, uuid, json_true());
}

void lost_trace_add(struct client *c, const char *name)
{
    if (!c->lost_hosts)
        c->lost_hosts = json_object();
    json_object_set_new(c->lost_hosts, name, json_true());
}

bool lost_trace_is_noted(const struct client *c, const json_t *trace)
{
    const char *name = json_get_str(trace, "trace");
    return name && json_object_get(c->lost_hosts, name);
}

bool trace_is_lost(const struct client *c, const json_t *trace)
{
    const char *uuid = json_get_str(trace, "host_uuid");

    return lost_trace_is_noted(c, trace) ||
           (uuid && !json_object_get(trace, "archived_at") && json_object_get(c->lost_hosts, uuid));
}

/* "gpu3": the host that keeps the trace, for people; NULL: this one. */
static const char *trace_host_name(const json_t *trace)
{
    const char *uuid = json_get_str(trace, "host_uuid"), *name = json_get_str(trace, "host");
    return uuid && name ? name : uuid;
}

void trace_list_add(char **list, const json_t *trace)
{
    const char *id = json_get_str(trace, "trace"), *host = trace_host_name(trace);
    append_str(list, "%s%s", *list ? ", " : "", id ? id : "?");
    if (host)
        append_str(list, " (%s)", host);
}
