/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "daemon/api/api_internal.h"

struct waiting {
    struct api *api;
    struct http_request *request;
    struct discovery *discovery;
    void (*done)(struct api *api, struct http_request *r, struct fleet *fleet, const struct problem *p);
};

static void on_client_left(struct http_request *r, void *arg)
{
    struct waiting *w = arg;
    discovery_cancel(w->discovery);
    free(w);
}

static void on_discovered(struct fleet *fleet, const struct problem *p, void *arg)
{
    struct waiting w = *(struct waiting *)arg;

    free(arg);
    http_on_close(w.request, NULL, NULL);
    w.done(w.api, w.request, fleet, p);
}

void discover_for(struct api *api, struct http_request *r,
                  void (*done)(struct api *api, struct http_request *r, struct fleet *fleet,
                               const struct problem *p))
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(fleet_query_done) struct fleet_query q = {0};

    int err = source_from_query(r, &q, &p);
    if (err == 0)
        err = source_complete(api, &q, &p);
    if (err < 0) {
        http_reply_problem(r, &p);
        return;
    }
    struct waiting *w = xcalloc(1, sizeof(*w));
    *w = (struct waiting){.api = api, .request = r, .done = done};
    w->discovery = fleet_discover(api->modules.finder, &q, on_discovered, w);
    http_on_close(r, on_client_left, w);
}
