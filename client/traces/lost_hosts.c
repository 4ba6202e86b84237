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

void missing_hosts_note(struct client *c, const json_t *answer)
{
    const json_t *one;
    size_t i;

    json_array_foreach((json_t *)json_object_get(answer, "missing_hosts"), i, one) {
        const char *host = json_get_str(one, "host"), *reason = json_get_str(one, "reason");
        const char *remedy = json_get_str(one, "remedy");
        if (!host || json_object_get(c->missing_hosts, host))
            continue;
        if (!c->missing_hosts)
            c->missing_hosts = json_object();
        json_object_set_new(c->missing_hosts, host, json_true());
        client_note(c, "traces of %s may be missing: %s%s%s", host, reason ? reason : "no answer",
                    remedy ? "\n  " : "", remedy ? remedy : "");
    }
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
