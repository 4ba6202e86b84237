/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor: what a discovery found, what the disks say, and how profd itself is. */
#include "base/alloc.h"
#include "base/units.h"
#include "daemon/api/api_internal.h"
#include "daemon/api/ready.h"
#include "daemon/catalog/catalog.h"
#include "daemon/fleet/doctor.h"

struct examination {
    struct api *api;
    struct http_request *request; /* NULL: the client left */
    struct fleet *fleet;
    struct place_spaces spaces;
};

/* Nothing where one user has all of it. */
static char *describe_shares(const struct store *s)
{
    _cleanup_(store_users_done) struct store_users users = {0};
    char share[UNIT_TEXT_MAX];

    if (store_list_users(s, &users) < 0 || users.n < 2)
        return xstrdup("");
    return xasprintf("; each of %zu users has a share of %s", users.n, format_size(share, users.share));
}

static void check_profd(struct api *api, struct checks *c)
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
    if (store_usage(api->modules.store, &u) < 0)
        return;
    shares = describe_shares(api->modules.store);
    bool is_short = u.free < u.keep_free;
    checks_add(c, is_short ? CHECK_WARN : CHECK_OK, NULL,
               is_short
                   ? "The oldest traces are removed for new ones. Free space, or lower [store] keep_free=."
                   : NULL,
               "the store %s holds %s of %s and has %s free%s", u.path, format_size(bytes, u.bytes),
               format_size(budget, u.max_use), format_size(space, u.free), shares);
}

static void reply_checks(struct http_request *r, struct checks *c)
{
    http_reply_json(r, 200, checks_to_json(c));
    checks_done(c);
}

static void on_client_left(struct http_request *r, void *arg)
{
    ((struct examination *)arg)->request = NULL;
}

static void look_at_disks(void *arg)
{
    place_spaces_look(&((struct examination *)arg)->spaces);
}

static void on_looked(void *arg)
{
    struct examination *e = arg;
    struct checks checks = {0};

    if (e->request) {
        http_on_close(e->request, NULL, NULL);
        fleet_check(e->fleet, &e->spaces, &checks);
        check_profd(e->api, &checks);
        reply_checks(e->request, &checks);
    }
    place_spaces_done(&e->spaces);
    fleet_free(e->fleet);
    free(e);
}

static void on_fleet(struct api *api, struct http_request *r, struct fleet *fleet, const struct problem *p)
{
    struct checks checks = {0};

    if (!fleet && p->kind != PROBLEM_UPSTREAM && p->kind != PROBLEM_NO_WORKERS) {
        http_reply_problem(r, p);
        return;
    }
    if (!fleet) { /* that is what the doctor was asked */
        checks_add(&checks, CHECK_FAIL, NULL, p->remedy, "%s", p->what);
        check_profd(api, &checks);
        reply_checks(r, &checks);
        return;
    }
    struct examination *e = xcalloc(1, sizeof(*e));
    *e = (struct examination){.api = api, .request = r, .fleet = fleet};
    place_spaces_of(fleet, &e->spaces);
    http_on_close(r, on_client_left, e);
    offload_run(api->modules.offload, look_at_disks, on_looked, e);
}

void get_doctor(struct api *api, struct http_request *r, int64_t id)
{
    discover_for(api, r, on_fleet);
}
