/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of a router, read in every dialect and as `auto` would, and then settled. */
#include "base/alloc.h"
#include "daemon/fleet/router.h"

#define WORKERS_MAX 100

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_as(const struct router_dialect *d, const char *path, const uint8_t *data, size_t size)
{
    /* With and without the port that a frontend of Dynamo does not name. */
    const struct router_bounds bounds = {.workers_max = WORKERS_MAX, .system_port = size % 3 ? 9090 : 0};
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    char why[ROUTER_WHY_MAX];

    f->router = xstrdup("http://10.0.0.1:3000");
    if (router_parse(d, path, (const char *)data, size, &bounds, f, why) < 0)
        return;
    if (f->n_workers > WORKERS_MAX)
        abort();
    listing_settle(f, size % 2);
    for (size_t i = 0; i < f->n_workers; i++)
        for (size_t j = 0; j < i; j++)
            if (streq(f->workers[i].url, f->workers[j].url))
                abort();
    json_decref(fleet_to_json(f));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t i = 0; router_dialect_at(i); i++) {
        read_as(router_dialect_at(i), router_dialect_at(i)->path, data, size);
        read_as(NULL, router_dialect_at(i)->path, data, size);
    }
    return 0;
}
