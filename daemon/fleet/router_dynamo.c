/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system server of a Dynamo worker: GET /metrics_endpoints gives the system URLs of the entire cluster as
 * {"object": "list", "data": [{"namespace": ..., "instance_id": ..., "url": ...}]}. A URL may be that of the
 * metrics.
 */
#include "daemon/fleet/router.h"

static bool dynamo_recognise(const json_t *root)
{
    const json_t *data = router_list_of(root, "data");
    return data && (json_array_size(data) == 0 || json_get_str(json_array_get(data, 0), "url"));
}

const struct router_dialect router_dynamo = {
    .name = "dynamo",
    .path = "/metrics_endpoints",
    .recognise = dynamo_recognise,
    .list_key = "data",
    .url_suffix = "/metrics",
};
