/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hosts report: one long question at a time for each part, whose answer is checked (delivery.h), stored, and then
 * acted on. Rows and the number up to which they were taken are of one commit; an answer that is repeated changes
 * nothing, because a trace has its UUID.
 */
#include "daemon/hosts/part_internal.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <inttypes.h>

#define POLL_WAIT_S    25
#define POLL_ANSWER_NS (10 * NS_PER_S) /* in addition to the wait */
/* Changes of a target that one report can lead to: started, stopped, collected. */
#define LOOK_STEPS_MAX 4

static const struct backoff poll_retry = {.first_ns = NS_PER_S,
                                          .max_ns = 30 * NS_PER_S,
                                          .random_percent = 25},
                            /* A host of a session that is over: nobody waits for it. */
    late_poll_retry = {.first_ns = NS_PER_S, .max_ns = 300 * NS_PER_S, .random_percent = 25};

/* -- Targets -- */

/* By this host's wall clock. After a restart of profd only the clocks as they are now are known. */
static int64_t part_wall_at(const struct part *part, int64_t host_mono_ns)
{
    const struct session *s = part->of->session;
    int64_t own = host_mono_ns - part->clock.offset_ns;

    return s->begun_ns > 0 ? session_wall_at(s, own) : wall_ns() + own - mono_ns();
}

static void part_take_moment(const struct part *part, int64_t host_mono_ns, int64_t *field)
{
    if (host_mono_ns != RECORD_NONE && *field == RECORD_NONE && part->measured)
        *field = part_wall_at(part, host_mono_ns);
}

static void part_take_facts(struct part *part, struct target *t, const struct delivered_target *d)
{
    struct target_record *r = &t->record;

    part_take_moment(part, d->start_sent_mono_ns, &r->start_sent_at);
    part_take_moment(part, d->start_answered_mono_ns, &r->start_answered_at);
    part_take_moment(part, d->stop_answered_mono_ns, &r->stop_answered_at);
    if (d->start_status != RECORD_NONE)
        r->start_status = d->start_status;
    if (d->stop_status != RECORD_NONE)
        r->stop_status = d->stop_status;
    if (d->output_dir)
        replace_str(&r->output_dir, d->output_dir);
    if (d->ranks_expected > 0)
        r->ranks_expected = d->ranks_expected;
}

static struct part_target *part_find_url(struct part *part, const char *url)
{
    for (size_t i = 0; i < part->n_targets; i++)
        if (streq(part->targets[i].url, url))
            return &part->targets[i];
    return NULL;
}

static bool is_without_result(enum state state)
{
    return state == STATE_FAILED || state == STATE_CANCELLED;
}

/* One that was cancelled with its host's session has that session's reason. */
static void part_take_target(struct part *part, const struct delivered_target *d, const struct delivery *of)
{
    struct part_target *pt = part_find_url(part, d->worker);
    bool has_reason = !d->failure && of->reason && is_without_result(d->state);

    if (!pt)
        return; /* none of this part's: a host reports about no other */
    pt->known = true;
    pt->reported = d->state;
    pt->bytes_seen = d->bytes_seen;
    _cleanup_(freep) char *reason = has_reason ? xasprintf("%s: %s", part->host, of->reason) : NULL;
    replace_str(&pt->failure, has_reason ? reason : d->failure);
    replace_str(&pt->remedy, !has_reason ? d->remedy : of->remedy ? of->remedy : "Start it again.");
    if (pt->target && part->of)
        part_take_facts(part, pt->target, d);
}

/* One step. False where nothing follows. */
static bool part_target_step(struct part *part, struct part_target *pt)
{
    struct target *t = pt->target;
    const char *failure = pt->failure ? pt->failure : "its host gave no reason";
    enum target_effect effect = part_target_next(t->record.state, pt->reported, pt->failure != NULL);

    /* The session ends with its last target: after the rows of its traces are here. */
    if (effect == TARGET_IS_DELIVERED && !part->drained)
        return false;
    switch (effect) {
    case TARGET_NOTHING:
        return false;
    case TARGET_RECORDS:
        target_peer_recording(t);
        return true;
    case TARGET_UNCERTAIN:
        target_peer_failed(t, failure, pt->remedy, true);
        return true;
    case TARGET_FAILS:
        target_peer_failed(t, failure, pt->remedy, false);
        return true;
    case TARGET_ENDS:
        target_peer_stopped(t);
        return true;
    case TARGET_IS_DELIVERED:
        target_collected(t, pt->reported, pt->failure, pt->remedy);
        return true;
    }
    return false;
}

static void part_look_at(struct part *part, size_t i)
{
    for (int step = 0; step < LOOK_STEPS_MAX && !part->dropped; step++) {
        struct part_target *pt = &part->targets[i];
        struct target *t = pt->target;
        if (!t || !part->of || !pt->known)
            return;
        enum state before = t->record.state;
        if (!part_target_step(part, pt) || pt->target != t || t->record.state == before)
            return;
    }
}

/* What all targets together mean for the part. */
static void part_look_at_all(struct part *part)
{
    bool any_records = false, all_stopped = part->n_targets > 0, any_stop = false;

    for (size_t i = 0; i < part->n_targets; i++) {
        const struct part_target *pt = &part->targets[i];
        any_records = any_records || (pt->known && pt->reported == STATE_RECORDING);
        all_stopped = all_stopped && (!pt->target || pt->target->record.state >= STATE_COLLECTING);
        any_stop = any_stop || (pt->stop_asked && !pt->stop_sent);
    }
    if (any_records)
        part_event(part, PART_RECORDS);
    if (part->dropped || part_is_final(part->state))
        return;
    if (any_stop)
        part_call(part, PART_CALL_STOP);
    if (all_stopped && part->state >= PART_STARTING && part->of)
        part_event(part, PART_STOPPED);
}

void part_look(struct part *part)
{
    for (size_t i = 0; i < part->n_targets && !part->dropped; i++)
        part_look_at(part, i);
    if (!part->dropped)
        part_look_at_all(part);
}

/* -- Rows -- */

static int part_take_trace(struct part *part, const struct delivered_trace *d)
{
    const struct part_target *pt = d->worker ? part_find_url(part, d->worker) : NULL;
    struct remote_trace_record r;

    remote_trace_record_init(&r);
    r.uuid = (char *)d->uuid;
    r.session_id = part->record.session_id;
    r.target_id = pt ? pt->target_id : RECORD_NONE;
    r.host_uuid = part->record.host_uuid;
    r.remote_id = d->remote_id;
    r.recorded_at = d->recorded_at;
    r.facts = d->facts;
    return catalog_put_remote_trace(part->all->catalog, &r);
}

static int part_take_traces(struct part *part, const struct delivery *d)
{
    int r = 0;

    for (size_t i = 0; i < d->n_traces && r == 0; i++)
        r = part_take_trace(part, &d->traces[i]);
    /* Of a session that is over, its author learns it. */
    if (r == 0 && d->n_traces > 0 && !part->of)
        r = catalog_add_event(
            part->all->catalog, "session-delivered", "profd", part->record.session_id, RECORD_NONE,
            RECORD_NONE, "%s delivered %zu traces after the end of the session", part->host, d->n_traces);
    return r;
}

static void part_poll_later(struct part *part);

static void part_apply(struct part *part)
{
    struct delivery d = part->report;
    bool is_armed = d.armed && !part->host_armed;

    part->report = (struct delivery){0};
    part->poll_tries = 0;
    part->drained = d.n_traces < DELIVERY_TRACES_MAX || d.over;
    part->host_armed = part->host_armed || d.armed;
    for (size_t i = 0; i < d.n_targets; i++)
        part_take_target(part, &d.targets[i], &d);
    if (is_armed && part->state == PART_PREPARING && part->measured)
        part_event(part, PART_OK);
    if (!part->dropped)
        part_look(part);
    if (d.over && !part->dropped) {
        part_explain(part, d.remedy, "%s", d.reason ? d.reason : "its session ended");
        part_event(part, PART_OVER);
    }
    delivery_done(&d);
    if (!part->dropped && !part_is_final(part->state))
        part_poll(part);
}

static void on_report_stored(int err, void *arg)
{
    struct part *part = arg;

    part->storing = false;
    if (part->dropped) {
        struct timeval at_once = {0};
        event_add(part->all->sweep, &at_once);
        return;
    }
    if (err < 0) {
        part->record.delivered = part->delivered_before;
        delivery_done(&part->report);
        part_poll_later(part);
        return;
    }
    part->all->metrics.delivered += part->report.n_traces;
    part_apply(part);
}

/* The rows first: a crash between them and what follows repeats the question. */
static void part_store(struct part *part)
{
    int r = part_take_traces(part, &part->report);

    part->delivered_before = part->record.delivered;
    if (r < 0) {
        log_struct(LOG_WARNING, LOG_FIELDS(.session_id = part->record.session_id),
                   "session s%" PRId64 ": the catalog cannot take the traces of %s: %s",
                   part->record.session_id, part->host, strerror(-r));
        delivery_done(&part->report);
        part_poll_later(part);
        return;
    }
    part->record.delivered = MAX(part->record.delivered, part->report.next);
    if (part->record.delivered != part->delivered_before)
        part_save(part);
    part->storing = true;
    catalog_then(part->all->catalog, false, on_report_stored, part);
}

/* -- The question -- */

static void on_poll_again(evutil_socket_t fd, short what, void *arg)
{
    part_poll(arg);
}

static void part_poll_later(struct part *part)
{
    struct timeval tv = timeval_of(
        backoff_ns(part->of ? &poll_retry : &late_poll_retry, ++part->poll_tries, backoff_random()));

    if (!part->poll_again)
        part->poll_again = event_new(part->all->base, -1, 0, on_poll_again, part);
    event_add(part->poll_again, &tv);
}

static void part_give_up_delivery(struct part *part)
{
    part_explain(part, "Raise [hosts] delivery= in profd.conf where hosts are away for longer.",
                 "has not answered for too long: its traces are not waited for any more");
    part_event(part, PART_GONE);
}

static void part_on_no_report(struct part *part)
{
    if (!part->of && wall_ns() >= part->record.deadline_at) {
        part_give_up_delivery(part);
        return;
    }
    if (part->of && part_is_overdue(part))
        part_event(part, PART_OVERDUE);
    if (!part->dropped && !part_is_final(part->state) && !part->poll)
        part_poll_later(part);
}

static void part_on_report(int status, const json_t *body, const struct problem *p, void *arg)
{
    struct part *part = arg;
    const char *reason;

    part->poll = NULL;
    if (status == 410 || status == 404) {
        part_explain(part, "Its catalog was restored or emptied; its store still has the files.",
                     "it has no such lease any more: %s", part_text_of(part, p, "gone"));
        part_event(part, PART_GONE);
        return;
    }
    if (status / 100 != 2) {
        part_on_no_report(part);
        return;
    }
    if (delivery_parse(body, &part->report, &reason) < 0) {
        log_struct(LOG_WARNING, LOG_FIELDS(.session_id = part->record.session_id),
                   "session s%" PRId64 ": %s sent an invalid answer about its lease: %s",
                   part->record.session_id, part->host, reason);
        delivery_done(&part->report);
        part_on_no_report(part);
        return;
    }
    part->answered_ns = mono_ns();
    part->record.answered_at = wall_ns();
    part_store(part);
}

void part_poll(struct part *part)
{
    const struct peer *peer = part->poll || part->storing || part->dropped ? NULL : part_peer(part);

    if (part->poll_again)
        event_del(part->poll_again);
    if (part->poll || part->storing || part->dropped)
        return;
    if (!peer) {
        part_poll_later(part);
        return;
    }
    _cleanup_(freep) char *path =
        xasprintf("/v1/leases/%" PRId64 "?session=%s&after=%" PRId64 "&wait=%d", part->record.lease_id,
                  part->session_uuid, part->record.delivered, POLL_WAIT_S);
    part->poll =
        peer_get(part->all->peers, peer, path, POLL_WAIT_S * NS_PER_S + POLL_ANSWER_NS, part_on_report, part);
}

void part_poll_end(struct part *part)
{
    if (part->poll)
        peer_query_cancel(TAKE_PTR(part->poll));
    if (part->poll_again)
        event_free(TAKE_PTR(part->poll_again));
}
