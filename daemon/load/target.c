/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/target.h"

#include "base/alloc.h"
#include "daemon/fleet/url.h"

static int target_init(struct target *t, const struct order *order, const struct hosts *hosts,
                       const struct order_worker *worker, char **ret_error)
{
    const struct workload *w = &order->workload;

    t->url = xstrdup(worker->url);
    t->pid = worker->pid;
    t->api = api_of(w->api, worker->engine);
    _cleanup_(freep) char *at = url_join(t->url, w->path ? w->path : t->api->path);
    return wire_place_new(at, hosts, &order->credentials, &t->place, ret_error);
}

int targets_new(const struct order *order, const struct hosts *hosts, const struct order_worker *workers,
                size_t n, struct target **ret, char **ret_error)
{
    struct target *targets = xcalloc(n, sizeof(*targets));
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++)
        r = target_init(&targets[i], order, hosts, &workers[i], ret_error);
    if (r < 0)
        targets_free(targets, n);
    else
        *ret = targets;
    return r;
}

void targets_free(struct target *targets, size_t n)
{
    for (size_t i = 0; i < n && targets; i++) {
        free(targets[i].url);
        wire_place_free(targets[i].place);
    }
    free(targets);
}
