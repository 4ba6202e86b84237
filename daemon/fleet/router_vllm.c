/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vllm-router: GET /workers gives {"workers": [...], "total": N, "stats": {...}}. It writes connection modes
 * as Rust shows them ("Http", "Grpc { port: None }") and data-parallel ranks as "http://host:port@rank".
 */
#include "daemon/fleet/router.h"

static bool vllm_recognise(const json_t *root)
{
    const json_t *workers = router_list_of(root, "workers");
    const char *mode = json_get_str(json_array_get(workers, 0), "connection_mode");

    if (!workers || !json_is_object(json_object_get(root, "stats")))
        return false;
    return json_array_size(workers) == 0 || !mode || starts_with(mode, "Http") || starts_with(mode, "Grpc");
}

const struct router_dialect router_vllm = {
    .name = "vllm-router",
    .path = "/workers",
    .recognise = vllm_recognise,
    .list_key = "workers",
};
