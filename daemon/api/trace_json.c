/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON of one trace, as lists and replies have it: which catalog numbers it and, where this profd is one of several, which
 * host keeps it. Reads rows, replies to nobody.
 */
#include "daemon/api/handler.h"
#include "daemon/catalog/records.h"
#include "daemon/peers/peers.h"
#include <errno.h>

/* Numbers of traces are those of this profd's catalog, also of traces that other hosts keep. */
static void trace_put_catalog(struct api *api, json_t *trace)
{
    json_put_str(trace, "catalog", catalog_uuid(api->modules.catalog));
}

json_t *own_trace_to_json(struct api *api, const struct trace_record *t)
{
    json_t *trace = trace_record_to_json(t);

    trace_put_catalog(api, trace);
    if (peers_are_configured(api->modules.peers))
        json_put_str(trace, "host", catalog_host(api->modules.catalog));
    return trace;
}

int remote_trace_to_json(struct api *api, const struct remote_trace_record *t, json_t **ret)
{
    int r = catalog_remote_trace_json(api->modules.catalog, t, ret);

    if (r == 0)
        trace_put_catalog(api, *ret);
    return r;
}

int trace_read_json(struct api *api, int64_t id, json_t **ret)
{
    struct catalog *c = api->modules.catalog;
    _cleanup_(trace_record_done) struct trace_record t;
    _cleanup_(remote_trace_record_done) struct remote_trace_record remote;

    trace_record_init(&t);
    remote_trace_record_init(&remote);
    int r = catalog_get_trace(c, id, &t);
    if (r == 0)
        *ret = own_trace_to_json(api, &t);
    else if (r == -ENOENT && (r = catalog_get_remote_trace(c, id, &remote)) == 0)
        r = remote_trace_to_json(api, &remote, ret);
    return r;
}
