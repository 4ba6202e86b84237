/* SPDX-License-Identifier: Apache-2.0 */
/* Whether profd runs, whether it can do its work, and which one it is. */
#include "base/alloc.h"
#include "daemon/api/handler.h"
#include "daemon/catalog/catalog.h"
#include "daemon/ingest/ingest.h"
#include "version.h"
#include <errno.h>

/* The smallest free space for which a trace could be accepted. */
#define TRACE_BYTES_MIN (INT64_C(1) << 20)

static int ready_check_catalog(struct api *api, struct problem *p)
{
    struct catalog *c = api->modules.catalog;

    /* Only while the catalog is broken: nothing else would then write and notice that the cause is gone. */
    if (!catalog_is_broken(c) || catalog_probe(c) == 0)
        return 0;
    return catalog_problem(c, catalog_error(c), p, "the catalog cannot be written");
}

int ready_check_store(struct api *api, struct problem *p)
{
    int r = store_could_take(api->modules.store, TRACE_BYTES_MIN);

    if (r == -ENOSPC) {
        problem_set(p, r, PROBLEM_STORAGE, "the store at %s is full, and no trace may be removed",
                    store_path(api->modules.store));
        problem_remedy(
            p, "Free space on its file system, raise [store] max_use=, or remove traces (profctl unpin, "
               "profctl rm); profctl du shows the budget.");
    } else if (r < 0) {
        problem_set(p, r, PROBLEM_STORAGE, "the store at %s cannot be used: %s",
                    store_path(api->modules.store), strerror(-r));
    }
    return r;
}

static int ready_check_ingest(struct api *api, struct problem *p)
{
    int r = ingest_check(api->modules.ingest);

    if (r < 0) {
        problem_set(p, r, PROBLEM_INTERNAL, "profd-ingest, which reads traces, cannot be started: %s",
                    strerror(-r));
        problem_remedy(p, "Reinstall profd, which includes it.");
    } else if (ingest_is_full(api->modules.ingest)) {
        r = problem_set(p, -EAGAIN, PROBLEM_TOO_MANY, "%d files are waiting to be read", INGEST_WAITING_MAX);
        problem_remedy(p, "Wait, or raise [collect] children= to read more files at a time.");
    }
    return r;
}

const struct ready_check ready_checks[] = {
    {"catalog", ready_check_catalog},
    {"store", ready_check_store},
    {"ingest", ready_check_ingest},
    {0},
};

static void ready_reply_problem(struct http_request *r, const json_t *reasons)
{
    _cleanup_(problem_done) struct problem p = {0};
    const json_t *first = json_array_get(reasons, 0);

    problem_set(&p, -EAGAIN, PROBLEM_STORAGE, "profd is not ready: %s", json_get_str(first, "detail"));
    problem_remedy(&p, "%s",
                   json_get_str(first, "remedy") ? json_get_str(first, "remedy")
                                                 : "Read the log of profd: journalctl -u profd.");
    reply_problem(r, 503, &p, "reasons", reasons);
}

void get_readiness(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_json_ reasons = json_array();

    for (const struct ready_check *check = ready_checks; check->name; check++) {
        _cleanup_(problem_done) struct problem p = {0};
        if (check->run(api, &p) >= 0)
            continue;
        json_t *reason = json_object();
        json_put_str(reason, "check", check->name);
        json_put_str(reason, "detail", p.what);
        json_put_str(reason, "remedy", p.remedy);
        json_array_append_new(reasons, reason);
    }
    if (json_array_size(reasons) > 0)
        ready_reply_problem(r, reasons);
    else
        http_reply(r, 200, "text/plain; charset=utf-8", "ready\n", 6);
}

void get_health(struct api *api, struct http_request *r, const struct route_match *match)
{
    http_reply(r, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

void get_version(struct api *api, struct http_request *r, const struct route_match *match)
{
    const struct api_modules *m = &api->modules;
    json_t *body = json_object(), *limits = json_object();

    json_put_str(body, "version", PROFD_VERSION);
    json_put_int(body, "pid", getpid());
    json_put_int(body, "started_at", api->started_at);
    json_put_str(body, "state_dir", m->state_dir);
    json_put_str(body, "catalog", catalog_path(m->catalog));
    json_put_str(body, "catalog_error", catalog_broken_reason(m->catalog));
    json_put_str(body, "store", store_path(m->store));
    json_put_str(body, "socket", m->settings->socket);
    json_put_str(body, "listen", m->settings->listen);
    json_put_int(body, "sessions", jobs_count(sessions_jobs(m->sessions)));
    json_put_int(body, "connections", http_connections(api->server));
    json_put_int(limits, "workers", (int64_t)m->fleet_settings->workers_max);
    json_put_int(limits, "sessions", m->session_settings->sessions_max);
    json_put_int(limits, "connections", m->settings->connections_max);
    json_put_int(limits, "session_ns", m->session_settings->session_limit_ns);
    json_put_int(limits, "stop_ns", m->session_settings->stop_timeout_ns);
    json_object_set_new(body, "limits", limits);
    http_reply_json(r, 200, body);
}
