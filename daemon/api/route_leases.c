/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases of this host's workers, for coordinators on other hosts (role peer). Bodies have a closed list of members
 * (daemon/hosts/lease_body.h); whatever belongs to another catalog or session is 410.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "daemon/api/handler.h"
#include "daemon/catalog/records.h"
#include "daemon/fleet/doctor.h"
#include "daemon/hosts/leases.h"
#include <inttypes.h>

/* -- Requests ------------------------------------------------------------------------------------------- */

/* False where the problem was replied. */
static bool lease_read_body(struct http_request *r, enum lease_route route, struct lease_body *ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ body = NULL;

    if (body_object(r, &body, &p) == 0 && lease_body_parse(route, body, ret, &p) == 0) {
        ret->sender = request_actor(r);
        return true;
    }
    http_reply_problem(r, &p);
    return false;
}

json_t *lease_holder_to_json(const struct lease_holder *h)
{
    json_t *j = json_object();

    json_put_str(j, "session", h->session);
    json_put_str(j, "host", h->host);
    if (h->until_at != RECORD_NONE)
        json_put_int(j, "until_at", h->until_at);
    return j;
}

static void lease_reply_problem(struct http_request *r, const struct lease_answer *a)
{
    _cleanup_json_ holder = a->holder ? lease_holder_to_json(a->holder) : NULL;
    _cleanup_json_ late = json_true();

    if (holder)
        reply_problem(r, 0, a->problem, "holder", holder);
    else
        reply_problem(r, 0, a->problem, a->is_late ? "late" : NULL, late);
}

/* Later: the client may have left. False: nothing is to be replied, or the problem was. */
static bool lease_later_end(void *arg, const struct lease_answer *a, struct later_reply *ret)
{
    if (!later_reply_end(arg, ret))
        return false;
    if (a->problem)
        lease_reply_problem(ret->request, a);
    return !a->problem;
}

static void lease_call_on_close(void *work)
{
    if (work)
        lease_call_cancel(work);
}

static json_t *lease_state_json(const struct lease_answer *a)
{
    json_t *j = json_object();
    json_put_str(j, "state", a->state);
    return j;
}

/* -- The doctor ----------------------------------------------------------------------------------------- */

void doctor_check_leases(struct api *api, struct checks *c)
{
    const struct lease_metrics *m = leases_metrics(api->modules.leases);
    uint64_t counts[_LEASE_STATE_MAX], n = 0;

    leases_count(api->modules.leases, counts);
    for (int s = 0; s < LEASE_OVER; s++)
        n += counts[s];
    if (n > 0)
        checks_add(c, CHECK_OK, NULL, NULL,
                   "sessions of other hosts have %" PRIu64 " lease%s of workers of this host", n,
                   n == 1 ? "" : "s");
    if (m->expired > 0)
        checks_add(c, CHECK_WARN, NULL,
                   "profctl list-hosts on the host of the coordinator shows whether it reaches this one; its "
                   "sessions say which "
                   "workers they lost.",
                   "%" PRIu64 " of %" PRIu64
                   " leases to other hosts expired before a start since profd began: their "
                   "coordinators did not renew them",
                   m->expired, m->granted);
    if (m->late > 0)
        checks_add(c, CHECK_WARN, NULL,
                   "profctl list-hosts on the host of the coordinator shows the offsets of clocks and how "
                   "certain they are.",
                   "%" PRIu64
                   " start%s of other hosts came after the time they were for, and started nothing",
                   m->late, m->late == 1 ? "" : "s");
}

/* -- Grant ---------------------------------------------------------------------------------------------- */

static void lease_on_granted(const struct lease_answer *a, void *arg)
{
    struct later_reply m;

    if (!lease_later_end(arg, a, &m))
        return;
    _cleanup_(freep) char *boot = boot_id();
    json_t *j = lease_state_json(a);
    json_put_int(j, "lease", a->lease_id);
    json_put_int(j, "deadline_ns", a->left_ns);
    json_put_int(j, "mono_ns", mono_ns());
    json_put_str(j, "boot_id", boot);
    json_put_str(j, "catalog", catalog_uuid(m.api->modules.catalog));
    http_reply_json(m.request, a->is_new ? 201 : 200, j);
}

void grant_lease(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(lease_body_done) struct lease_body body = {0};

    if (!lease_read_body(r, LEASE_ROUTE_GRANT, &body))
        return;
    struct later_reply *later = later_reply_new(api, r, match);
    struct lease_call *call = leases_grant(api->modules.leases, &body, lease_on_granted, later);
    if (!call)
        return; /* replied */
    later->work = call;
    later->cancel = lease_call_on_close;
}

/* -- Steps ---------------------------------------------------------------------------------------------- */

static void lease_on_prepared(const struct lease_answer *a, void *arg)
{
    struct later_reply m;

    if (!lease_later_end(arg, a, &m))
        return;
    json_t *j = lease_state_json(a);
    if (a->session_id != RECORD_NONE)
        json_object_set_new(j, "session", json_sprintf("s%" PRId64, a->session_id));
    http_reply_json(m.request, a->is_new ? 202 : 200, j);
}

void prepare_lease(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(lease_body_done) struct lease_body body = {0};

    if (!lease_read_body(r, LEASE_ROUTE_PREPARE, &body))
        return;
    struct later_reply *later = later_reply_new(api, r, match);
    struct lease_call *call = leases_prepare(api->modules.leases, match->id, &body, lease_on_prepared, later);
    if (!call)
        return;
    later->work = call;
    later->cancel = lease_call_on_close;
}

/* With its deadline, which the limit of a session's length may have cut. */
static void lease_on_extended(const struct lease_answer *a, void *arg)
{
    struct later_reply m;

    if (!lease_later_end(arg, a, &m))
        return;
    json_t *j = lease_state_json(a);
    json_put_int(j, "deadline_ns", a->left_ns);
    http_reply_json(m.request, 200, j);
}

void start_lease(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(lease_body_done) struct lease_body body = {0};

    if (!lease_read_body(r, LEASE_ROUTE_START, &body))
        return;
    struct later_reply *later = later_reply_new(api, r, match);
    struct lease_call *call = leases_start(api->modules.leases, match->id, &body, lease_on_extended, later);
    if (!call)
        return;
    later->work = call;
    later->cancel = lease_call_on_close;
}

void renew_lease(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(lease_body_done) struct lease_body body = {0};

    if (lease_read_body(r, LEASE_ROUTE_RENEW, &body))
        leases_renew(api->modules.leases, match->id, &body, lease_on_extended,
                     later_reply_new(api, r, match));
}

static void lease_on_stopped(const struct lease_answer *a, void *arg)
{
    struct later_reply m;

    if (lease_later_end(arg, a, &m))
        http_reply_json(m.request, 202, lease_state_json(a));
}

static void lease_on_released(const struct lease_answer *a, void *arg)
{
    struct later_reply m;

    if (lease_later_end(arg, a, &m))
        http_reply_json(m.request, 200, lease_state_json(a));
}

void stop_lease(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(lease_body_done) struct lease_body body = {0};

    if (lease_read_body(r, LEASE_ROUTE_STOP, &body))
        leases_stop(api->modules.leases, match->id, &body, lease_on_stopped, later_reply_new(api, r, match));
}

void release_lease(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(lease_body_done) struct lease_body body = {0};

    if (lease_read_body(r, LEASE_ROUTE_RELEASE, &body))
        leases_stop(api->modules.leases, match->id, &body, lease_on_released, later_reply_new(api, r, match));
}

/* -- Reading -------------------------------------------------------------------------------------------- */

/* The UUID of its session; NULL where the problem was replied. */
static const char *lease_query_session(struct http_request *r)
{
    const char *session = http_query_get(r, "session");

    if (uuid_is(session))
        return session;
    reply_refused(r, PROBLEM_BAD_REQUEST, NULL, "session= must be the UUID of the lease's session");
    return NULL;
}

void find_lease(struct api *api, struct http_request *r, const struct route_match *match)
{
    const char *session = lease_query_session(r), *state;
    int64_t lease_id;

    if (!session)
        return; /* the request has its answer, and is gone */
    _cleanup_(freep) char *sender = request_actor(r);
    int err = leases_find(api->modules.leases, session, sender, &lease_id, &state);
    if (err < 0) {
        reply_error(api, r, err, "read the lease");
        return;
    }
    json_t *j = json_object();
    if (lease_id > 0)
        json_put_int(j, "lease", lease_id);
    json_put_str(j, "state", state ? state : "none");
    json_put_str(j, "catalog", catalog_uuid(api->modules.catalog));
    http_reply_json(r, 200, j);
}

static void lease_on_poll(json_t *take_answer, const struct problem *p, void *arg)
{
    struct later_reply m;

    if (!later_reply_end(arg, &m))
        json_decref(take_answer);
    else if (p)
        http_reply_problem(m.request, p);
    else
        http_reply_json(m.request, 200, take_answer);
}

static void lease_poll_on_close(void *work)
{
    lease_poll_cancel(work);
}

void poll_lease(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    const char *session = lease_query_session(r);
    int64_t after = 0, wait_s = 0;

    if (!session)
        return;
    _cleanup_(freep) char *sender = request_actor(r);
    int err = query_number(r, "after", 0, INT64_MAX, &after, &p);
    if (err == 0)
        err = query_number(r, "wait", 0, LEASE_POLL_WAIT_MAX / NS_PER_S, &wait_s, &p);
    if (err < 0) {
        http_reply_problem(r, &p);
        return;
    }
    struct later_reply *later = later_reply_new(api, r, match);
    later->work = leases_poll(api->modules.leases, match->id, session, sender, after, wait_s * NS_PER_S,
                              lease_on_poll, later);
    later->cancel = lease_poll_on_close;
}
