/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/worker_options.h"

#include "base/alloc.h"
#include "base/routerlog.h"
#include "base/target_files.h"
#include "client/cli/text.h"
#include "client/local/slurm.h"
#include "client/local/units.h"
#include <errno.h>
#include <stddef.h>
#include <strings.h>

/* Of a path with a query; profd takes 8,000. A proxy may take less. */
#define QUERY_BYTES_MAX 4000

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

/* The ways of finding workers that exclude each other: at most one is set. */
static const struct {
    const char *option;
    size_t offset;
    bool is_source; /* a member of requests, of the same name */
} ways[] = {{"router", offsetof(struct source, router), false},
            {"router-log", offsetof(struct source, router_log), false},
            {"fleet", offsetof(struct source, fleet), false},
#define WAY_OF_SOURCE(key, value, help, arg) {#key, offsetof(struct source, key), true},
            FLEET_SOURCES(WAY_OF_SOURCE, )};

static const struct {
    const char *option, *member;
    size_t offset;
} additions[] = {
#define ADDITION(member, option, value, help, of, arg) {option, #member, offsetof(struct source, member)},
    SOURCE_MEMBERS(ADDITION, )};

static const char *source_option(const struct source *s, size_t offset)
{
    return *(const char *const *)(const void *)((const char *)s + offset);
}

bool source_names_servers(const struct source *s)
{
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
        if (source_option(s, ways[i].offset))
            return true;
    /* With --kineto, a unit is of processes, which need not listen anywhere. */
    size_t n_units = process_options_wanted(&s->processes) ? 0 : s->units.n;
    return s->workers.n + n_units + s->user_units.n > 0;
}

bool source_is_named(const struct source *s)
{
    return source_names_servers(s) || process_options_wanted(&s->processes);
}

static int source_check_ways(const struct source *s, struct problem *p)
{
    const char *first = NULL;
    bool has_source = false;

    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        if (!source_option(s, ways[i].offset))
            continue;
        if (first)
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--%s and --%s exclude each other", first,
                               ways[i].option);
        first = ways[i].option;
        has_source = ways[i].is_source;
    }
    for (size_t i = 0; i < ARRAY_SIZE(additions) && !has_source; i++)
        if (source_option(s, additions[i].offset))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "--%s is for a source without a router, and none is named",
                               additions[i].option);
    return 0;
}

/* The option's router; without any option that names workers, that of the environment. */
static const char *source_router(const struct source *s)
{
    const char *environment = getenv("PROFD_ROUTER");

    return source_is_named(s) || !environment || !*environment ? s->router : environment;
}

static int source_resolve(struct client *c, const struct source *s, struct resolved_source *ret,
                          struct problem *p)
{
    if (source_check_ways(s, p) < 0)
        return -EINVAL;
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
    const struct option_list none = {0};
    const struct option_list *units = process_options_wanted(&s->processes) ? &none : &s->units;
    return units_find_workers(c, units, &s->user_units, &ret->of_units, p);
}

/* profd opens no file that a client names: it gets the list in it. */
static int source_read_targets(const char *path, json_t *request, struct problem *p)
{
    json_t *list = NULL;
    char error[300];
    int r = target_files_read(path, &list, error);

    if (r == 0) {
        json_object_set_new(request, "targets", list);
        return 0;
    }
    problem_set(p, r, PROBLEM_BAD_REQUEST, "cannot read targets: %s", error);
    problem_remedy(p, r == -EPROTO ? "Write a list of {\"targets\": [\"HOST:PORT\"], \"labels\": {}}, as "
                                     "Prometheus' file_sd."
                                   : "Check the path.");
    return r;
}

static int source_add_ways(const struct source *s, json_t *request, struct problem *p)
{
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        const char *value = ways[i].is_source ? source_option(s, ways[i].offset) : NULL;
        if (value && value == s->targets && strncasecmp(value, "http://", 7) != 0 &&
            strncasecmp(value, "https://", 8) != 0) {
            int r = source_read_targets(value, request, p);
            if (r < 0)
                return r;
        } else if (value && value == s->slurm) {
            _cleanup_(freep) char *nodes = NULL;
            int r = slurm_resolve(value, &nodes, p);
            if (r < 0)
                return r;
            json_put_str(request, "slurm", nodes);
        } else {
            json_put_str(request, ways[i].option, value);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(additions); i++)
        json_put_str(request, additions[i].member, source_option(s, additions[i].offset));
    return 0;
}

static int source_add_processes(const struct source *s, json_t *request, struct problem *p)
{
    json_t *kineto;
    int r = process_options_to_json(&s->processes, &s->units, &kineto, p);

    if (r == 0 && kineto)
        json_object_set_new(request, "kineto", kineto);
    return r;
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
    if (s->system_port > 0)
        json_put_int(request, "system_port", s->system_port);
    json_put_str(request, "trace_dir", r.trace_dir);
    err = source_add_ways(s, request, p);
    if (err == 0)
        err = source_add_processes(s, request, p);
    if (err < 0)
        return err;
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
    json_t *kineto = json_incref(json_object_get(members, "kineto"));
    if (kineto)
        process_options_to_query(kineto, members);
    json_decref(kineto);
    json_t *targets = json_object_get(members, "targets");
    if (json_is_array(targets)) {
        _cleanup_(freep) char *content = json_dumps(targets, JSON_COMPACT);
        json_object_set_new(members, "targets", json_text(content));
    }
    url_add_members(path, members);
    return 0;
}

int source_get(struct client *c, const struct source *s, const char *resource, const char *doing,
               json_t **ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xstrdup(resource);
    _cleanup_json_ body = json_object();

    if (source_to_query(c, s, &path, &p) < 0)
        return client_fail(c, &p);
    if (strlen(path) <= QUERY_BYTES_MAX || connection_is_on_bus(c->connection))
        return client_get(c, path, doing, ret);
    return source_to_json(c, s, body, &p) < 0 ? client_fail(c, &p)
                                              : client_call(c, "POST", resource, body, doing, ret);
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
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
        if (ways[i].is_source && source_option(s, ways[i].offset))
            return xasprintf("%s %s", ways[i].option, source_option(s, ways[i].offset));
    const char *router = source_router(s);
    if (router || s->router_log)
        return xstrdup(router ? router : s->router_log);
    if (process_options_wanted(&s->processes) && s->workers.n == 0)
        return xstrdup("the processes that registered");
    if (s->units.n + s->user_units.n == 1)
        return xasprintf("unit %s", s->units.n ? s->units.items[0] : s->user_units.items[0]);
    if (s->units.n + s->user_units.n > 1)
        return text_count((int64_t)(s->units.n + s->user_units.n), "unit");
    return s->workers.n ? text_count((int64_t)s->workers.n, "worker") : xstrdup("the fleet");
}
