/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SGLang's model gateway and its successor SMG: GET /workers gives {"workers": [...], "total": N, "stats":
 * {...}} with connection modes in lower case; SMG's entries have a status and labels.
 */
#include "daemon/fleet/router.h"

static bool first_has(const json_t *root, const char *const *keys, size_t n)
{
    const json_t *first = json_array_get(router_list_of(root, "workers"), 0);
    for (size_t i = 0; i < n; i++)
        if (json_object_get(first, keys[i]))
            return true;
    return false;
}

static bool recognise_smg(const json_t *root)
{
    static const char *const keys[] = {"status", "labels", "dp_base_url"};
    return first_has(root, keys, ARRAY_SIZE(keys)) && json_object_get(root, "stats");
}

static bool recognise_sglang(const json_t *root)
{
    static const char *const keys[] = {"runtime_type", "job_status", "reasoning_parser"};
    const json_t *first = json_array_get(router_list_of(root, "workers"), 0);
    const char *mode = json_get_str(first, "connection_mode");

    return json_object_get(root, "stats") &&
           (first_has(root, keys, ARRAY_SIZE(keys)) || streq(mode, "http") || streq(mode, "grpc") ||
            streq(mode, "zmq"));
}

const struct router_dialect router_smg = {
    .name = "smg",
    .path = "/workers",
    .recognise = recognise_smg,
    .list_key = "workers",
};

const struct router_dialect router_sglang = {
    .name = "sglang-gateway",
    .path = "/workers",
    .recognise = recognise_sglang,
    .list_key = "workers",
};
