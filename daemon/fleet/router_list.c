/* SPDX-License-Identifier: Apache-2.0 */
/* The routers of slime and miles, and older vllm-routers: GET /list_workers gives {"urls": ["http://..."]}.
 */
#include "daemon/fleet/router.h"

static const json_t *list_entries(const json_t *root)
{
    const json_t *urls = json_object_get(root, "urls");
    return json_is_array(urls) ? urls : NULL;
}

static bool list_recognise(const json_t *root)
{
    return list_entries(root) != NULL;
}

const struct router_dialect router_list = {
    .name = "list-workers",
    .path = "/list_workers",
    .recognise = list_recognise,
    .entries = list_entries,
};
