/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts object: which parts there are, what follows from an event, and the operations of a session on them. Calls to
 * hosts are part_calls.c, what hosts report is part_poll.c.
 */
#include "daemon/hosts/part_internal.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

/* From the choice of T to T, in addition to round trips and to what the slowest host took to answer. */
#define START_MARGIN_NS (200 * NS_PER_MS)
#define START_TRIPS     4
/* A host that has not confirmed T by then counts as not started. */
#define START_CONFIRM_NS (50 * NS_PER_MS)
/* Hosts that no hello has named: the peers are asked once more, at most this long ago. */
#define PEERS_AGE_NS (5 * NS_PER_S)

/* -- One part -- */

void part_explain(struct part *part, const char *remedy, const char *format, ...)
{
    va_list ap;

    if (part->why)
        return;
    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    /* Problems of calls name their host. */
    bool names_host = starts_with(text, part->host) && starts_with(text + strlen(part->host), ": ");
    part->why = names_host ? TAKE_PTR(text) : xasprintf("%s: %s", part->host, text);
    part->remedy = xstrdup(remedy);
}

static void on_part_look(evutil_socket_t fd, short what, void *arg)
{
    part_look(arg);
}

static struct part *part_alloc(struct parts *all, const char *host, const char *session_uuid)
{
    struct part *part = xcalloc(1, sizeof(*part));

    part->all = all;
    part_record_init(&part->record);
    part->record.open = true;
    part->host = xstrdup(host);
    snprintf(part->session_uuid, sizeof(part->session_uuid), "%s", session_uuid ? session_uuid : "");
    part->answered_ns = mono_ns();
    part->look = event_new(all->base, -1, 0, on_part_look, part);
    return part;
}

static void part_target_done(struct part_target *pt)
{
    free(pt->url);
    free(pt->failure);
    free(pt->remedy);
}

static void part_free(struct part *part)
{
    part_calls_end(part);
    part_poll_end(part);
    clock_measuring_cancel(part->measuring);
    event_free(part->look);
    for (size_t i = 0; i < part->n_targets; i++)
        part_target_done(&part->targets[i]);
    free(part->targets);
    delivery_done(&part->report);
    part_record_done(&part->record);
    free(part->host);
    free(part->why);
    free(part->remedy);
    free(part->holder);
    free(part);
}

void part_drop(struct part *part)
{
    struct parts *all = part->all;
    struct timeval at_once = {0};

    if (part->dropped)
        return;
    TAILQ_REMOVE(part->of ? &part->of->parts : &all->late, part, next);
    TAILQ_INSERT_TAIL(&all->dropped, part, next);
    part->of = NULL;
    part->dropped = true;
    part_calls_end(part);
    part_poll_end(part);
    clock_measuring_cancel(TAKE_PTR(part->measuring));
    event_del(part->look);
    event_add(all->sweep, &at_once);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    struct parts *all = arg;
    struct part *part, *next;

    for (part = TAILQ_FIRST(&all->dropped); part; part = next) {
        next = TAILQ_NEXT(part, next);
        if (part->storing)
            continue; /* a commit calls back with it, and sweeps then */
        TAILQ_REMOVE(&all->dropped, part, next);
        part_free(part);
    }
}

/* The row of an earlier round or an earlier profd is used again. */
static int part_take_id(const struct part_record *r, void *arg)
{
    struct part *part = arg;

    if (streq(r->host_uuid, part->record.host_uuid))
        part->record.part_id = r->part_id;
    return 0;
}

void part_save(struct part *part)
{
    if (part->record.lease_id == RECORD_NONE)
        return; /* no host has promised anything */
    replace_str(&part->record.state, part_state_name(part->state));
    if (part->record.part_id == 0)
        catalog_each_part(part->all->catalog, part->record.session_id, part_take_id, part);
    int r = catalog_save_part(part->all->catalog, &part->record);
    if (r < 0)
        log_struct(LOG_ERR, LOG_FIELDS(.session_id = part->record.session_id),
                   "session s%" PRId64 ": the catalog cannot take what %s answered: %s",
                   part->record.session_id, part->host, strerror(-r));
}

void part_look_later(struct part *part)
{
    struct timeval at_once = {0};

    if (!part->dropped)
        event_add(part->look, &at_once);
}

const struct peer *part_peer(const struct part *part)
{
    const struct peer *peer = peers_find(part->all->peers, part->record.host_uuid);

    return peer || !part->record.url ? peer : peers_add(part->all->peers, part->record.url);
}

bool part_is_open_ended(const struct part *part)
{
    const struct session *s = part->of && !part->of->over ? part->of->session : NULL;

    return s &&
           (s->request.recording.duration_ns == 0 || s->request.recording.steps > 0 || s->request.stagger);
}

bool part_is_overdue(const struct part *part)
{
    return mono_ns() - part->answered_ns > part->all->settings->unreachable_ns;
}

void part_arrive(struct part *part)
{
    struct session_parts *of = part->of;
    struct timeval at_once = {0};

    if (of && of->n_pending > 0 && --of->n_pending == 0 && of->step != PARTS_START)
        event_add(of->timer, &at_once);
}

/* -- What follows from an event -- */

/* What the host did not report, and never will. */
static void part_report_failed(struct part *part)
{
    for (size_t i = 0; i < part->n_targets; i++) {
        struct part_target *pt = &part->targets[i];
        if (pt->known && state_is_final(pt->reported))
            continue;
        pt->known = true;
        pt->reported = STATE_FAILED;
        replace_str(&pt->failure, part->why);
        replace_str(&pt->remedy, part->remedy);
    }
    part->drained = true;
    part_look_later(part);
}

/* Whether they record is not known; the host may report it yet. */
static void part_settle(struct part *part)
{
    for (size_t i = 0; i < part->n_targets; i++) {
        struct target *t = part->targets[i].target;
        if (t && t->record.state == STATE_STARTING)
            target_peer_failed(t, part->why, part->remedy, true);
    }
}

static void part_leave_partial(struct part *part)
{
    int64_t since = wall_ns() - (mono_ns() - part->answered_ns);

    part->record.deadline_at = wall_ns() + part->all->settings->delivery_ns;
    for (size_t i = 0; i < part->n_targets; i++)
        if (part->targets[i].target)
            target_peer_lost(part->targets[i].target, since);
}

static void part_send_stop(struct part *part)
{
    for (size_t i = 0; i < part->n_targets; i++)
        part->targets[i].stop_asked = part->targets[i].stop_sent = true;
    part_call(part, PART_CALL_STOP);
}

static void part_lose(struct part *part)
{
    part->all->metrics.lost++;
    log_struct(LOG_WARNING, LOG_FIELDS(.session_id = part->record.session_id), "session s%" PRId64 ": %s",
               part->record.session_id, part->why ? part->why : part->host);
}

void part_event(struct part *part, enum part_event event)
{
    unsigned effects;
    enum part_state before = part->state;

    if (part->dropped)
        return;
    part->state = part_next(before, event, &effects);
    if (effects & PART_CLOSE)
        part->record.open = false;
    if (effects & (PART_FAIL_TARGETS | PART_SETTLE | PART_COLLECT))
        part_explain(part, "See profd's log on that host.", "its session ended without a result");
    if (part->state == PART_LOST && before != PART_LOST)
        part_lose(part);
    if (part->state != before || (effects & PART_LEAVE_PARTIAL)) {
        if (effects & PART_LEAVE_PARTIAL && part->record.deadline_at == RECORD_NONE)
            part_leave_partial(part);
        part_save(part);
    }
    if (part->dropped)
        return;
    if (effects & PART_SETTLE)
        part_settle(part);
    if (effects & (PART_FAIL_TARGETS | PART_COLLECT))
        part_report_failed(part);
    if (part->dropped)
        return;
    if (effects & PART_RELEASE)
        part_call(part, PART_CALL_RELEASE);
    if (effects & PART_SEND_STOP)
        part_send_stop(part);
    if (effects & PART_POLL)
        part_poll(part);
    if (effects & PART_ARRIVE)
        part_arrive(part);
    if (!part_is_final(part->state))
        return;
    part_poll_end(part);
    if (part->calling != PART_CALL_RELEASE)
        part_calls_end(part);
    if (!part->of && part->calling == PART_CALL_NONE)
        part_drop(part);
}

/* -- The parts of a session -- */

static struct session_parts *session_parts_find(const struct parts *all, const struct session *s)
{
    struct session_parts *of;

    TAILQ_FOREACH(of, &all->sessions_parts, next)
        if (of->session == s && of->session_id == s->record.session_id)
            return of;
    return NULL;
}

static void on_parts_timer(evutil_socket_t fd, short what, void *arg);

static void session_parts_free(struct session_parts *of);

/* Sessions that ended without a target on another host. */
static void parts_purge(struct parts *all)
{
    struct session_parts *of, *next;

    for (of = TAILQ_FIRST(&all->sessions_parts); of; of = next) {
        next = TAILQ_NEXT(of, next);
        if (!sessions_find(all->sessions, of->session_id))
            session_parts_free(of);
    }
}

static struct session_parts *session_parts_get(struct parts *all, struct session *s)
{
    struct session_parts *of = session_parts_find(all, s);

    if (of)
        return of;
    parts_purge(all);
    of = xcalloc(1, sizeof(*of));
    of->all = all;
    of->session = s;
    of->session_id = s->record.session_id;
    TAILQ_INIT(&of->parts);
    of->timer = event_new(all->base, -1, 0, on_parts_timer, of);
    TAILQ_INSERT_TAIL(&all->sessions_parts, of, next);
    return of;
}

/* Its session is over: what hosts have not delivered yet comes late. */
static void session_parts_free(struct session_parts *of)
{
    struct part *part, *next;

    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        next = TAILQ_NEXT(part, next);
        if (part_is_final(part->state) && part->calling == PART_CALL_NONE) {
            part_drop(part);
            continue;
        }
        TAILQ_REMOVE(&of->parts, part, next);
        part->of = NULL;
        TAILQ_INSERT_TAIL(&part->all->late, part, next);
        if (part->record.deadline_at == RECORD_NONE) {
            part->record.deadline_at = wall_ns() + part->all->settings->delivery_ns;
            part_save(part);
        }
    }
    peers_refresh_cancel(of->refreshing);
    event_free(of->timer);
    TAILQ_REMOVE(&of->all->sessions_parts, of, next);
    free(of);
}

static struct part *session_parts_find_part(struct session_parts *of, const char *host_uuid)
{
    struct part *part;

    TAILQ_FOREACH(part, &of->parts, next)
        if (streq(part->record.host_uuid, host_uuid))
            return part;
    return NULL;
}

static void part_add_target(struct part *part, struct target *t)
{
    part->targets = xrealloc(part->targets, part->n_targets + 1, sizeof(*part->targets));
    part->targets[part->n_targets++] =
        (struct part_target){.target = t, .target_id = t->record.target_id, .url = xstrdup(t->worker.url)};
}

/* The part of a target's host, which is made where it is missing. */
static struct part *session_parts_put_target(struct session_parts *of, struct target *t)
{
    struct part *part = session_parts_find_part(of, t->record.host_uuid);

    if (!part) {
        part = part_alloc(of->all, t->record.host ? t->record.host : t->record.host_uuid,
                          of->session->record.uuid);
        part->of = of;
        part->record.session_id = of->session->record.session_id;
        part->record.host_uuid = xstrdup(t->record.host_uuid);
        TAILQ_INSERT_TAIL(&of->parts, part, next);
    }
    part_add_target(part, t);
    return part;
}

static void session_parts_clear(struct session_parts *of)
{
    struct part *part;

    while ((part = TAILQ_FIRST(&of->parts))) {
        if (part->calling != PART_CALL_RELEASE) {
            part_drop(part);
            continue;
        }
        /* Its workers are given back in the background. */
        TAILQ_REMOVE(&of->parts, part, next);
        part->of = NULL;
        for (size_t i = 0; i < part->n_targets; i++)
            part->targets[i].target = NULL;
        TAILQ_INSERT_TAIL(&of->all->late, part, next);
    }
    of->step = PARTS_IDLE;
    of->n_pending = 0;
    event_del(of->timer);
}

/* -- Leases -- */

static void session_parts_ask(struct session_parts *of)
{
    struct part *part, *next;

    of->step = PARTS_LEASE;
    of->n_pending = 1;
    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        const struct peer *peer = peers_find(of->all->peers, part->record.host_uuid);
        next = TAILQ_NEXT(part, next);
        of->n_pending++;
        if (!peer) {
            part_explain(part, "profctl list-hosts shows the state of each host.",
                         "no profd of that host is reached any more");
            part_event(part, PART_DENIED);
            continue;
        }
        replace_str(&part->record.peer, peer->name);
        replace_str(&part->record.url, peer->url);
        if (peer->hello.host)
            replace_str(&part->host, peer->hello.host);
        part_call(part, PART_CALL_LEASE);
    }
    if (--of->n_pending == 0) {
        struct timeval at_once = {0};
        event_add(of->timer, &at_once);
    }
}

static void on_peers_refreshed(void *arg)
{
    struct session_parts *of = arg;

    of->refreshing = NULL;
    session_parts_ask(of);
}

static void parts_lease(struct session *s, void *remote)
{
    struct parts *all = remote;
    struct session_parts *of = session_parts_get(all, s);
    bool all_known = true;

    session_parts_clear(of);
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        if (!target_is_remote(t) || state_is_final(t->record.state))
            continue;
        session_parts_put_target(of, t);
        all_known = all_known && peers_find(all->peers, t->record.host_uuid);
    }
    if (all_known)
        session_parts_ask(of);
    else
        of->refreshing = peers_refresh(all->peers, PEERS_AGE_NS, on_peers_refreshed, of);
}

/* Somebody holds a worker: all that was granted is given back, and asked for again later. */
static void session_parts_retry(struct session_parts *of, const struct part *busy)
{
    struct session *s = of->session;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *why = xstrdup(busy->why), *holder = xstrdup(busy->holder);
    struct part *part, *next;

    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        next = TAILQ_NEXT(part, next);
        part_event(part, PART_STOP);
    }
    session_parts_clear(of);
    int64_t pause = lease_round_next(&of->round, s->record.uuid, holder, s->request.queue, backoff_random());
    if (pause >= 0) {
        session_lease_later(s, why, pause);
        return;
    }
    problem_set(&p, -EBUSY, PROBLEM_BUSY, "%s", why);
    problem_remedy(&p, "--queue waits for it; profctl list-hosts shows the hosts.");
    session_leased(s, &p);
}

/* A target of a host that gave no lease, with its part. */
static struct target *session_parts_refused_target(struct session_parts *of, struct part **ret)
{
    struct part *part;

    TAILQ_FOREACH(part, &of->parts, next)
        for (size_t i = 0; i < part->n_targets && part->state == PART_REFUSED; i++)
            if (part->targets[i].target) {
                *ret = part;
                return TAKE_PTR(part->targets[i].target);
            }
    return NULL;
}

static void session_parts_on_leased(struct session_parts *of)
{
    struct session *s = of->session;
    struct target *t;
    struct part *part;

    TAILQ_FOREACH(part, &of->parts, next)
        if (part->is_busy) {
            session_parts_retry(of, part);
            return;
        }
    TAILQ_FOREACH(part, &of->parts, next)
        if (part->state == PART_LEASED)
            part_save(part);
    while ((t = session_parts_refused_target(of, &part)))
        target_peer_failed(t, part->why, part->remedy, false);
    of->round = (struct lease_round){0};
    session_leased(s, NULL);
}

/* -- Preparation and start -- */

static void parts_prepare(struct session *s, void *remote)
{
    struct session_parts *of = session_parts_get(remote, s);
    struct timeval at_once = {0};
    struct part *part, *next;

    of->step = PARTS_PREPARE;
    of->n_pending = 1;
    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        next = TAILQ_NEXT(part, next);
        if (part->state != PART_LEASED)
            continue;
        of->n_pending++;
        part_call(part, PART_CALL_PREPARE);
        part_measure_clock(part);
    }
    if (--of->n_pending == 0)
        event_add(of->timer, &at_once);
}

/* The earliest T that every host learns in time. */
static int64_t session_parts_choose_start(const struct session_parts *of)
{
    int64_t trip = 0, slowest = 0;
    const struct part *part;

    TAILQ_FOREACH(part, &of->parts, next) {
        if (part->state != PART_ARMED)
            continue;
        trip = MAX(trip, part->clock.rtt_ns);
        slowest = MAX(slowest, part->slowest_ns);
    }
    int64_t earliest = mono_ns() + START_TRIPS * trip + slowest + START_MARGIN_NS;
    return MAX(earliest, session_planned_start(of->session));
}

static void part_note_clock(struct part *part)
{
    for (size_t i = 0; i < part->n_targets; i++) {
        struct target *t = part->targets[i].target;
        if (!t)
            continue;
        t->record.clock_offset_ns = part->clock.wall_offset_ns;
        t->record.clock_error_ns = part->clock.error_ns;
        t->record.clock_rtt_ns = part->clock.rtt_ns;
        t->record.clock_maxerror_ns =
            part->clock.quality.maxerror_ns < 0 ? RECORD_NONE : part->clock.quality.maxerror_ns;
        t->record.clock_unsync = part->clock.quality.unsync;
        target_save(t);
    }
}

static void parts_agree(struct session *s, void *remote)
{
    struct session_parts *of = session_parts_get(remote, s);
    struct timeval tv;
    struct part *part, *next;

    of->step = PARTS_START;
    of->n_pending = 0;
    of->go_at_ns = session_parts_choose_start(of);
    session_go_at(s, of->go_at_ns);
    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        next = TAILQ_NEXT(part, next);
        if (part->state != PART_ARMED)
            continue;
        of->n_pending++;
        part_note_clock(part);
        part_call(part, PART_CALL_START);
    }
    tv = timeval_until(of->go_at_ns - START_CONFIRM_NS);
    event_add(of->timer, &tv);
}

static struct part *session_parts_find_state(struct session_parts *of, enum part_state state)
{
    struct part *part;

    TAILQ_FOREACH(part, &of->parts, next)
        if (part->state == state)
            return part;
    return NULL;
}

/* What has not confirmed T counts as not started. */
static void session_parts_on_confirmed(struct session_parts *of)
{
    struct part *part;

    while ((part = session_parts_find_state(of, PART_ARMED))) {
        part_explain(part, "profctl list-hosts shows the state of each host.",
                     "has not confirmed the start time");
        part_event(part, PART_OVERDUE); /* which may end the session, and take all parts from it */
    }
}

/* All parts have arrived at a step, or its time is over. */
static void on_parts_timer(evutil_socket_t fd, short what, void *arg)
{
    struct session_parts *of = arg;
    enum parts_step step = of->step;

    of->step = PARTS_IDLE;
    if (step == PARTS_LEASE)
        session_parts_on_leased(of);
    else if (step == PARTS_PREPARE)
        session_remote_prepared(of->session);
    else if (step == PARTS_START)
        session_parts_on_confirmed(of);
    if (of->over && of->step == PARTS_IDLE)
        session_parts_free(of);
}

/* -- The end -- */

static struct part_target *part_target_of(struct parts *all, const struct target *t, struct part **ret)
{
    struct session_parts *of = session_parts_find(all, t->session);

    *ret = of && t->record.host_uuid ? session_parts_find_part(of, t->record.host_uuid) : NULL;
    for (size_t i = 0; *ret && i < (*ret)->n_targets; i++)
        if ((*ret)->targets[i].target == t)
            return &(*ret)->targets[i];
    return NULL;
}

static void parts_stop(struct target *t, void *remote)
{
    struct part *part;
    struct part_target *pt = part_target_of(remote, t, &part);

    if (!pt)
        return;
    pt->stop_asked = true;
    part_look_later(part);
}

static void parts_collect(struct target *t, void *remote)
{
    struct part *part;

    if (part_target_of(remote, t, &part))
        part_look_later(part);
}

static void parts_give_back(struct session *s, void *remote)
{
    struct session_parts *of = session_parts_find(remote, s);
    struct part *part, *next;

    if (!of)
        return;
    peers_refresh_cancel(TAKE_PTR(of->refreshing));
    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        next = TAILQ_NEXT(part, next);
        part_event(part, PART_STOP);
        /* Of one that may know T: its host starts nothing before T any more, and stops what it started. */
        if (!part_is_final(part->state) && part->calling != PART_CALL_RELEASE)
            part_call(part, PART_CALL_RELEASE);
    }
    session_parts_clear(of);
}

static bool session_parts_has_targets(const struct session_parts *of)
{
    const struct part *part;

    TAILQ_FOREACH(part, &of->parts, next)
        for (size_t i = 0; i < part->n_targets; i++)
            if (part->targets[i].target)
                return true;
    return false;
}

static void parts_forget(struct target *t, void *remote)
{
    struct part *part;
    struct part_target *pt = part_target_of(remote, t, &part);
    struct session_parts *of = session_parts_find(remote, t->session);
    bool any = false;

    if (pt) {
        pt->target = NULL;
        for (size_t i = 0; i < part->n_targets; i++)
            any = any || part->targets[i].target;
        if (!any && part->state < PART_STARTING)
            part_event(part, PART_STOP);
        else if (!any && part->state < PART_DELIVERING)
            part_event(part, PART_STOPPED);
    }
    if (of && !of->over && !session_parts_has_targets(of)) {
        of->over = true;
        if (of->step == PARTS_IDLE || of->step == PARTS_START) {
            struct timeval at_once = {0};
            of->step = PARTS_IDLE;
            event_add(of->timer, &at_once);
        }
    }
}

static int64_t parts_bytes_seen(const struct target *t, void *remote)
{
    struct part *part;
    const struct part_target *pt = part_target_of(remote, t, &part);

    return pt ? pt->bytes_seen : 0;
}

/* -- After a restart -- */

static void part_take_row(struct part *part, const struct part_record *r)
{
    int state = part_state_from_name(r->state);

    part->record.part_id = r->part_id;
    part->record.session_id = r->session_id;
    replace_str(&part->record.host_uuid, r->host_uuid);
    replace_str(&part->record.peer, r->peer);
    replace_str(&part->record.url, r->url);
    part->record.lease_id = r->lease_id;
    part->record.delivered = r->delivered;
    part->record.answered_at = r->answered_at;
    part->record.deadline_at = r->deadline_at;
    part->record.open = r->open;
    part->state = state < 0 ? PART_DELIVERING : (enum part_state)state;
}

static int resume_part(const struct part_record *r, void *arg)
{
    struct session_parts *of = arg;
    struct part *part = session_parts_find_part(of, r->host_uuid);

    if (part)
        part_take_row(part, r);
    return 0;
}

static void parts_resume(struct session *s, void *remote)
{
    struct parts *all = remote;
    struct session_parts *of = session_parts_get(all, s);
    struct part *part, *next;

    for (size_t i = 0; i < s->n_targets; i++)
        if (target_is_remote(&s->targets[i]) && !state_is_final(s->targets[i].record.state))
            session_parts_put_target(of, &s->targets[i]);
    catalog_each_part(all->catalog, s->record.session_id, resume_part, of);
    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        next = TAILQ_NEXT(part, next);
        if (part->record.lease_id == RECORD_NONE && s->record.state != STATE_REQUESTED) {
            part_explain(part, "Start it again.", "profd was restarted before it had a lease");
            part->state = PART_LOST;
            part_report_failed(part);
        } else if (part->record.lease_id != RECORD_NONE) {
            part_event(part, PART_RESTART);
        }
    }
    if (s->record.state == STATE_REQUESTED)
        session_parts_clear(of);
}

static int late_target(const struct target_record *r, void *arg)
{
    struct part *part = arg;

    if (!streq(r->host_uuid, part->record.host_uuid))
        return 0;
    if (r->host)
        replace_str(&part->host, r->host);
    part->targets = xrealloc(part->targets, part->n_targets + 1, sizeof(*part->targets));
    part->targets[part->n_targets++] =
        (struct part_target){.target_id = r->target_id, .url = xstrdup(r->worker_url)};
    return 0;
}

static int recover_part(const struct part_record *r, void *arg)
{
    struct parts *all = arg;
    _cleanup_(session_record_done) struct session_record s;

    session_record_init(&s);
    if (sessions_find(all->sessions, r->session_id) ||
        catalog_get_session(all->catalog, r->session_id, &s) < 0)
        return 0;
    struct part *part = part_alloc(all, r->peer ? r->peer : r->host_uuid, s.uuid);
    part_take_row(part, r);
    catalog_each_target(all->catalog, r->session_id, late_target, part);
    TAILQ_INSERT_TAIL(&all->late, part, next);
    if (part->record.deadline_at == RECORD_NONE)
        part->record.deadline_at = wall_ns() + all->settings->delivery_ns;
    part_event(part, PART_RESTART);
    return 0;
}

int parts_recover(struct parts *all)
{
    return catalog_each_open_part(all->catalog, recover_part, all);
}

/* -- The object -- */

static const struct remote_ops parts_remote_ops = {
    .lease = parts_lease,
    .prepare = parts_prepare,
    .agree = parts_agree,
    .stop = parts_stop,
    .collect = parts_collect,
    .give_back = parts_give_back,
    .forget = parts_forget,
    .bytes_seen = parts_bytes_seen,
    .resume = parts_resume,
};

int parts_new(struct event_base *base, struct peers *peers, struct sessions *sessions,
              struct catalog *catalog, const struct hosts_settings *settings, struct parts **ret)
{
    struct parts *all = xcalloc(1, sizeof(*all));

    *all = (struct parts){
        .base = base, .peers = peers, .sessions = sessions, .catalog = catalog, .settings = settings};
    TAILQ_INIT(&all->sessions_parts);
    TAILQ_INIT(&all->late);
    TAILQ_INIT(&all->dropped);
    all->sweep = event_new(base, -1, 0, on_sweep, all);
    sessions_set_remote(sessions, &parts_remote_ops, all);
    *ret = all;
    return 0;
}

static void part_list_free(struct part_list *list)
{
    struct part *part;

    while ((part = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, part, next);
        part_free(part);
    }
}

struct parts *parts_free(struct parts *all)
{
    struct session_parts *of;

    if (!all)
        return NULL;
    sessions_set_remote(all->sessions, NULL, NULL);
    while ((of = TAILQ_FIRST(&all->sessions_parts))) {
        TAILQ_REMOVE(&all->sessions_parts, of, next);
        part_list_free(&of->parts);
        peers_refresh_cancel(of->refreshing);
        event_free(of->timer);
        free(of);
    }
    part_list_free(&all->late);
    part_list_free(&all->dropped);
    event_free(all->sweep);
    free(all);
    return NULL;
}

void parts_metrics(const struct parts *all, struct parts_metrics *ret)
{
    const struct session_parts *of;
    const struct part *part;

    *ret = all->metrics;
    TAILQ_FOREACH(of, &all->sessions_parts, next)
        TAILQ_FOREACH(part, &of->parts, next)
            ret->open += part->record.open;
    TAILQ_FOREACH(part, &all->late, next) {
        ret->open += part->record.open;
        ret->late += part->record.open;
    }
}
