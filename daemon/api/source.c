/* SPDX-License-Identifier: Apache-2.0 */
/* Which fleet a request is about: what it names, else what is configured, else what was used last. */
#include "base/alloc.h"
#include "daemon/api/api_internal.h"
#include "daemon/catalog/records.h"
#include <errno.h>

static int take_workers(const struct http_request *r, struct fleet_query *q, struct problem *p)
{
    const char *none[1];
    size_t n = http_query_all(r, "worker", none, 0);

    if (n == 0)
        return 0;
    if (n > REQUEST_WORKERS_MAX)
        return problem_set(p, -E2BIG, PROBLEM_BAD_REQUEST, "%zu workers are named, more than %d", n,
                           REQUEST_WORKERS_MAX);
    _cleanup_(freep) const char **urls = xcalloc(n, sizeof(*urls));
    http_query_all(r, "worker", urls, n);
    q->workers = xcalloc(n, sizeof(*q->workers));
    for (size_t i = 0; i < n; i++)
        q->workers[q->n_workers++] = xstrdup(urls[i]);
    return 0;
}

static int check_source(const struct fleet_query *q, struct problem *p)
{
    if (q->router && q->fleet)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "router and fleet exclude each other");
    if (q->trace_dir && q->trace_dir[0] != '/')
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "trace_dir must be an absolute path, not %s",
                           q->trace_dir);
    return 0;
}

int source_from_query(const struct http_request *r, struct fleet_query *ret, struct problem *p)
{
    struct fleet_query q = {.fleet = xstrdup(http_query_get(r, "fleet")),
                            .router = xstrdup(http_query_get(r, "router")),
                            .dialect = xstrdup(http_query_get(r, "dialect")),
                            .trace_dir = xstrdup(http_query_get(r, "trace_dir"))};
    int err = take_workers(r, &q, p);

    if (err < 0) {
        fleet_query_done(&q);
        return err;
    }
    *ret = q;
    return 0;
}

static int nothing_known(const struct fleet_settings *s, struct problem *p)
{
    _cleanup_(freep) char *names = NULL;

    for (size_t i = 0; i < s->n_fleets; i++) {
        char *longer = xasprintf("%s%s%s", names ? names : "", names ? ", " : "", s->fleets[i].name);
        free(names);
        names = longer;
    }
    if (names) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "which fleet? profd.conf has %s", names);
        problem_remedy(p, "Name one by --fleet NAME, or a router by --router URL.");
    } else {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                    "which router? None is configured, and no session has used one yet");
        problem_remedy(p,
                       "Name it: --router http://HOST:PORT, --router-log FILE of a training job, or --worker "
                       "URL without a router.");
    }
    return -EINVAL;
}

int source_complete(struct api *api, struct fleet_query *q, struct problem *p)
{
    const struct fleet_settings *s = api->modules.fleet_settings;

    int err = check_source(q, p);
    if (err < 0 || q->router || q->fleet || q->n_workers > 0)
        return err;
    if (s->n_fleets == 1)
        q->fleet = xstrdup(s->fleets[0].name);
    else
        q->router = catalog_last_router(api->modules.catalog);
    return q->fleet || q->router ? 0 : nothing_known(s, p);
}
