/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/worker_options.h"

#include "base/alloc.h"
#include "base/routerlog.h"
#include "client/cli/text.h"
#include "client/local/units.h"
#include <errno.h>

/* A source in the form that is sent: router of the log, absolute directory, workers of units. */
struct resolved_source {
    char *router, *trace_dir;
    struct unit_workers of_units;
};

static void resolved_source_done(struct resolved_source *r)
{
    free(r->router);
    free(r->trace_dir);
    unit_workers_done(&r->of_units);
}

/* The option's router; without any option that names workers, that of the environment. */
static const char *source_router(const struct source *s)
{
    const char *environment = getenv("PROFD_ROUTER");
    bool is_named = s->router || s->router_log || s->fleet || s->workers.n + s->units.n + s->user_units.n > 0;

    return is_named || !environment || !*environment ? s->router : environment;
}

static int source_resolve(struct client *c, const struct source *s, struct resolved_source *ret,
                          struct problem *p)
{
    if (!!s->router + !!s->router_log + !!s->fleet > 1)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "--router, --router-log and --fleet exclude each other");
    if (s->router_log) {
        int r = routerlog_read(s->router_log, &ret->router, p);
        if (r < 0)
            return r;
    } else {
        ret->router = xstrdup(source_router(s));
    }
    if (s->trace_dir && *s->trace_dir != '/') {
        _cleanup_(freep) char *cwd = getcwd(NULL, 0);
        ret->trace_dir = xasprintf("%s/%s", cwd ? cwd : "", s->trace_dir);
    } else {
        ret->trace_dir = xstrdup(s->trace_dir);
    }
    return units_find_workers(c, &s->units, &s->user_units, &ret->of_units, p);
}

int source_to_json(struct client *c, const struct source *s, json_t *request, struct problem *p)
{
    _cleanup_(resolved_source_done) struct resolved_source r = {0};
    int err = source_resolve(c, s, &r, p);

    if (err < 0)
        return err;
    json_put_str(request, "router", r.router);
    json_put_str(request, "fleet", s->fleet);
    json_put_str(request, "dialect", s->dialect);
    json_put_str(request, "trace_dir", r.trace_dir);
    if (s->workers.n + r.of_units.n == 0)
        return 0;
    json_t *workers = json_array();
    for (size_t i = 0; i < s->workers.n; i++)
        json_array_append_new(workers, json_text(s->workers.items[i]));
    for (size_t i = 0; i < r.of_units.n; i++)
        json_array_append_new(workers, json_text(r.of_units.items[i].url));
    json_object_set_new(request, "workers", workers);
    return 0;
}

int source_to_query(struct client *c, const struct source *s, char **path, struct problem *p)
{
    _cleanup_json_ members = json_object();
    int r = source_to_json(c, s, members, p);

    if (r < 0)
        return r;
    json_t *workers = json_object_get(members, "workers");
    if (workers) {
        json_object_set(members, "worker", workers);
        json_object_del(members, "workers");
    }
    url_add_members(path, members);
    return 0;
}

int through_check(const char *through, struct problem *p)
{
    if (!through || streq(through, "router") || streq(through, "workers"))
        return 0;
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--through must be router or workers, not %s",
                       through);
}

char *source_name(const struct source *s)
{
    if (s->fleet)
        return xasprintf("fleet %s", s->fleet);
    const char *router = source_router(s);
    if (router || s->router_log)
        return xstrdup(router ? router : s->router_log);
    if (s->units.n + s->user_units.n == 1)
        return xasprintf("unit %s", s->units.n ? s->units.items[0] : s->user_units.items[0]);
    if (s->units.n + s->user_units.n > 1)
        return text_count((int64_t)(s->units.n + s->user_units.n), "unit");
    return s->workers.n ? text_count((int64_t)s->workers.n, "worker") : xstrdup("the fleet");
}
