/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head server of NeMo Gym: GET /server_instances gives a plain array of its servers, {"process_name":
 * ..., "server_type": "resources_servers", "url": ..., "pid": ...}. The url is null of one that has no port
 * yet.
 */
#include "daemon/fleet/router.h"

static const json_t *entries(const json_t *root)
{
    return json_is_array(root) ? root : NULL;
}

static bool recognise(const json_t *root)
{
    return json_is_array(root) &&
           (json_array_size(root) == 0 || json_get_str(json_array_get(root, 0), "server_type"));
}

const struct router_dialect router_nemo_gym = {
    .name = "nemo-gym",
    .path = "/server_instances",
    .recognise = recognise,
    .entries = entries,
};
