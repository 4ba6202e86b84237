/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/ready.h"

#include "base/alloc.h"
#include "daemon/api/api_internal.h"
#include "daemon/catalog/catalog.h"
#include "daemon/ingest/ingest.h"
#include <errno.h>

/* Less than that is no trace of anything. */
#define TRACE_BYTES_MIN (INT64_C(1) << 20)

static int check_catalog(struct api *api, struct problem *p)
{
    struct catalog *c = api->modules.catalog;

    /* Only while it is broken: nothing else would then write and find out that it no longer is. */
    if (!catalog_is_broken(c) || catalog_probe(c) == 0)
        return 0;
    return catalog_problem(c, catalog_error(c), p, "the catalog cannot be written");
}

int ready_check_store(struct api *api, struct problem *p)
{
    int r = store_could_take(api->modules.store, TRACE_BYTES_MIN);

    if (r == -ENOSPC) {
        problem_set(p, r, PROBLEM_STORAGE, "the store at %s is full, and nothing in it may be removed",
                    store_path(api->modules.store));
        problem_remedy(
            p,
            "profctl du shows its budget; free space on its file system, raise [store] max_use=, or remove "
            "traces (profctl unpin, profctl rm).");
    } else if (r < 0) {
        problem_set(p, r, PROBLEM_STORAGE, "the store at %s cannot be used: %s",
                    store_path(api->modules.store), strerror(-r));
    }
    return r;
}

static int check_ingest(struct api *api, struct problem *p)
{
    int r = ingest_check(api->modules.ingest);

    if (r < 0) {
        problem_set(p, r, PROBLEM_INTERNAL, "profd-ingest, which reads traces, cannot be started: %s",
                    strerror(-r));
        problem_remedy(p, "It is installed with profd; install both anew.");
    } else if (ingest_is_full(api->modules.ingest)) {
        r = problem_set(p, -EAGAIN, PROBLEM_TOO_MANY, "%d files wait to be read", INGEST_WAITING_MAX);
        problem_remedy(p, "It passes by itself; [collect] children= lets more be read at a time.");
    }
    return r;
}

const struct ready_check ready_checks[] = {
    {"catalog", check_catalog},
    {"store", ready_check_store},
    {"ingest", check_ingest},
    {0},
};

static void reply_not_ready(struct http_request *r, const json_t *reasons)
{
    _cleanup_(problem_done) struct problem p = {0};
    const json_t *first = json_array_get(reasons, 0);

    problem_set(&p, -EAGAIN, PROBLEM_STORAGE, "profd is not ready: %s", json_get_str(first, "detail"));
    problem_remedy(&p, "%s",
                   json_get_str(first, "remedy") ? json_get_str(first, "remedy") : "See profd's log.");
    reply_problem(r, 503, &p, "reasons", reasons);
}

void get_readiness(struct api *api, struct http_request *r, int64_t id)
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
        reply_not_ready(r, reasons);
    else
        http_reply(r, 200, "text/plain; charset=utf-8", "ready\n", 6);
}
