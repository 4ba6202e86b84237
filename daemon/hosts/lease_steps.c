/* SPDX-License-Identifier: Apache-2.0 */
/* What a coordinator does with a lease: prepare, start, renew, stop and release, each idempotent. */
#include "daemon/hosts/lease_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <inttypes.h>

static bool lease_names(const struct lease *lease, const char *url)
{
    for (size_t i = 0; i < lease->n_urls; i++)
        if (streq(lease->urls[i], url))
            return true;
    return false;
}

/* Whether the workers of a request are of the lease. */
static int lease_check_workers(const struct lease *lease, const struct lease_body *b, struct problem *p)
{
    for (size_t i = 0; i < b->n_workers; i++)
        if (!lease_names(lease, b->workers[i].url))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s is not a worker of the lease",
                               b->workers[i].url);
    return 0;
}

/* The answer to an event that needs nothing to be done or refuses: NULL where it was given, else the lease. */
static struct lease *lease_answer_step(struct leases *l, int64_t lease_id, const struct lease_body *b,
                                       enum lease_event event, lease_done done, void *arg)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct lease_effect effect = {0};
    struct lease_found found;

    if (lease_find(l, lease_id, b->session, b->sender, &found, &p)) {
        lease_next(found.state, event, &effect);
        lease_problem(effect.reply, found.state, event, &p);
        if (effect.reply == LEASE_REPLY_OK && effect.action != LEASE_DO_NOTHING)
            return found.lease;
    }
    lease_answer_now(found.lease, lease_id, found.state, p.kind == PROBLEM_NONE ? NULL : &p, done, arg);
    return NULL;
}

static void lease_refuse(const struct lease *lease, const struct problem *p, lease_done done, void *arg)
{
    lease_answer_now(lease, lease->record.lease_id, lease_state_now(lease), p, done, arg);
}

/* -- Prepare -------------------------------------------------------------------------------------------- */

/* The lease is freed after the creation was cancelled, and with it arg. */
static void lease_on_created(const struct job_created *created, void *arg)
{
    struct lease *lease = arg;
    struct leases *l = lease->all;

    lease->creation = NULL;
    if (created->id > 0) {
        lease->record.session_id = created->id;
        lease_set_state(lease, lease_next(lease->state, LEASE_PREPARE, NULL));
    }
    lease_calls_end(l, LEASE_WAITS_CREATION, lease->record.lease_id, lease, created->problem);
}

static int lease_create_session(struct lease *lease, const struct lease_body *b, struct problem *p)
{
    _cleanup_(freep) struct lease_worker *workers = xcalloc(b->n_workers, sizeof(*workers));
    _cleanup_(freep) char *actor = lease_actor(lease);
    const struct lease_record *r = &lease->record;

    for (size_t i = 0; i < b->n_workers; i++)
        workers[i] = (struct lease_worker){.url = b->workers[i].url,
                                           .profile_id = b->workers[i].profile_id,
                                           .shares_dir = b->workers[i].shares_dir,
                                           .ranks = b->workers[i].ranks,
                                           .role = b->workers[i].role};
    const struct lease_start start = {.lease_id = r->lease_id,
                                      .session_uuid = r->session_uuid,
                                      .coordinator = r->coordinator,
                                      .coordinator_name = r->coordinator_name,
                                      .actor = actor,
                                      .deadline_boot_ns = r->deadline_boot_ns,
                                      .workers = workers,
                                      .n_workers = b->n_workers,
                                      .request = b->request};
    return session_create_leased(lease->all->modules.sessions, &start, lease_on_created, lease,
                                 &lease->creation, p);
}

struct lease_call *leases_prepare(struct leases *l, int64_t lease_id, const struct lease_body *b,
                                  lease_done done, void *arg)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct lease *lease = lease_answer_step(l, lease_id, b, LEASE_PREPARE, done, arg);

    if (!lease)
        return NULL;
    bool is_new = !lease->creation;
    if (is_new && (lease_check_workers(lease, b, &p) < 0 || lease_create_session(lease, b, &p) < 0)) {
        lease_refuse(lease, &p, done, arg);
        return NULL;
    }
    struct lease_call *call = lease_call_new(l, LEASE_WAITS_CREATION, lease_id, done, arg);
    call->is_new = is_new;
    return call;
}

/* -- Start ---------------------------------------------------------------------------------------------- */

static const struct lease_body_worker *lease_body_find(const struct lease_body *b, const char *url)
{
    for (size_t i = 0; i < b->n_workers; i++)
        if (streq(b->workers[i].url, url))
            return &b->workers[i];
    return NULL;
}

/* What the coordinator knows of the clocks and counted, and which workers it left out meanwhile. May end the session. */
static void lease_set_up_targets(struct session *s, const struct lease_body *b)
{
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        const struct lease_body_worker *w = lease_body_find(b, t->worker.url);
        if (b->has_clock) {
            t->record.clock_offset_ns = b->clock_offset_ns;
            t->record.clock_error_ns = b->clock_error_ns;
        }
        if (w && w->start_step > 0)
            target_set_start_step(t, w->start_step);
        if (w && w->output_dir && target_watch_dir(t, w->output_dir) < 0)
            target_peer_failed(t, "its coordinator named a directory that profd makes for no recording", NULL,
                               false);
        else if (!w)
            target_peer_failed(t, "its coordinator left it out of the start", NULL, false);
        else
            target_save(t);
    }
}

void lease_go(struct lease *lease)
{
    struct session *s = lease_session(lease);

    if (lease->start_mono_ns > 0 && s && s->armed)
        session_go_at(s, lease->start_mono_ns);
}

/* The row has the state "started" before the coordinator is answered: a later profd does not take it for one that waits. */
static void lease_on_start_saved(int err, void *arg)
{
    struct leases *l = arg;
    struct lease *lease, *next;
    _cleanup_(problem_done) struct problem p = {0};

    if (err < 0)
        catalog_problem(l->modules.catalog, err, &p, "the catalog cannot take the start");
    for (lease = TAILQ_FIRST(&l->list); lease; lease = next) {
        next = TAILQ_NEXT(lease, next);
        if (lease->wanted_mono_ns == 0)
            continue;
        const int64_t lease_id = lease->record.lease_id;
        if (err < 0)
            lease->state = lease_next(lease->state, LEASE_UNSAVED, NULL);
        else
            lease->start_mono_ns = lease->wanted_mono_ns;
        lease->wanted_mono_ns = 0;
        lease_calls_end(l, LEASE_WAITS_START, lease_id, lease, err < 0 ? &p : NULL);
        lease_go(lease);
    }
}

static enum lease_event lease_start_event(const struct lease *lease, int64_t at_mono_ns)
{
    int64_t known = lease->start_mono_ns > 0 ? lease->start_mono_ns : lease->wanted_mono_ns;

    if (known > 0)
        return known == at_mono_ns ? LEASE_START : LEASE_START_OTHER;
    return at_mono_ns <= mono_ns() ? LEASE_START_LATE : LEASE_START;
}

static int lease_check_start(const struct lease *lease, const struct lease_body *b, struct problem *p)
{
    const struct session *s = lease_session(lease);

    if (lease_check_workers(lease, b, p) < 0)
        return -EINVAL;
    if (b->at_mono_ns - mono_ns() > b->deadline_ns)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the start time is after the deadline");
    if (b->at_mono_ns - mono_ns() > lease_start_within_ns(lease)) {
        problem_remedy(p, "[timeouts] session= in profd.conf of this host sets how long a lease may wait.");
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "the start time is later than a lease of this host may wait for its start");
    }
    for (size_t i = 0; s && i < s->n_targets && !s->armed; i++)
        if (!lease_body_find(b, s->targets[i].worker.url))
            return problem_set(p, -EINVAL, PROBLEM_CONFLICT,
                               "workers can be left out once the session is armed");
    return 0;
}

/* Nothing is to be scheduled: why, or the same answer again. */
static void lease_answer_start(struct lease *lease, enum lease_event event, lease_done done, void *arg)
{
    _cleanup_(problem_done) struct problem p = {0};
    enum lease_state state = lease_state_now(lease);
    struct lease_effect effect;

    lease_next(state, event, &effect);
    lease_problem(effect.reply, state, event, &p);
    bool is_late = effect.reply == LEASE_REPLY_LATE;
    lease->all->metrics.late += is_late;
    const struct lease_answer answer = {.lease_id = lease->record.lease_id,
                                        .state = lease_state_name(state),
                                        .is_late = is_late,
                                        .session_id = lease->record.session_id,
                                        .problem = p.kind == PROBLEM_NONE ? NULL : &p};
    done(&answer, arg);
}

/* May end the session of the lease, and so the lease. */
static void lease_schedule(struct lease *lease, const struct lease_body *b)
{
    struct leases *l = lease->all;
    const int64_t lease_id = lease->record.lease_id;
    struct session *s = lease_session(lease);

    lease_set_deadline(lease, MIN(b->deadline_ns, lease_latest_ns(lease, b->at_mono_ns)));
    session_extend(s, lease->record.deadline_boot_ns);
    lease_set_up_targets(s, b);
    if (!lease_by_id(l, lease_id))
        return;
    lease->wanted_mono_ns = b->at_mono_ns;
    lease_set_state(lease, lease_next(lease->state, LEASE_START, NULL));
    catalog_then(l->modules.catalog, false, lease_on_start_saved, l);
}

/* A lease that is gone, or a clock that was measured before the host was restarted. */
static int lease_find_to_start(struct leases *l, int64_t lease_id, const struct lease_body *b,
                               struct lease_found *ret, struct problem *p)
{
    if (!lease_find(l, lease_id, b->session, b->sender, ret, p))
        return -ESTALE;
    if (!ret->lease)
        lease_problem(LEASE_REPLY_GONE, ret->state, LEASE_START, p);
    else if (!streq(b->boot_id, l->boot_id))
        problem_set(p, -ESTALE, PROBLEM_GONE, "the host was restarted since its clock was measured");
    return p->kind == PROBLEM_NONE ? 0 : -ESTALE;
}

struct lease_call *leases_start(struct leases *l, int64_t lease_id, const struct lease_body *b,
                                lease_done done, void *arg)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct lease_effect effect = {0};
    struct lease_found found;

    int r = lease_find_to_start(l, lease_id, b, &found, &p);
    enum lease_event event = r == 0 ? lease_start_event(found.lease, b->at_mono_ns) : LEASE_START;
    if (r == 0)
        lease_next(found.state, event, &effect);
    if (r == 0 && effect.action == LEASE_DO_SCHEDULE) {
        r = lease_check_start(found.lease, b, &p);
        if (r == 0)
            lease_schedule(found.lease, b);
        if (r == 0)
            r = lease_find_to_start(l, lease_id, b, &found, &p);
    }
    if (r < 0) {
        lease_answer_now(found.lease, lease_id, found.state, &p, done, arg);
    } else if (found.lease->wanted_mono_ns == 0 || effect.reply != LEASE_REPLY_OK) {
        lease_answer_start(found.lease, event, done, arg);
    } else {
        return lease_call_new(l, LEASE_WAITS_START, lease_id, done, arg);
    }
    return NULL;
}

/* -- Renew, stop and release ---------------------------------------------------------------------------- */

void leases_renew(struct leases *l, int64_t lease_id, const struct lease_body *b, lease_done done, void *arg)
{
    struct lease *lease = lease_answer_step(l, lease_id, b, LEASE_RENEW, done, arg);

    if (!lease)
        return;
    struct session *s = lease_session(lease);
    lease_set_deadline(lease, MIN(b->deadline_ns, lease_latest_ns(lease, 0)));
    if (s)
        session_extend(s, lease->record.deadline_boot_ns);
    lease_save(lease);
    lease_answer_now(lease, lease_id, lease_state_now(lease), NULL, done, arg);
}

/* Their numbers grow along the list, and the end of one may free it. */
void leases_end_of(struct leases *l, const char *sender)
{
    int64_t last_id = 0;
    struct lease *lease;

    do {
        TAILQ_FOREACH(lease, &l->list, next)
            if (lease->record.lease_id > last_id && streq(lease->record.granted_to, sender))
                break;
        if (lease) {
            last_id = lease->record.lease_id;
            log_notice("lease %" PRId64 ": token %s may not hold it any more", last_id, sender);
            lease_apply(lease, LEASE_STOP);
        }
    } while (lease);
}

static void lease_stop_some(struct session *s, const struct lease_body *b)
{
    _cleanup_(freep) const char **urls = xcalloc(b->n_workers, sizeof(*urls));

    for (size_t i = 0; i < b->n_workers; i++)
        urls[i] = b->workers[i].url;
    session_stop_workers(s, urls, b->n_workers);
}

/* A stop of ranks says that their server was stopped. */
static void lease_end_servers(struct session *s, const struct lease_body *b)
{
    for (size_t i = 0; s && i < s->n_targets; i++)
        if (b->n_workers == 0 || lease_body_find(b, s->targets[i].worker.url))
            target_server_stopped(&s->targets[i]);
}

void leases_stop(struct leases *l, int64_t lease_id, const struct lease_body *b, lease_done done, void *arg)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct lease_found found;

    if (!lease_find(l, lease_id, b->session, b->sender, &found, &p) ||
        (found.lease && lease_check_workers(found.lease, b, &p) < 0)) {
        lease_answer_now(found.lease, lease_id, found.state, &p, done, arg);
        return;
    }
    struct session *s = found.lease ? lease_session(found.lease) : NULL;
    lease_end_servers(s, b);
    bool is_all = found.lease && (b->n_workers == 0 || b->n_workers == found.lease->n_urls);
    if (s && b->rolled_back)
        session_roll_back(s,
                          "its coordinator rolled it back: all workers were required, and not all started");
    else if (s && found.state == LEASE_RECORDING && !is_all)
        lease_stop_some(s, b);
    else if (is_all)
        lease_apply(found.lease, LEASE_STOP);
    /* Its session, and so the lease, may be over by now. */
    bool known = lease_find(l, lease_id, b->session, b->sender, &found, &p);
    lease_answer_now(found.lease, lease_id, found.state, known ? NULL : &p, done, arg);
}
