/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request and a fleet to a run's row and the order for its child. What can be known to be wrong is
 * said here, before anything is written.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/load/workload.h"
#include "daemon/runs/internal.h"
#include <errno.h>
#include <inttypes.h>

static int check_limits(const struct runs *all, struct problem *p)
{
    if (all->closing)
        return problem_set(p, -ESHUTDOWN, PROBLEM_CONFLICT, "profd is stopping");
    if (runs_count(all) < (unsigned)all->rooms.settings->runs_max)
        return 0;
    problem_set(p, -EAGAIN, PROBLEM_TOO_MANY, "%u runs are under way, as many as may be", runs_count(all));
    problem_remedy(p, "[load] runs= in profd.conf; profctl list-runs shows them.");
    return -EAGAIN;
}

/* One set goes with the order: a worker's own would be shown to the others. */
static int find_credentials(const struct runs *all, const struct fleet *fleet, const struct run_plan *plan,
                            const struct credentials **ret, struct problem *p)
{
    const struct fleet_settings *settings = all->rooms.fleet_settings;
    const json_t *target;
    size_t i;

    *ret = settings_credentials(settings, fleet->name, plan->first);
    json_array_foreach(plan->targets, i, target) {
        const char *url = json_get_str(target, "url");
        if (settings_credentials(settings, fleet->name, url) == *ret)
            continue;
        problem_set(p, -EINVAL, PROBLEM_UNSUPPORTED, "%s and %s have credentials of their own in profd.conf",
                    plan->first, url);
        problem_remedy(p, "Send through the fleet's router, or to one of them at a time.");
        return -EINVAL;
    }
    return 0;
}

int run_check(struct runs *all, const struct start_request *request, const struct fleet *fleet,
              const size_t *chosen, size_t n_chosen, struct problem *p)
{
    _cleanup_(workload_done) struct workload workload = {0};
    _cleanup_(run_plan_done) struct run_plan plan = {0};
    const struct credentials *credentials;

    int r = check_limits(all, p);
    if (r == 0)
        r = workload_parse(request->workload, &workload, p);
    if (r == 0)
        r = run_plan_make(fleet, request, chosen, n_chosen, &plan, p);
    return r == 0 ? find_credentials(all, fleet, &plan, &credentials, p) : r;
}

/* -- The order ---------------------------------------------------------------------------------------- */

static json_t *network_to_json(const struct network_policy *policy)
{
    _cleanup_(freep) char *allow = network_format(policy);
    json_t *j = json_object();

    json_put_str(j, "allow", allow);
    return j;
}

static json_t *credentials_to_json(const struct credentials *c)
{
    json_t *j = json_object();

    if (!c)
        return j;
    json_put_str(j, "token_file", c->token_file);
    json_put_str(j, "ca_file", c->ca_file);
    json_put_str(j, "cert_file", c->cert_file);
    json_put_str(j, "key_file", c->key_file);
    return j;
}

static char *make_order(const struct runs *all, const struct start_request *request,
                        const struct run_plan *plan, const struct credentials *credentials)
{
    _cleanup_json_ order = json_object();

    json_object_set(order, "workload", request->workload);
    json_object_set(order, "targets", plan->targets);
    json_object_set(order, "warm", plan->warm);
    json_object_set(order, "workers", plan->workers);
    json_object_set_new(order, "network", network_to_json(all->rooms.network));
    json_object_set_new(order, "credentials", credentials_to_json(credentials));
    return json_dumps(order, JSON_COMPACT);
}

/* -- The row ------------------------------------------------------------------------------------------ */

static char *dump(json_t *take)
{
    char *text = json_dumps(take, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(take);
    return text;
}

static void fill_record(struct run_record *rec, const struct start_request *request,
                        const struct fleet *fleet, const struct run_plan *plan, const char *actor)
{
    rec->state = RUN_REQUESTED;
    rec->router = xstrdup(fleet->router);
    rec->dialect = xstrdup(fleet->dialect);
    rec->fleet = xstrdup(fleet->name);
    rec->model = xstrdup(json_get_str(request->workload, "model"));
    rec->workload = dump(workload_kept(request->workload));
    rec->targets = dump(json_incref(plan->targets));
    rec->labels = dump(json_incref(request->labels));
    rec->requested_at = wall_ns();
    rec->requested_by = xstrdup(actor);
}

struct run *run_create(struct runs *all, const struct start_request *request, const struct fleet *fleet,
                       const size_t *chosen, size_t n_chosen, const char *actor, int64_t session_id,
                       int *ret_err)
{
    _cleanup_(workload_done) struct workload workload = {0};
    _cleanup_(run_plan_done) struct run_plan plan = {0};
    const struct credentials *credentials;
    struct catalog *c = all->rooms.catalog;

    if (workload_parse(request->workload, &workload, NULL) < 0 ||
        run_plan_make(fleet, request, chosen, n_chosen, &plan, NULL) < 0 ||
        find_credentials(all, fleet, &plan, &credentials, NULL) < 0) {
        *ret_err = -EINVAL;
        return NULL;
    }
    struct run *run = run_alloc(all);
    fill_record(&run->record, request, fleet, &plan, actor);
    run->record.session_id = session_id;
    run->drain_ns = workload.drain_ns;
    run->order = make_order(all, request, &plan, credentials);
    *ret_err = catalog_saw_fleet(c, fleet);
    if (*ret_err >= 0)
        *ret_err = catalog_add_run(c, &run->record);
    if (*ret_err >= 0)
        *ret_err =
            catalog_add_run_event(c, actor, run->record.run_id, session_id, "requested: %zu workers of %s",
                                  n_chosen, fleet->router ? fleet->router : "a list");
    if (*ret_err < 0) {
        run_free(run);
        return NULL;
    }
    return run;
}
