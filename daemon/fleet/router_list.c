/* SPDX-License-Identifier: Apache-2.0 */
/* The routers of slime and miles, and older vllm-routers: GET /list_workers gives {"urls": ["http://..."]}.
 */
#include "daemon/fleet/router.h"

const struct router_dialect router_list = {
    .name = "list-workers",
    .path = "/list_workers",
    .list_key = "urls",
};
