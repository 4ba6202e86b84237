/* SPDX-License-Identifier: Apache-2.0 */
/* Who is there: the workers of a fleet, the routers seen so far. */
#include "daemon/api/api_internal.h"
#include "daemon/catalog/records.h"

static void on_fleet(struct api *api, struct http_request *r, struct fleet *fleet, const struct problem *p)
{
    if (!fleet) {
        http_reply_problem(r, p);
        return;
    }
    /* A listing is answered also where the catalog could not take it: the write's error is its own. */
    catalog_saw_fleet(api->modules.catalog, fleet);
    http_reply_json(r, 200, fleet_to_json(fleet));
    fleet_free(fleet);
}

void get_workers(struct api *api, struct http_request *r, int64_t id)
{
    discover_for(api, r, on_fleet);
}

void get_routers(struct api *api, struct http_request *r, int64_t id)
{
    json_t *routers, *body;

    int err = catalog_routers_json(api->modules.catalog, &routers);
    if (err < 0) {
        reply_error(api, r, err, "list the routers");
        return;
    }
    body = json_object();
    json_object_set_new(body, "routers", routers);
    http_reply_json(r, 200, body);
}
