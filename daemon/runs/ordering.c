/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run without a session: discover the fleet, choose the workers, write the row, answer, begin. Until the
 * row is committed the requester may leave and nothing remains.
 */
#include "base/alloc.h"
#include "daemon/runs/internal.h"
#include <errno.h>

struct run_order {
    struct runs *all;
    struct start_request request;
    char *actor;
    void (*done)(int64_t run_id, const struct problem *p, void *arg);
    void *arg;
    struct discovery *discovery;
    struct run *run;
    bool cancelled; /* too late to forget it: the row is on its way to the disk */
};

static void order_free(struct run_order *o)
{
    if (o->discovery)
        discovery_cancel(o->discovery);
    start_request_done(&o->request);
    free(o->actor);
    free(o);
}

static void refuse(struct run_order *o, const struct problem *p)
{
    if (!o->cancelled)
        o->done(0, p, o->arg);
    order_free(o);
}

static void refuse_for_storage(struct run_order *o, int err)
{
    _cleanup_(problem_done) struct problem p = {0};

    catalog_problem(o->all->rooms.catalog, err, &p, "the catalog cannot take a run");
    refuse(o, &p);
}

static void on_created(int err, void *arg)
{
    struct run_order *o = arg;
    struct run *run = o->run;

    if (err < 0) {
        run_free(run);
        refuse_for_storage(o, err);
        return;
    }
    if (o->cancelled) {
        run_stop(run, "its requester, who left");
    } else {
        o->done(run->record.run_id, NULL, o->arg);
        run_begin(run);
    }
    order_free(o);
}

static void on_fleet(struct fleet *take_fleet, const struct problem *problem, void *arg)
{
    struct run_order *o = arg;
    _cleanup_(fleet_freep) struct fleet *fleet = take_fleet;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) size_t *chosen = NULL;
    size_t n_chosen;

    o->discovery = NULL;
    if (!fleet) {
        refuse(o, problem);
        return;
    }
    if (run_choose(fleet, &o->request, &chosen, &n_chosen, &p) < 0 ||
        run_check(o->all, &o->request, fleet, chosen, n_chosen, &p) < 0) {
        refuse(o, &p);
        return;
    }
    int r = catalog_probe(o->all->rooms.catalog);
    if (r >= 0)
        o->run = run_create(o->all, &o->request, fleet, chosen, n_chosen, o->actor, RECORD_NONE, &r);
    if (r < 0)
        refuse_for_storage(o, r);
    else
        catalog_then(o->all->rooms.catalog, false, on_created, o);
}

struct run_order *runs_start(struct runs *all, struct start_request *take_request, const char *actor,
                             void (*done)(int64_t run_id, const struct problem *p, void *arg), void *arg)
{
    struct run_order *o = xcalloc(1, sizeof(*o));

    *o = (struct run_order){
        .all = all, .request = *take_request, .actor = xstrdup(actor), .done = done, .arg = arg};
    *take_request = (struct start_request){0};
    o->discovery = fleet_discover(all->rooms.finder, &o->request.source, on_fleet, o);
    return o;
}

void run_order_cancel(struct run_order *o)
{
    if (o->discovery)
        order_free(o);
    else
        o->cancelled = true;
}
