/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new lease: its workers are looked for on this host, must be free, and the row with its number is on disk before the
 * number is answered. Also the calls that wait for an answer of any kind.
 */
#include "daemon/hosts/lease_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/fleet/process.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/fleet/router.h"
#include <errno.h>
#include <inttypes.h>

/* Which of the workers are on this host, looked up on a thread. */
struct lease_search {
    struct lease_call *call; /* NULL: its client left */
    struct fleet *named;
    struct inspection *inspection;
};

/* -- Calls that wait ------------------------------------------------------------------------------------ */

struct lease_call *lease_call_new(struct leases *l, enum lease_wait wait, int64_t lease_id, lease_done done,
                                  void *arg)
{
    struct lease_call *call = xcalloc(1, sizeof(*call));

    *call = (struct lease_call){.all = l, .wait = wait, .lease_id = lease_id, .done = done, .arg = arg};
    TAILQ_INSERT_TAIL(&l->calls, call, next);
    return call;
}

void lease_call_free(struct lease_call *call)
{
    TAILQ_REMOVE(&call->all->calls, call, next);
    if (call->search)
        call->search->call = NULL;
    if (call->discovery)
        discovery_cancel(call->discovery);
    lease_body_done(&call->body);
    free(call);
}

void lease_call_cancel(struct lease_call *call)
{
    lease_call_free(call);
}

/* Until its deadline; the limit of its session may be earlier. */
static int64_t lease_left_ns(const struct lease *lease)
{
    const struct session *s = lease ? lease_session(lease) : NULL;
    int64_t deadline = lease ? lease->record.deadline_boot_ns : 0;

    if (s && s->record.hard_stop_boot_ns != RECORD_NONE)
        deadline = MIN(deadline, s->record.hard_stop_boot_ns);
    return MAX(deadline - boot_ns(), INT64_C(0));
}

void lease_answer_now(const struct lease *lease, int64_t lease_id, enum lease_state state,
                      const struct problem *p, lease_done done, void *arg)
{
    const struct lease_answer answer = {.lease_id = lease_id,
                                        .state = lease_state_name(state),
                                        .left_ns = lease_left_ns(lease),
                                        .session_id = lease ? lease->record.session_id : RECORD_NONE,
                                        .problem = p};

    done(&answer, arg);
}

void lease_call_end(struct lease_call *call, const struct lease *lease, const struct problem *p)
{
    const struct lease_answer answer = {.lease_id = lease ? lease->record.lease_id : call->lease_id,
                                        .state = lease ? lease_state_name(lease_state_now(lease))
                                                       : lease_state_name(LEASE_RELEASED),
                                        .is_new = call->is_new,
                                        .left_ns = lease_left_ns(lease),
                                        .session_id = lease ? lease->record.session_id : RECORD_NONE,
                                        .problem = p};
    lease_done done = call->done;
    void *arg = call->arg;

    lease_call_free(call);
    done(&answer, arg);
}

void lease_calls_end(struct leases *l, enum lease_wait wait, int64_t lease_id, const struct lease *lease,
                     const struct problem *p)
{
    struct lease_call *call, *next;

    for (call = TAILQ_FIRST(&l->calls); call; call = next) {
        next = TAILQ_NEXT(call, next);
        if (call->wait == wait && call->lease_id == lease_id)
            lease_call_end(call, lease, p);
    }
}

static void lease_call_refuse(struct lease_call *call, const struct problem *p,
                              const struct lease_holder *holder)
{
    const struct lease_answer answer = {.problem = p, .holder = holder, .session_id = RECORD_NONE};
    lease_done done = call->done;
    void *arg = call->arg;

    call->all->metrics.refused_busy += holder != NULL;
    lease_call_free(call);
    done(&answer, arg);
}

/* -- A session that asks again -------------------------------------------------------------------------- */

static bool lease_is_of(const struct lease *lease, const struct lease_body *b)
{
    size_t n_found = 0;

    for (size_t i = 0; i < b->n_workers; i++)
        for (size_t k = 0; k < lease->n_urls; k++)
            n_found += streq(b->workers[i].url, lease->urls[k]);
    return n_found == b->n_workers && n_found == lease->n_urls;
}

/*
 * Whether the session has a lease already: true where the call is answered by that, or waits for it. A session whose lease
 * was given back before anything was prepared may have another one; one that recorded here may not.
 */
static bool lease_answer_again(struct lease_call *call)
{
    struct leases *l = call->all;
    const struct lease *lease = lease_by_session(l, call->body.session);
    _cleanup_(problem_done) struct problem p = {0};
    struct lease_record r;

    if (lease && !streq(lease->record.granted_to, call->body.sender)) {
        problem_set(&p, -EINVAL, PROBLEM_CONFLICT, "another coordinator has a lease of that session");
        lease_call_refuse(call, &p, NULL);
    } else if (lease && !lease_is_of(lease, &call->body)) {
        problem_set(&p, -EINVAL, PROBLEM_CONFLICT, "the session has lease %" PRId64 " with other workers",
                    lease->record.lease_id);
        problem_remedy(&p, "Release that one first.");
        lease_call_refuse(call, &p, NULL);
    } else if (lease && lease->committed) {
        lease_call_end(call, lease, NULL);
    } else if (lease) {
        call->wait = LEASE_WAITS_COMMIT;
        call->lease_id = lease->record.lease_id;
    } else {
        int err = catalog_find_lease(l->modules.catalog, call->body.session, &r);
        bool recorded = err == 0 && r.session_id != RECORD_NONE;
        int state = err == 0 ? lease_state_from_stored(r.state) : -1;
        if (err == 0)
            lease_record_done(&r);
        if (!recorded)
            return false;
        lease_problem(LEASE_REPLY_GONE, state >= LEASE_OVER ? (enum lease_state)state : LEASE_OVER,
                      LEASE_ASKED_AGAIN, &p);
        lease_call_refuse(call, &p, NULL);
    }
    return true;
}

/* -- A new one ------------------------------------------------------------------------------------------ */

/* Leases that have no session yet count as sessions to come. */
static int leases_check_limits(const struct leases *l, struct problem *p)
{
    const struct job_request nothing = {.role = -1};
    struct jobs *jobs = sessions_jobs(l->modules.sessions);
    const struct lease *lease;
    unsigned n = jobs_count(jobs);

    int r = job_check_limits(jobs, &nothing, p);
    TAILQ_FOREACH(lease, &l->list, next)
        n += lease->record.session_id == RECORD_NONE;
    if (r == 0 && n >= l->modules.settings->sessions_max) {
        r = problem_set(p, -EAGAIN, PROBLEM_TOO_MANY,
                        "%u sessions and leases are in progress, which is the maximum", n);
        problem_remedy(p, "[limits] sessions= in profd.conf of this host sets the maximum.");
    }
    return r;
}

static const struct worker *fleet_find_worker(const struct fleet *fleet, const char *url)
{
    for (size_t i = 0; i < fleet->n_workers; i++)
        if (streq(fleet->workers[i].url, url) || streq(fleet->workers[i].listed_url, url))
            return &fleet->workers[i];
    return NULL;
}

static int lease_not_here(const char *url, const char *reason, struct problem *p)
{
    problem_set(p, -EINVAL, PROBLEM_NO_WORKERS, "%s is not a worker of this host%s%s", url,
                reason ? ": " : "", reason ? reason : "");
    problem_remedy(p, "profctl list-workers --worker %s on this host shows what is known of it.", url);
    return -EINVAL;
}

/* A coordinator gets what runs on this host, and nothing that this host could merely reach. */
static int lease_check_local(const struct lease_body *b, const struct fleet *fleet, struct problem *p)
{
    for (size_t i = 0; i < b->n_workers; i++) {
        const struct worker *w = fleet_find_worker(fleet, b->workers[i].url);
        if (!w || !w->local)
            return lease_not_here(b->workers[i].url, w ? w->reason : NULL, p);
    }
    return 0;
}

static void lease_on_committed(int err, void *arg)
{
    struct leases *l = arg;
    struct lease *lease, *next;
    _cleanup_(problem_done) struct problem p = {0};

    if (err < 0)
        catalog_problem(l->modules.catalog, err, &p, "the catalog cannot take the lease");
    for (lease = TAILQ_FIRST(&l->list); lease; lease = next) {
        next = TAILQ_NEXT(lease, next);
        if (lease->committed)
            continue;
        lease->committed = true;
        l->metrics.granted += err == 0;
        lease_calls_end(l, LEASE_WAITS_COMMIT, lease->record.lease_id, lease, err < 0 ? &p : NULL);
        if (err < 0)
            lease_free(lease);
    }
    leases_arm(l);
}

static char *lease_urls_text(const struct lease_body *b)
{
    _cleanup_json_ urls = json_array();

    for (size_t i = 0; i < b->n_workers; i++)
        json_array_append_new(urls, json_string(b->workers[i].url));
    return json_dumps(urls, JSON_COMPACT);
}

/* Its row is part of the batch that is open; the number is answered after the commit with fsync. */
static int lease_add(struct lease_call *call, struct fleet *take_fleet)
{
    struct leases *l = call->all;
    const struct lease_body *b = &call->body;
    struct lease *lease = lease_alloc(l);
    struct lease_record *r = &lease->record;

    lease->fleet = take_fleet;
    lease->urls = xcalloc(b->n_workers, sizeof(*lease->urls));
    for (size_t i = 0; i < b->n_workers; i++)
        lease->urls[lease->n_urls++] = xstrdup(b->workers[i].url);
    r->session_uuid = xstrdup(b->session);
    r->coordinator = xstrdup(b->coordinator);
    r->coordinator_name = xstrdup(b->coordinator_name);
    r->actor = xstrdup(b->actor);
    r->granted_to = xstrdup(b->sender);
    r->state = xstrdup(lease_state_stored(LEASE_GRANTED));
    r->workers = lease_urls_text(b);
    r->granted_at = wall_ns();
    lease->granted_boot_ns = boot_ns();
    r->deadline_boot_ns = lease->granted_boot_ns + MIN(b->lease_ns, lease_latest_ns(lease, 0));
    r->boot_id = xstrdup(l->boot_id);
    r->session_id = RECORD_NONE;
    int err = catalog_add_lease(l->modules.catalog, r);
    if (err == 0)
        err = catalog_add_event(l->modules.catalog, "lease-granted", b->sender, RECORD_NONE, RECORD_NONE,
                                RECORD_NONE, "lease %" PRId64 " of %zu workers, to %s on %s", r->lease_id,
                                lease->n_urls, r->actor, r->coordinator_name);
    if (err < 0) {
        lease_free(lease);
        return err;
    }
    call->wait = LEASE_WAITS_COMMIT;
    call->lease_id = r->lease_id;
    call->is_new = true;
    catalog_then(l->modules.catalog, true, lease_on_committed, l);
    return 0;
}

static void lease_on_fleet(struct fleet *fleet, const struct problem *problem, void *arg)
{
    _cleanup_(fleet_freep) struct fleet *owned = fleet;
    struct lease_call *call = arg;
    struct leases *l = call->all;
    struct lease_holder holder;
    _cleanup_(problem_done) struct problem p = {0};

    call->discovery = NULL;
    if (!fleet) {
        lease_call_refuse(call, problem, NULL);
        return;
    }
    /* The session may have asked twice, and others may have been faster meanwhile. */
    if (lease_answer_again(call))
        return;
    const struct worker *held = leases_find_held(l, fleet, &holder);
    if (lease_check_local(&call->body, fleet, &p) < 0 || leases_check_limits(l, &p) < 0) {
        lease_call_refuse(call, &p, NULL);
    } else if (held) {
        problem_set(&p, -EBUSY, PROBLEM_BUSY, "%s is held by session %s of %s", held->url, holder.session,
                    holder.host);
        problem_remedy(&p, "Stop that session, or wait for its end: --queue.");
        lease_call_refuse(call, &p, &holder);
    } else {
        int err = lease_add(call, TAKE_PTR(owned));
        if (err < 0) {
            catalog_problem(l->modules.catalog, err, &p, "the catalog cannot take the lease");
            lease_call_refuse(call, &p, NULL);
        }
    }
}

/* -- The search, before anything is asked of a worker: a peer cannot have profd call other servers -- */

static void lease_search_free(struct lease_search *search)
{
    fleet_free(search->named);
    inspection_free(search->inspection);
    free(search);
}

static void lease_search_run(void *arg)
{
    struct lease_search *search = arg;
    inspection_search(search->inspection);
}

/* -EINVAL with a problem where one of them is not here. */
static int lease_search_check(const struct lease_search *search, struct problem *p)
{
    for (size_t i = 0; i < search->named->n_workers; i++)
        if (!inspection_is_here(search->inspection, i))
            return lease_not_here(search->named->workers[i].url, NULL, p);
    return 0;
}

static void lease_search_on_done(void *arg)
{
    struct lease_search *search = arg;
    struct lease_call *call = search->call;
    struct fleet_query q = {.here_only = true};
    _cleanup_(problem_done) struct problem p = {0};

    if (!call) {
        lease_search_free(search);
        return;
    }
    call->search = NULL;
    if (lease_search_check(search, &p) < 0) {
        lease_call_refuse(call, &p, NULL);
    } else {
        q.workers = xcalloc(call->body.n_workers, sizeof(*q.workers));
        for (size_t i = 0; i < search->named->n_workers; i++)
            q.workers[q.n_workers++] = xstrdup(search->named->workers[i].url);
        for (size_t i = 0; i < call->body.n_workers; i++)
            if (ranks_url_is(call->body.workers[i].url))
                q.workers[q.n_workers++] = xstrdup(call->body.workers[i].url);
        call->discovery = fleet_discover(call->all->modules.finder, &q, lease_on_fleet, call);
        fleet_query_done(&q);
    }
    lease_search_free(search);
}

static int lease_search_begin(struct lease_call *call, struct problem *p)
{
    struct lease_search *search = xcalloc(1, sizeof(*search));
    const char *reason = NULL;
    struct worker *w;

    *search = (struct lease_search){.call = call, .named = xcalloc(1, sizeof(*search->named))};
    for (size_t i = 0; i < call->body.n_workers; i++)
        if (!ranks_url_is(call->body.workers[i].url) &&
            fleet_add_url(search->named, call->body.workers[i].url, &w, &reason) < 0) {
            problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s: %s", call->body.workers[i].url, reason);
            lease_search_free(search);
            return -EINVAL;
        }
    search->inspection = inspection_new(search->named);
    call->search = search;
    offload_run(call->all->modules.offload, lease_search_run, lease_search_on_done, search);
    return 0;
}

static void lease_body_take_grant(struct lease_body *to, const struct lease_body *from)
{
    to->sender = xstrdup(from->sender);
    to->session = xstrdup(from->session);
    to->coordinator = xstrdup(from->coordinator);
    to->coordinator_name = xstrdup(from->coordinator_name);
    to->actor = xstrdup(from->actor);
    to->lease_ns = from->lease_ns;
    to->workers = xcalloc(from->n_workers, sizeof(*to->workers));
    for (size_t i = 0; i < from->n_workers; i++)
        to->workers[to->n_workers++].url = xstrdup(from->workers[i].url);
}

struct lease_call *leases_grant(struct leases *l, const struct lease_body *b, lease_done done, void *arg)
{
    struct lease_call *call = lease_call_new(l, LEASE_WAITS_FLEET, 0, done, arg);
    _cleanup_(problem_done) struct problem p = {0};

    lease_body_take_grant(&call->body, b);
    if (lease_by_session(l, b->session)) {
        const struct lease *lease = lease_by_session(l, b->session);
        bool waits = !lease->committed && lease_is_of(lease, b) && streq(lease->record.granted_to, b->sender);
        lease_answer_again(call);
        return waits ? call : NULL;
    }
    if (leases_check_limits(l, &p) < 0 || lease_search_begin(call, &p) < 0) {
        lease_call_refuse(call, &p, NULL);
        return NULL;
    }
    return call;
}
