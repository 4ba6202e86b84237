/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session waits for that other hosts do: leases before it begins, their preparation, the moment T of all starts,
 * and what they report of its targets.
 *
 *   leases of all hosts -> preparation, here and there -> commit with fsync, here and there -> T -> starts
 *
 * A target on another host has the states of every target, but each follows from a report of its host. Nothing is sent
 * from here: remote_ops does that.
 */
#include "daemon/session/remote.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/session/internal.h"
#include <errno.h>

bool target_is_remote(const struct target *t)
{
    return t->record.host_uuid != NULL;
}

bool session_has_remote(const struct session *s)
{
    for (size_t i = 0; i < s->n_targets; i++)
        if (target_is_remote(&s->targets[i]))
            return true;
    return false;
}

static const char *target_host(const struct target *t)
{
    return t->record.host ? t->record.host : t->record.host_uuid;
}

const char *target_silence(const struct target *t, int64_t *ret_since, int64_t *ret_until)
{
    const struct sessions *all = t->session->all;

    return target_is_remote(t) && all->remote_ops
               ? all->remote_ops->silence(t, ret_since, ret_until, all->remote)
               : NULL;
}

int64_t target_bytes_seen(const struct target *t)
{
    const struct sessions *all = t->session->all;

    if (target_is_remote(t))
        return all->remote_ops ? all->remote_ops->bytes_seen(t, all->remote) : 0;
    return all->collector_ops ? all->collector_ops->bytes_seen(t, all->collector) : 0;
}

/* -- Leases ---------------------------------------------------------------------------------------------- */

void session_request_leases(struct session *s)
{
    struct sessions *all = s->all;

    session_timer_off(s);
    if (!all->remote_ops) {
        session_explain(s, "profctl peer join prints what profd.conf of both hosts needs.",
                        "workers are on other hosts, and this profd knows no other host");
        session_end_unstarted(s, STATE_FAILED);
        return;
    }
    if (s->lease_again_ns == 0)
        session_wait_for(s, xstrdup("leases of the hosts of its workers"));
    s->leasing = s->lent = true;
    all->remote_ops->lease(s, all->remote);
}

void session_give_back(struct session *s)
{
    if (!s->lent)
        return;
    s->lent = s->leasing = s->leased = s->preparing = false;
    if (s->all->remote_ops)
        s->all->remote_ops->give_back(s, s->all->remote);
}

void session_leased(struct session *s, const struct problem *p)
{
    if (!s->leasing || s->record.state != STATE_REQUESTED)
        return; /* it was stopped meanwhile */
    s->leasing = false;
    if (p) {
        s->lent = false;
        session_explain(s, p->remedy, "%s", p->what);
        session_end_unstarted(s, STATE_FAILED);
    } else if (s->request.require_all && session_first_failed(s)) {
        session_explain(s, session_first_failed(s)->record.remedy,
                        "all workers are required, and not all can be started; none was");
        session_end_unstarted(s, STATE_CANCELLED);
    } else if (session_count_state(s, STATE_REQUESTED) == 0) {
        session_end_unstarted(s, STATE_FAILED);
    } else {
        s->leased = true;
        session_begin_or_warm_up(s);
    }
}

void session_lease_later(struct session *s, const char *why, int64_t delay_ns)
{
    if (!s->leasing || s->record.state != STATE_REQUESTED)
        return;
    s->leasing = s->lent = false;
    s->in_line = true;
    session_wait_for(s, xstrdup(why));
    s->lease_again_ns = mono_ns() + delay_ns;
    session_timer(s, s->lease_again_ns, session_proceed);
}

const char *sessions_lease_holder(struct sessions *all, const struct worker *w, const struct session *asking,
                                  int64_t *ret_until_at)
{
    *ret_until_at = RECORD_NONE;
    if (!all->lease_ops || (asking && session_is_leased(asking)))
        return NULL;
    return all->lease_ops->holder(w, asking, ret_until_at, all->leases);
}

/* -- Preparation ------------------------------------------------------------------------------------------ */

void session_prepare_remote(struct session *s)
{
    if (!session_has_remote(s))
        return;
    s->preparing = true;
    s->n_outstanding++;
    s->all->remote_ops->prepare(s, s->all->remote);
}

void session_remote_prepared(struct session *s)
{
    if (!s->preparing)
        return;
    s->preparing = false;
    if (--s->n_outstanding == 0)
        session_prepare_directories(s);
}

bool session_stop_preparing(struct session *s)
{
    if (!s->preparing)
        return false;
    session_give_back(s);
    if (--s->n_outstanding == 0)
        session_give_up(s);
    return true;
}

/* -- The moment of the start ------------------------------------------------------------------------------ */

int64_t session_planned_start(const struct session *s)
{
    int64_t at = s->record.start_at;

    return at == RECORD_NONE ? 0 : MAX(mono_ns() + at - wall_ns(), INT64_C(1));
}

int64_t session_wall_at(const struct session *s, int64_t mono_ns)
{
    return s->record.begun_at + mono_ns - s->begun_ns;
}

void session_arm(struct session *s)
{
    struct sessions *all = s->all;

    s->armed = true;
    if (session_is_leased(s))
        all->lease_ops->armed(s, all->leases);
    else if (all->remote_ops)
        all->remote_ops->agree(s, all->remote);
}

static void fail_late(struct session *s, int64_t late_ns)
{
    char text[UNIT_TEXT_MAX];
    _cleanup_(freep) char *failure =
        xasprintf("the moment of the start had passed by %s: nothing was started on its host",
                  format_duration(text, late_ns));

    for (size_t i = 0; i < s->n_targets; i++)
        if (s->targets[i].record.state == STATE_STARTING)
            target_fail(&s->targets[i], failure, "Is profd's host overloaded, or was it suspended?");
    session_end_unstarted(s, STATE_FAILED);
}

static void on_go(struct session *s)
{
    int64_t late_ns = mono_ns() - s->go_at_ns;

    if (late_ns < 0) /* the loop counts from the beginning of the iteration that armed the timer */
        session_timer(s, s->go_at_ns, on_go);
    else if (session_is_leased(s) && late_ns > SESSION_LATE_NS)
        fail_late(s, late_ns);
    else
        session_send_starts(s);
}

/* A later profd has to know that it may have started. */
static void on_go_saved(int err, void *arg)
{
    struct session *s = arg;

    if (s->record.state != STATE_STARTING || !s->armed)
        return; /* it was given up, and is freed after this commit */
    if (err < 0)
        session_refuse_start(s, err);
    else
        session_timer(s, s->go_at_ns, on_go);
}

void session_go_at(struct session *s, int64_t mono_ns)
{
    if (!s->armed || s->go_at_ns > 0 || s->record.state != STATE_STARTING)
        return;
    s->go_at_ns = mono_ns;
    if (!session_has_on_demand(s)) /* whose processes have that moment in their texts */
        s->record.start_at = session_wall_at(s, mono_ns);
    session_save(s);
    if (session_is_leased(s))
        catalog_then(s->all->jobs.catalog, false, on_go_saved, s);
    else
        session_timer(s, mono_ns, on_go);
}

/* -- Targets on other hosts: the transport ----------------------------------------------------------------- */

static void on_start_late(evutil_socket_t fd, short what, void *arg)
{
    struct target *t = arg;
    _cleanup_(freep) char *failure = xasprintf("%s has not reported whether it started", target_host(t));

    target_peer_failed(t, failure, "Is profd there running? profctl list-hosts shows it.", true);
}

/* Its host sends the start by itself; here its report is waited for. */
static void peer_start(struct target *t)
{
    struct timeval tv = timeval_of(t->session->all->settings->start_timeout_ns);

    if (t->record.failure) {
        target_settle_start(t, false);
    } else if (t->peer_records) {
        target_settle_start(t, true);
        if (t->peer_ended)
            target_stop(t);
    } else {
        t->retry = event_new(t->session->all->jobs.base, -1, 0, on_start_late, t);
        event_add(t->retry, &tv);
    }
}

static void peer_stop(struct target *t)
{
    struct sessions *all = t->session->all;

    if (t->peer_ended) {
        target_leave_stopping(t);
        return;
    }
    target_note_stop(t);
    /* Ranks are written until their server has answered its stop: target_lead() comes then. */
    if (!target_server_records(t))
        all->remote_ops->stop(t, all->remote);
}

const struct target_transport transport_peer = {.start = peer_start, .stop = peer_stop};

static void peer_settle(struct target *t, bool ok)
{
    if (t->retry)
        event_free(t->retry);
    t->retry = NULL;
    target_settle_start(t, ok);
}

void target_stop_unheard(struct target *t)
{
    if (t->start_settled)
        return;
    if (t->retry)
        event_free(t->retry);
    t->retry = NULL;
    t->start_settled = t->start_unanswered = true;
    t->session->n_outstanding--;
    target_stop(t);
}

/* -- Targets on other hosts: what their hosts report -------------------------------------------------------- */

void target_peer_recording(struct target *t)
{
    switch (t->record.state) {
    case STATE_STARTING:
        t->peer_records = true;
        if (t->session->starts_left && !t->start_settled)
            peer_settle(t, true);
        break;
    case STATE_STOPPING:
    case STATE_COLLECTING:
        if (!t->start_unanswered ||
            (t->record.start_status != RECORD_NONE && t->record.start_status / 100 != 2))
            break;
        /* The stop was faster than the report. */
        t->start_unanswered = false;
        t->recorded = true;
        target_save(t);
        break;
    default:
        break;
    }
}

/* One whose stop waits for its turn leaves when that has come. */
static void peer_leave(struct target *t)
{
    t->peer_ended = true;
    if (t->record.state == STATE_STOPPING && !t->stop_queued)
        target_stopped(t);
}

void target_peer_stopped(struct target *t)
{
    struct session *s = t->session;

    target_peer_recording(t);
    if (t->record.state == STATE_RECORDING) {
        t->peer_ended = true;
        target_stop(t);
        session_check_stopped(s);
    } else {
        peer_leave(t);
    }
}

/* All that is left before the starts; may end the session. */
static void session_check_armed(struct session *s)
{
    if (!s->armed)
        return; /* session_prepared() looks */
    if (s->request.require_all && session_first_failed(s)) {
        session_explain(s, session_first_failed(s)->record.remedy,
                        "all workers are required, and %s: %s; none was started",
                        session_first_failed(s)->worker.url, session_first_failed(s)->record.failure);
        session_give_up(s);
    } else if (session_count_state(s, STATE_STARTING) == 0) {
        session_give_up(s);
    }
}

static void peer_fail_start(struct target *t, bool may_record)
{
    struct session *s = t->session;

    if (t->start_settled)
        return;
    t->start_unanswered = t->record.stop_pending = may_record;
    if (s->starts_left) {
        peer_settle(t, false);
        return;
    }
    if (!may_record)
        target_change_state(t, STATE_FAILED);
    session_check_armed(s);
}

void target_peer_failed(struct target *t, const char *failure, const char *remedy, bool may_record)
{
    if (state_is_final(t->record.state))
        return;
    if (t->record.state != STATE_COLLECTING)
        target_fail(t, failure, remedy);
    switch (t->record.state) {
    case STATE_REQUESTED:
        target_change_state(t, STATE_FAILED);
        break;
    case STATE_STARTING:
        peer_fail_start(t, may_record);
        break;
    case STATE_RECORDING:
        target_stop(t);
        session_check_stopped(t->session);
        break;
    case STATE_STOPPING:
        peer_leave(t);
        break;
    case STATE_COLLECTING:
        target_collected(t, STATE_FAILED, failure, remedy);
        break;
    default:
        break;
    }
}

void target_peer_lost(struct target *t, int64_t since)
{
    char at[UNIT_TEXT_MAX];
    /* True before they come, and after it. */
    _cleanup_(freep) char *failure =
        since == RECORD_NONE
            ? xasprintf(
                  "its host %s had not reported its end in time: traces that it delivers later are added",
                  target_host(t))
            : xasprintf(
                  "its host %s had not answered since %s when the session ended: traces that it delivers "
                  "later are added",
                  target_host(t), format_time(at, since));
    const char *remedy = since == RECORD_NONE ? "See profd's log on that host."
                                              : "profctl list-hosts shows the state of each host.";

    t->peer_ended = true; /* no stop of it is waited for */
    if (t->record.state == STATE_COLLECTING) {
        target_collected(t, STATE_PARTIAL, failure, remedy);
        return;
    }
    target_peer_failed(t, failure, remedy, true);
    if (t->record.state == STATE_COLLECTING)
        target_collected(t, STATE_PARTIAL, failure, remedy);
}

/* -- After a restart --------------------------------------------------------------------------------------- */

bool session_resume_remote(struct session *s)
{
    const struct sessions *all = s->all;

    if (all->remote_ops) {
        s->lent = true;
        all->remote_ops->resume(s, all->remote);
        return true;
    }
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        if (!target_is_remote(t) || state_is_final(t->record.state))
            continue;
        _cleanup_(freep) char *failure =
            xasprintf("profd was restarted, and %s is not one of its peers any more", target_host(t));
        t->record.stop_pending = false;
        target_fail(
            t, failure,
            "Name it in profd.conf again ([peer], or [hosts] peers=); its recording ends with its lease.");
        target_change_state(t, STATE_FAILED);
    }
    return false;
}
