/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From leases to T: all hosts are asked at once, each session retries where somebody holds a worker, every host prepares,
 * and one moment is chosen that each learns in time.
 */
#include "daemon/hosts/part_internal.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/units.h"
#include <errno.h>

/* From the choice of T to T, in addition to round trips and to what the slowest host took to answer. */
#define START_MARGIN_NS (200 * NS_PER_MS)
#define START_TRIPS     4
/* A host that has not confirmed T by then counts as not started. */
#define START_CONFIRM_NS (50 * NS_PER_MS)
/* Hosts that no hello has named: the peers are asked once more, at most this long ago. */
#define PEERS_AGE_NS (5 * NS_PER_S)

/* -- Leases -- */

static void session_parts_ask(struct session_parts *of)
{
    struct part *part, *next;

    of->step = PARTS_LEASE;
    of->n_pending = 1;
    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        const struct peer *peer = peers_find(of->all->peers, part->record.host_uuid);
        next = TAILQ_NEXT(part, next);
        part_await(part);
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

void parts_lease(struct session *s, void *remote)
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

void parts_prepare(struct session *s, void *remote)
{
    struct session_parts *of = session_parts_get(remote, s);
    struct timeval at_once = {0};
    struct part *part, *next;

    of->step = PARTS_PREPARE;
    of->n_pending = 1;
    of->prepared_by_ns = mono_ns() + of->all->settings->unreachable_ns;
    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        next = TAILQ_NEXT(part, next);
        if (part->state != PART_LEASED)
            continue;
        part_await(part);
        part_call(part, PART_CALL_PREPARE);
        part_measure_clock(part);
    }
    if (--of->n_pending > 0)
        at_once = timeval_of(of->all->settings->unreachable_ns);
    event_add(of->timer, &at_once);
}

/* A host that answers and does not get ready holds up all others. True where the step goes on without it. */
static bool session_parts_give_up_prepare(struct session_parts *of)
{
    char limit[UNIT_TEXT_MAX];
    struct part *part, *next;
    bool any = false;

    format_duration(limit, of->all->settings->unreachable_ns);
    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        next = TAILQ_NEXT(part, next);
        if (part->state != PART_LEASED && part->state != PART_PREPARING)
            continue;
        any = true;
        part_explain(part, "See profd's log on that host; [hosts] unreachable= sets the limit.",
                     "has not prepared its workers within %s", limit);
        part_event(part, PART_OVERDUE); /* the last one ends the step */
    }
    return any;
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

void parts_agree(struct session *s, void *remote)
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
        part_await(part);
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
void session_parts_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct session_parts *of = arg;
    enum parts_step step = of->step;

    if (step == PARTS_PREPARE && of->n_pending > 0 && session_parts_give_up_prepare(of))
        return;
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
