/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet: its workers, the routers of past discoveries, and what the doctor finds wrong with them. */
#include "base/alloc.h"
#include "base/units.h"
#include "base/uuid.h"
#include "daemon/api/handler.h"
#include "daemon/catalog/catalog.h"
#include "daemon/catalog/records.h"
#include "daemon/fleet/doctor.h"
#include "daemon/fleet/doctor_torch.h"
#include "daemon/hosts/leases.h"
#include "daemon/peers/survey.h"
#include "daemon/session/remote.h"
#include <inttypes.h>

/* By sessions and leases of this host. What another host reported of its worker remains where no session here has it. */
static void workers_put_holders(struct api *api, struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->n_workers; i++) {
        struct worker *w = &fleet->workers[i];
        const struct session *s = sessions_holder(api->modules.sessions, w, NULL);
        struct lease_holder holder;
        if (s && !session_is_leased(s)) {
            free(w->held_by);
            w->held_by = xasprintf("s%" PRId64, s->record.session_id);
        } else if (leases_find_holder(api->modules.leases, w, &holder)) {
            free(w->held_by);
            w->held_by = xasprintf("session %.*s of %s", UUID_PREFIX_LENGTH, holder.session, holder.host);
        }
    }
}

static void workers_on_fleet(struct api *api, struct http_request *r, struct fleet *fleet,
                             const struct problem *p)
{
    if (!fleet) {
        http_reply_problem(r, p);
        return;
    }
    /* The listing is the reply even where the catalog cannot be written, which is reported elsewhere. */
    catalog_saw_fleet(api->modules.catalog, fleet);
    workers_put_holders(api, fleet);
    http_reply_json(r, 200, fleet_to_json(fleet));
    fleet_free(fleet);
}

void get_workers(struct api *api, struct http_request *r, const struct route_match *match)
{
    discover_for(api, r, workers_on_fleet, NULL);
}

void get_routers(struct api *api, struct http_request *r, const struct route_match *match)
{
    json_t *routers;

    int err = catalog_routers_json(api->modules.catalog, &routers);
    if (err < 0)
        reply_error(api, r, err, "list the routers");
    else
        reply_list(r, "routers", routers);
}

/* -- The doctor --------------------------------------------------------------------------------------- */

struct doctor_reply {
    struct api *api;
    struct http_request *request; /* NULL: the client left */
    struct fleet *fleet;          /* NULL: there is none, for the reason in checks */
    struct checks checks;
    struct directory_spaces spaces;
    struct torch_survey torch;
    struct peers_survey *hosts; /* NULL: not asked, or answered */
};

/* Empty where one user holds all traces. */
static char *doctor_describe_shares(const struct store *s)
{
    _cleanup_(store_users_done) struct store_users users = {0};
    char share[UNIT_TEXT_MAX];

    if (store_list_users(s, &users) < 0 || users.n < 2)
        return xstrdup("");
    return xasprintf("; each of %zu users has a share of %s", users.n, format_size(share, users.share));
}

static void doctor_check_profd(struct api *api, struct checks *c)
{
    const struct catalog *catalog = api->modules.catalog;
    _cleanup_(problem_done) struct problem broken = {0};
    _cleanup_(problem_done) struct problem full = {0};
    struct store_usage u;
    char bytes[UNIT_TEXT_MAX], budget[UNIT_TEXT_MAX], space[UNIT_TEXT_MAX];
    _cleanup_(freep) char *shares = NULL;

    if (catalog_is_broken(catalog)) {
        catalog_problem(catalog, catalog_error(catalog), &broken, "the catalog %s cannot be written",
                        catalog_path(catalog));
        checks_add(c, CHECK_FAIL, NULL, broken.remedy, "%s", broken.what);
    }
    if (ready_check_store(api, &full) < 0)
        checks_add(c, CHECK_FAIL, NULL, full.remedy, "%s", full.what);
    doctor_check_leases(api, c);
    if (store_usage(api->modules.store, &u) < 0)
        return;
    shares = doctor_describe_shares(api->modules.store);
    bool is_short = u.free < u.keep_free;
    checks_add(c, is_short ? CHECK_WARN : CHECK_OK, NULL,
               is_short
                   ? "The oldest traces are removed for new ones. Free space, or lower [store] keep_free=."
                   : NULL,
               "the store %s holds %s of %s and has %s free%s", u.path, format_size(bytes, u.bytes),
               format_size(budget, u.max_use), format_size(space, u.free), shares);
}

static void doctor_free(struct doctor_reply *e)
{
    checks_done(&e->checks);
    directory_spaces_done(&e->spaces);
    torch_survey_done(&e->torch);
    if (e->fleet)
        fleet_free(e->fleet);
    free(e);
}

static void doctor_on_close(struct http_request *r, void *arg)
{
    struct doctor_reply *e = arg;

    e->request = NULL;
    if (!e->hosts)
        return; /* a thread or another module has it */
    peers_survey_cancel(e->hosts);
    doctor_free(e);
}

static void doctor_look(void *arg)
{
    struct doctor_reply *e = arg;

    directory_spaces_look(&e->spaces);
    torch_survey_look(&e->torch);
}

static void doctor_end(void *arg)
{
    struct doctor_reply *e = arg;

    if (e->request) {
        http_on_close(e->request, NULL, NULL);
        http_reply_json(e->request, 200, checks_to_json(&e->checks));
    }
    doctor_free(e);
}

static void doctor_on_surveyed(void *arg)
{
    struct doctor_reply *e = arg;

    e->hosts = NULL;
    if (e->fleet)
        fleet_check(e->fleet, &e->spaces, &e->checks);
    torch_check(&e->torch, e->api->modules.kineto, e->fleet, &e->checks);
    hosts_check(e->api, &e->checks);
    doctor_check_profd(e->api, &e->checks);
    doctor_check_mirror(e->api, &e->checks);
    archive_check_add(e->api, &e->checks, doctor_end, e);
}

static void doctor_on_looked(void *arg)
{
    struct doctor_reply *e = arg;

    if (e->request)
        e->hosts = peers_survey_start(e->api->modules.peers, doctor_on_surveyed, e);
    else
        doctor_free(e);
}

/* take_fleet: NULL: there is none. */
static struct doctor_reply *doctor_new(struct api *api, struct http_request *r, struct fleet *take_fleet)
{
    struct doctor_reply *e = xcalloc(1, sizeof(*e));

    *e = (struct doctor_reply){.api = api, .request = r, .fleet = take_fleet};
    return e;
}

static void doctor_begin(struct doctor_reply *e)
{
    http_on_close(e->request, doctor_on_close, e);
    offload_run(e->api->modules.offload, doctor_look, doctor_on_looked, e);
}

static void doctor_on_fleet(struct api *api, struct http_request *r, struct fleet *fleet,
                            const struct problem *p)
{
    if (!fleet && p->kind != PROBLEM_UPSTREAM && p->kind != PROBLEM_NO_WORKERS) {
        http_reply_problem(r, p);
        return;
    }
    struct doctor_reply *e = doctor_new(api, r, fleet);
    if (fleet)
        directory_spaces_of(fleet, &e->spaces);
    else /* which is a finding of the doctor */
        checks_add(&e->checks, CHECK_FAIL, NULL, p->remedy, "%s", p->what);
    doctor_begin(e);
}

/* All but the workers can be checked. */
static void doctor_on_unnamed(struct api *api, struct http_request *r, const struct problem *p)
{
    struct doctor_reply *e = doctor_new(api, r, NULL);

    checks_add(&e->checks, CHECK_UNKNOWN, NULL, p->remedy,
               "workers, their profilers and their directories were not checked: %s", p->what);
    doctor_begin(e);
}

void get_doctor(struct api *api, struct http_request *r, const struct route_match *match)
{
    discover_for(api, r, doctor_on_fleet, doctor_on_unnamed);
}
