/* SPDX-License-Identifier: Apache-2.0 */
/* Fleets and workers as configured in profd.conf, and the queries of users: constructors, destructors,
 * look-ups. */
#include "base/alloc.h"
#include "daemon/fleet/fleet.h"
#include "daemon/fleet/url.h"
#include <errno.h>

static void strings_done(char **strings, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(strings[i]);
    free(strings);
}

static void fleet_config_done(struct fleet_config *f)
{
    free(f->name);
    free(f->router);
    free(f->router_log);
    strings_done(f->workers, f->n_workers);
    source_config_done(&f->by);
    free(f->dialect);
    free(f->trace_dir);
    free(f->output_dir);
    for (size_t i = 0; i < f->n_maps; i++) {
        free(f->maps[i].from);
        free(f->maps[i].to);
    }
    free(f->maps);
    call_credentials_done(&f->credentials);
}

void fleet_settings_done(struct fleet_settings *s)
{
    for (size_t i = 0; i < s->n_fleets; i++)
        fleet_config_done(&s->fleets[i]);
    for (size_t i = 0; i < s->n_workers; i++) {
        free(s->workers[i].url);
        free(s->workers[i].trace_dir);
        free(s->workers[i].output_dir);
        call_credentials_done(&s->workers[i].credentials);
    }
    free(s->fleets);
    free(s->workers);
    *s = (struct fleet_settings){0};
}

static char **strings_copy(char *const *strings, size_t n)
{
    char **copy = xcalloc(MAX(n, 1u), sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        copy[i] = xstrdup(strings[i]);
    return copy;
}

static void fleet_config_copy(const struct fleet_config *f, struct fleet_config *ret)
{
    *ret = (struct fleet_config){.name = xstrdup(f->name),
                                 .router = xstrdup(f->router),
                                 .router_log = xstrdup(f->router_log),
                                 .workers = strings_copy(f->workers, f->n_workers),
                                 .n_workers = f->n_workers,
                                 .cap_workers = f->n_workers,
                                 .dialect = xstrdup(f->dialect),
                                 .system_port = f->system_port,
                                 .trace_dir = xstrdup(f->trace_dir),
                                 .output_dir = xstrdup(f->output_dir),
                                 .maps = xcalloc(MAX(f->n_maps, 1u), sizeof(*f->maps)),
                                 .n_maps = f->n_maps,
                                 .cap_maps = f->n_maps};
    for (size_t i = 0; i < f->n_maps; i++)
        ret->maps[i] = (struct path_map){.from = xstrdup(f->maps[i].from), .to = xstrdup(f->maps[i].to)};
    source_config_copy(&f->by, &ret->by);
    call_credentials_copy(&f->credentials, &ret->credentials);
}

void fleet_settings_copy(const struct fleet_settings *s, struct fleet_settings *ret)
{
    *ret = *s;
    ret->fleets = xcalloc(MAX(s->n_fleets, 1u), sizeof(*ret->fleets));
    ret->workers = xcalloc(MAX(s->n_workers, 1u), sizeof(*ret->workers));
    ret->cap_fleets = s->n_fleets;
    ret->cap_workers = s->n_workers;
    for (size_t i = 0; i < s->n_fleets; i++)
        fleet_config_copy(&s->fleets[i], &ret->fleets[i]);
    for (size_t i = 0; i < s->n_workers; i++) {
        const struct worker_config *w = &s->workers[i];
        ret->workers[i] = (struct worker_config){.url = xstrdup(w->url),
                                                 .trace_dir = xstrdup(w->trace_dir),
                                                 .output_dir = xstrdup(w->output_dir),
                                                 .role = w->role};
        call_credentials_copy(&w->credentials, &ret->workers[i].credentials);
    }
}

void fleet_query_copy(const struct fleet_query *q, struct fleet_query *ret)
{
    *ret = (struct fleet_query){.fleet = xstrdup(q->fleet),
                                .router = xstrdup(q->router),
                                .dialect = xstrdup(q->dialect),
                                .system_port = q->system_port,
                                .trace_dir = xstrdup(q->trace_dir),
                                .workers = strings_copy(q->workers, q->n_workers),
                                .n_workers = q->n_workers,
                                .here_only = q->here_only};
    source_config_copy(&q->by, &ret->by);
    process_query_copy(&q->processes, &ret->processes);
}

int fleet_query_check(const struct fleet_query *q, struct problem *p)
{
    const char *source = q->by.source ? q->by.source->key : NULL;
    const char *other = q->router ? "router" : "fleet";

    if (q->router && q->fleet)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "router and fleet exclude each other");
    if (source && (q->router || q->fleet))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s and %s exclude each other", other, source);
    for (const struct source_setting *s = source_settings; s->name && !source; s++)
        if (*(char *const *)(const void *)((const char *)&q->by + s->offset))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s is for a source, and none is named",
                               s->name);
    if (q->system_port > 0 && !q->router && !q->fleet && (source || q->n_workers > 0))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "system_port is for a router: the URL of a worker has its port");
    return 0;
}

void fleet_query_done(struct fleet_query *q)
{
    free(q->fleet);
    free(q->router);
    free(q->dialect);
    strings_done(q->workers, q->n_workers);
    source_config_done(&q->by);
    free(q->trace_dir);
    process_query_done(&q->processes);
    *q = (struct fleet_query){0};
}

/* a is as a person wrote it, b is normalised. */
static bool same_url(const char *a, const char *b)
{
    const char *reason;
    _cleanup_(freep) char *normal = NULL;
    return streq(a, b) || (a && url_normalise(a, &normal, &reason) == 0 && streq(normal, b));
}

const struct fleet_config *settings_fleet(const struct fleet_settings *s, const char *name)
{
    for (size_t i = 0; name && i < s->n_fleets; i++)
        if (streq(s->fleets[i].name, name))
            return &s->fleets[i];
    return NULL;
}

const struct worker_config *settings_worker(const struct fleet_settings *s, const char *url)
{
    for (size_t i = 0; url && i < s->n_workers; i++)
        if (same_url(s->workers[i].url, url))
            return &s->workers[i];
    return NULL;
}

const struct call_credentials *settings_credentials(const struct fleet_settings *s, const char *fleet_name,
                                                    const char *worker_url)
{
    const struct worker_config *w = settings_worker(s, worker_url);
    const struct fleet_config *f = settings_fleet(s, fleet_name);
    if (w && call_credentials_any(&w->credentials))
        return &w->credentials;
    return f ? &f->credentials : NULL;
}

const struct fleet_config *settings_fleet_of_router(const struct fleet_settings *s, const char *router)
{
    for (size_t i = 0; i < s->n_fleets; i++)
        if (s->fleets[i].router && same_url(s->fleets[i].router, router))
            return &s->fleets[i];
    return NULL;
}

const struct fleet_config *settings_fleet_of_source(const struct fleet_settings *s,
                                                    const struct source_config *by)
{
    for (size_t i = 0; i < s->n_fleets; i++)
        if (source_config_equal(&s->fleets[i].by, by))
            return &s->fleets[i];
    return NULL;
}

int settings_lend_cluster(const struct fleet_settings *s, struct source_config *by, struct problem *p)
{
    const struct source_setting *url = source_url_setting(by->source);
    const struct source_config *from = NULL;

    for (size_t i = 0; url && i < s->n_fleets; i++) {
        const char *first = from ? source_config_get(from, url) : NULL;
        const char *other = source_config_get(&s->fleets[i].by, url);
        if (first && other && !streq(first, other)) {
            problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "profd.conf has several %s=: %s, %s", url->name,
                        first, other);
            problem_remedy(p, "Name a section [fleet NAME] by --fleet.");
            return -EINVAL;
        }
        if (other && !first)
            from = &s->fleets[i].by;
    }
    if (from)
        source_config_lend(by, from);
    return 0;
}
