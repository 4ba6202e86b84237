/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routers of unknown kinds that answer in one of the common formats: {"workers": [...]}, {"urls": [...]}, a
 * plain array, an object keyed by URL; entries are objects with "url", or URLs. LMDeploy's proxy is one of
 * them, at a path of its own.
 */
#include "daemon/fleet/router.h"
#include "daemon/fleet/url.h"

static const char *const list_keys[] = {"workers", "urls", "servers", "data"};

/* Every key a URL with its scheme, since a bare word would also do for a host. */
static bool tolerant_is_keyed_by_url(const json_t *root)
{
    struct url u;
    const char *key, *reason;
    json_t *value;

    if (json_object_size(root) == 0)
        return false;
    json_object_foreach((json_t *)root, key, value)
        if (!strstr(key, "://") || url_parse(key, &u, &reason) < 0)
            return false;
    return true;
}

static bool tolerant_is_list(const json_t *j)
{
    const json_t *first = json_array_get(j, 0);
    return json_is_array(j) &&
           (json_array_size(j) == 0 || json_is_string(first) || json_get_str(first, "url"));
}

static const json_t *tolerant_entries(const json_t *root)
{
    if (tolerant_is_list(root) || tolerant_is_keyed_by_url(root))
        return root;
    for (size_t i = 0; i < ARRAY_SIZE(list_keys); i++) {
        const json_t *list = json_object_get(root, list_keys[i]);
        if (tolerant_is_list(list) || tolerant_is_keyed_by_url(list))
            return list;
    }
    return NULL;
}

/* Its proxy without workers answers {}. */
static const json_t *lmdeploy_entries(const json_t *root)
{
    return json_is_object(root) && json_object_size(root) == 0 ? root : tolerant_entries(root);
}

const struct router_dialect router_generic = {
    .name = "generic",
    .path = "/workers",
    .entries = tolerant_entries,
};

const struct router_dialect router_lmdeploy = {
    .name = "lmdeploy",
    .path = "/nodes/status",
    .entries = lmdeploy_entries,
};
