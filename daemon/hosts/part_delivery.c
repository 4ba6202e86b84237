/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host reported of its part, after it was checked (delivery.h): traces become rows, remarks those of the session, and
 * targets are brought to the states that were reported. A host that delivers more than any session has is recognised by the
 * error. Asks nothing: part_poll.c does, and decides what an error means.
 */
#include "daemon/hosts/part_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>
#include <inttypes.h>

#define PART_REMARKS_MAX 64
/* Changes of a target that one report can lead to: started, stopped, collected. */
#define LOOK_STEPS_MAX 4

/* -- Targets -- */

/* By this host's wall clock. After a restart of profd only the clocks as they are now are known. */
static int64_t part_wall_at(const struct part *part, int64_t host_mono_ns)
{
    const struct session *s = part->of->session;
    int64_t own = host_mono_ns - part->clock.offset_ns;

    return s->begun_ns > 0 ? session_wall_at(s, own) : wall_ns() + own - mono_ns();
}

/* Once, but for a stop: until its host reports when it sent that, the moment when it was asked for is shown. */
static void part_take_moment(const struct part *part, int64_t host_mono_ns, bool again, int64_t *field)
{
    if (host_mono_ns != RECORD_NONE && (again || *field == RECORD_NONE) && part->measured)
        *field = part_wall_at(part, host_mono_ns);
}

static void part_take_facts(struct part *part, struct target *t, const struct delivered_target *d)
{
    struct target_record *r = &t->record;

    part_take_moment(part, d->start_sent_mono_ns, false, &r->start_sent_at);
    part_take_moment(part, d->start_answered_mono_ns, false, &r->start_answered_at);
    part_take_moment(part, d->stop_sent_mono_ns, r->stop_answered_at == RECORD_NONE, &r->stop_sent_at);
    part_take_moment(part, d->stop_answered_mono_ns, false, &r->stop_answered_at);
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

/* Its session waits no more: a target that records has its stop first, and is looked at again after that. */
static bool part_look_at_left(struct part *part, struct target *t)
{
    int64_t since = part->record.answered_at != RECORD_NONE ? part->record.answered_at
                                                            : wall_ns() - (mono_ns() - part->answered_ns);

    if (!part_is_left(part))
        return false;
    if (!t->peer_ended || t->record.state == STATE_COLLECTING)
        target_peer_lost(t, part_is_overdue(part) ? since : RECORD_NONE);
    return true;
}

static void part_look_at(struct part *part, size_t i)
{
    for (int step = 0; step < LOOK_STEPS_MAX && !part->dropped; step++) {
        struct part_target *pt = &part->targets[i];
        struct target *t = pt->target;
        if (!t || !part->of || part_look_at_left(part, t) || !pt->known)
            return;
        enum state before = t->record.state;
        if (!part_target_step(part, pt) || pt->target != t || t->record.state == before)
            return;
    }
}

/* What all targets together mean for the part. */
static void part_look_at_all(struct part *part)
{
    bool any_records = false, all_stopped = part->n_targets > 0, any_stop = false, all_asked = true;

    for (size_t i = 0; i < part->n_targets; i++) {
        const struct part_target *pt = &part->targets[i];
        any_records = any_records || (pt->known && pt->reported == STATE_RECORDING);
        all_stopped = all_stopped && (!pt->target || pt->target->record.state >= STATE_COLLECTING);
        any_stop = any_stop || (pt->stop_asked && !pt->stop_sent);
        all_asked = all_asked && (!pt->target || pt->stop_asked);
    }
    if (any_records)
        part_event(part, PART_RECORDS);
    if (part->dropped || part_is_final(part->state))
        return;
    if (any_stop && all_asked && (part->state == PART_STARTING || part->state == PART_RECORDING))
        part_event(part, PART_STOP);
    else if (any_stop)
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

int64_t delivery_facts_bytes(const struct delivery *d)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < d->n_traces; i++)
        bytes += (int64_t)strlen(d->traces[i].facts);
    return bytes;
}

/* -EDQUOT where its host delivers more traces than any session has. Traces that were delivered before count once. */
static int part_count_traces(struct part *part, size_t n)
{
    int r = 0;

    if (part->n_traces < 0 || part->n_traces + (int64_t)n > PART_TRACES_MAX)
        r = catalog_count_remote_traces(part->all->catalog, part->record.session_id, part->record.host_uuid,
                                        &part->n_traces);
    if (r == 0 && part->n_traces + (int64_t)n > PART_TRACES_MAX)
        return -EDQUOT;
    part->n_traces += (int64_t)n;
    return r;
}

/* Of a session that is over, its author learns what came. */
static int part_report_late(struct part *part, int64_t n_before)
{
    int64_t n = 0;
    int r =
        catalog_count_remote_traces(part->all->catalog, part->record.session_id, part->record.host_uuid, &n);

    part->n_traces = n;
    if (r < 0 || n <= n_before)
        return r;
    return catalog_add_event(
        part->all->catalog, "session-delivered", "profd", part->record.session_id, RECORD_NONE, RECORD_NONE,
        "%s delivered %" PRId64 " traces after the end of the session", part->host, n - n_before);
}

int part_take_traces(struct part *part, const struct delivery *d)
{
    int64_t n_before = 0;
    int r = d->n_traces > 0 ? part_count_traces(part, d->n_traces) : 0;

    if (r == 0 && delivery_facts_bytes(d) > PART_FACTS_BYTES_MAX - part->facts_bytes)
        r = -EFBIG;
    if (r == 0 && d->n_traces > 0 && !part->of)
        r = catalog_count_remote_traces(part->all->catalog, part->record.session_id, part->record.host_uuid,
                                        &n_before);
    for (size_t i = 0; i < d->n_traces && r == 0; i++)
        r = part_take_trace(part, &d->traces[i]);
    return r == 0 && d->n_traces > 0 && !part->of ? part_report_late(part, n_before) : r;
}

/* -- Remarks -- */

static bool session_has_remark(const struct session *s, const char *worker, const char *text)
{
    json_t *remark;
    size_t i;

    json_array_foreach(s->remarks, i, remark)
        if (streq(json_get_str(remark, "text"), text) &&
            (!worker || streq(json_get_str(remark, "worker"), worker)))
            return true;
    return false;
}

/* What the host's own session has to tell: who stopped it there, and that its profd was away. */
static void part_take_remark(struct part *part, const json_t *remark)
{
    const char *text = json_get_str(remark, "text"), *worker = json_get_str(remark, "worker");
    const struct part_target *pt = worker ? part_find_url(part, worker) : NULL;
    struct session *s = part->of->session;

    if (!text || (worker && (!pt || !pt->target)))
        return;
    _cleanup_(freep) char *full = pt ? xstrdup(text) : xasprintf("%s: %s", part->host, text);
    if (session_has_remark(s, worker, full))
        return;
    part->n_remarks++;
    session_remark(s, pt ? pt->target : NULL, json_get_str(remark, "remedy"), "%s", full);
    session_save(s);
}

static void part_take_remarks(struct part *part, const json_t *remarks)
{
    const json_t *remark;
    size_t i;

    json_array_foreach((json_t *)remarks, i, remark)
        if (part->of && !part->of->over && part->n_remarks < PART_REMARKS_MAX)
            part_take_remark(part, remark);
}

void part_take_report(struct part *part, const struct delivery *d)
{
    for (size_t i = 0; i < d->n_targets; i++)
        part_take_target(part, &d->targets[i], d);
    part_take_remarks(part, d->remarks);
}
