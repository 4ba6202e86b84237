/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a discovery is about: a query names a router, workers, a source or a fleet of profd.conf, or nothing where one fleet is
 * configured. Decides which, with the dialect and the section that goes with it, and refuses what cannot be asked. Asks nobody.
 */
#include "base/alloc.h"
#include "daemon/fleet/discover_internal.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/fleet/router.h"
#include "daemon/fleet/source.h"
#include "daemon/fleet/url.h"
#include <errno.h>

#define STATIC_DIALECT "static"

static int discovery_take_static(struct discovery *d, char *const *urls, size_t n)
{
    const char *reason;
    struct worker *w;

    if (n > d->settings.workers_max) {
        problem_set(&d->problem, -E2BIG, PROBLEM_TOO_MANY, "%zu workers are named, %zu are allowed", n,
                    d->settings.workers_max);
        problem_remedy(&d->problem, "Raise workers= in section [limits] of profd.conf.");
        return -E2BIG;
    }
    d->fleet = xcalloc(1, sizeof(*d->fleet));
    d->fleet->dialect = xstrdup(STATIC_DIALECT);
    for (size_t i = 0; i < n; i++) {
        /* Looked for among the processes of this host. */
        if (d->query.here_only && ranks_url_is(urls[i]))
            continue;
        if (fleet_add_url(d->fleet, urls[i], &w, &reason) == 0)
            continue;
        problem_set(&d->problem, -EINVAL, PROBLEM_BAD_REQUEST, "the worker URL \"%s\" cannot be used: %s",
                    urls[i], reason);
        problem_remedy(&d->problem, "Write http://HOST:PORT.");
        return -EINVAL;
    }
    return 0;
}

static int discovery_take_router(struct discovery *d, const char *text)
{
    const char *reason;
    struct url u;

    if (url_parse(text, &u, &reason) == 0 && !url_is_http(&u))
        reason = "its scheme is neither http nor https";
    else if (url_normalise(text, &d->router, &reason) == 0)
        return 0;
    problem_set(&d->problem, -EINVAL, PROBLEM_BAD_REQUEST, "the router URL \"%s\" cannot be used: %s", text,
                reason);
    problem_remedy(&d->problem, "Write http://HOST:PORT.");
    return -EINVAL;
}

static int discovery_take_dialect(struct discovery *d)
{
    const char *name = d->query.dialect ? d->query.dialect : d->config ? d->config->dialect : NULL;
    _cleanup_(freep) char *names = router_dialect_names();

    if (!name || streq(name, "auto"))
        return 0;
    d->dialect = router_dialect_find(name);
    if (d->dialect)
        return 0;
    problem_set(&d->problem, -EINVAL, PROBLEM_BAD_REQUEST, "there is no router dialect \"%s\"", name);
    problem_remedy(&d->problem, "It is one of %s.", names);
    return -EINVAL;
}

static char *fleet_names(const struct fleet_settings *s)
{
    char *names = xstrdup("");
    for (size_t i = 0; i < s->n_fleets; i++) {
        char *longer = xasprintf("%s%s%s", names, i > 0 ? ", " : "", s->fleets[i].name);
        free(names);
        names = longer;
    }
    return names;
}

/* Of a request. What profd.conf has for that very source, credentials for instance, goes with it. */
static int discovery_take_source(struct discovery *d)
{
    struct source_config *by = &d->query.by;
    _cleanup_(freep) char *reason = NULL;

    d->config = settings_fleet_of_source(&d->settings, by);
    d->by = d->config ? &d->config->by : by;
    if (d->config)
        return 0;
    if (settings_lend_cluster(&d->settings, by, &d->problem) < 0)
        return -EINVAL;
    if (source_config_check(by, &reason) == 0)
        return 0;
    problem_set(&d->problem, -EINVAL, PROBLEM_BAD_REQUEST, "%s", reason);
    problem_remedy(&d->problem, "See WHICH WORKERS in profctl(1).");
    return -EINVAL;
}

static int discovery_take_fleet(struct discovery *d)
{
    const struct fleet_settings *s = &d->settings;
    _cleanup_(freep) char *names = fleet_names(s);

    if (d->query.fleet)
        d->config = settings_fleet(s, d->query.fleet);
    else if (s->n_fleets == 1)
        d->config = &s->fleets[0];
    if (d->config)
        return 0;
    if (d->query.fleet)
        problem_set(&d->problem, -ENOENT, PROBLEM_NOT_FOUND, "profd.conf has no section [fleet %s]",
                    d->query.fleet);
    else
        problem_set(&d->problem, -EINVAL, PROBLEM_BAD_REQUEST, "no router, fleet or worker is named");
    if (s->n_fleets > 0)
        problem_remedy(&d->problem, "Name one by --fleet: %s", names);
    else
        problem_remedy(&d->problem,
                       "Name a router by --router URL, workers by --worker URL, or write a [fleet NAME] "
                       "section into profd.conf.");
    return -EINVAL;
}

/* Processes alone need no router. */
static bool query_has_only_processes(const struct fleet_query *q)
{
    return q->processes.wanted && !q->router && !q->fleet && !q->by.source && q->n_workers == 0;
}

int discovery_plan(struct discovery *d)
{
    const struct fleet_query *q = &d->query;
    int r;

    if (query_has_only_processes(q)) {
        r = discovery_take_static(d, NULL, 0);
    } else if (q->by.source) {
        r = discovery_take_source(d);
    } else if (q->router) {
        r = discovery_take_router(d, q->router);
        if (r == 0)
            d->config = settings_fleet_of_router(&d->settings, d->router);
    } else if (q->n_workers > 0 && !q->fleet) {
        r = discovery_take_static(d, q->workers, q->n_workers);
    } else {
        r = discovery_take_fleet(d);
        if (r == 0 && d->config->by.source)
            d->by = &d->config->by;
        else if (r == 0 && d->config->router)
            r = discovery_take_router(d, d->config->router);
        else if (r == 0 && !d->config->router_log)
            r = discovery_take_static(d, d->config->workers, d->config->n_workers);
    }
    return r == 0 ? discovery_take_dialect(d) : r;
}
