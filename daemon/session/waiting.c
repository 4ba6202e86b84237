/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A requested session before it begins: waits for its time (--start-at), for its workers (--queue), for load
 * (--when-running). session_proceed() is called whenever one of these may have changed.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/session/internal.h"
#include <inttypes.h>

/* Time before a planned start that is reserved for the stops that clean up and the scan of directories. */
#define START_LEAD_NS (2 * NS_PER_S)
/* The same for leases and preparations of other hosts. */
#define REMOTE_LEAD_NS       (3 * NS_PER_S)
#define WHEN_INTERVAL_NS     (500 * NS_PER_MS)
#define WHEN_CALL_TIMEOUT_NS (5 * NS_PER_S)

/* How long before its start time a session begins. */
static int64_t session_lead_ns(const struct session *s)
{
    return START_LEAD_NS + (session_has_on_demand(s) ? sessions_lead_ns(s->all) : 0) +
           (session_has_remote(s) ? REMOTE_LEAD_NS : 0);
}

/* Whether this session will begin in the next iteration of the event loop. */
static bool begins_at_once(const struct session *s)
{
    return (!s->job.created || s->job.begins) && !s->request.queue && s->request.when_running == 0 &&
           (s->request.start_at == 0 || s->request.start_at - session_lead_ns(s) <= wall_ns());
}

bool target_holds_worker(const struct target *t)
{
    const struct session *s = t->session;

    if (t->replaced)
        return false;
    return (t->record.state >= STATE_STARTING && t->record.state <= STATE_STOPPING) ||
           (t->record.state == STATE_REQUESTED && (s->warming || s->leasing));
}

/* For a session that asks: workers under profile, and those that somebody before it waits for. */
static bool holds_worker(const struct target *t, const struct session *asking)
{
    const struct session *s = t->session;

    if (target_holds_worker(t))
        return true;
    /* Between two rounds it has nothing. Else two coordinators that wait for each other's workers would wait for ever. */
    if (s->lease_again_ns > 0)
        return false;
    /* What waits was created after the lease, or the lease would not have been granted. */
    if (t->replaced || t->record.state != STATE_REQUESTED || (asking && session_is_leased(asking)) ||
        (asking && s->record.session_id > asking->record.session_id))
        return false;
    return s->in_line || begins_at_once(s);
}

static bool has_same_port(const char *url, const char *other)
{
    const char *port = strrchr(url, ':'), *other_port = strrchr(other, ':');

    return port && other_port && streq(port, other_port);
}

/* Under two addresses of this host, one of them as other hosts know it. */
static bool is_same_listener(const struct worker *a, const struct worker *b)
{
    return a->local && b->local && a->pid > 0 && a->pid == b->pid && has_same_port(a->url, b->url);
}

/* A process and the server that it is part of have one profiler. */
static bool target_is_worker(const struct target *t, const struct worker *w)
{
    const char *same_as = t->worker.same_as;

    return streq(t->worker.url, w->url) || (same_as && streq(same_as, w->url)) ||
           (w->same_as && streq(w->same_as, t->worker.url)) || is_same_listener(&t->worker, w);
}

struct session *sessions_holder(struct sessions *all, const struct worker *w, const struct session *asking)
{
    struct session *s;

    SESSIONS_FOREACH(s, all) {
        if (s == asking)
            continue;
        for (size_t i = 0; i < s->n_targets; i++)
            if (holds_worker(&s->targets[i], asking) && target_is_worker(&s->targets[i], w))
                return s;
    }
    return NULL;
}

void session_wait_for(struct session *s, char *text)
{
    free(s->waiting_for);
    s->waiting_for = text;
}

/* Whether another session holds one of its workers; sets waiting_for if so. */
static bool is_blocked(struct session *s)
{
    for (size_t i = 0; i < s->n_targets; i++) {
        const char *url = s->targets[i].worker.url;
        const struct session *holder = sessions_holder(s->all, &s->targets[i].worker, s);
        int64_t until_at;
        const char *leased_by =
            holder ? NULL : sessions_lease_holder(s->all, &s->targets[i].worker, s, &until_at);
        if (!holder && !leased_by)
            continue;
        session_wait_for(s, leased_by ? xasprintf("%s, held by %s", url, leased_by)
                                      : xasprintf("%s, %s s%" PRId64, url,
                                                  holder->record.state == STATE_REQUESTED && !holder->leasing
                                                      ? "wanted before by"
                                                      : "held by",
                                                  holder->record.session_id));
        return true;
    }
    return false;
}

static void session_poll_load(struct session *s);

void session_begin_or_warm_up(struct session *s)
{
    session_wait_for(s, NULL);
    if (session_has_load(s))
        session_warm_up(s);
    else
        session_begin(s);
}

static void lease_or_begin(struct session *s)
{
    if (session_has_remote(s) && !s->leased)
        session_request_leases(s);
    else
        session_begin_or_warm_up(s);
}

static void session_on_load(const struct probe_answer *answers, void *arg)
{
    struct session *s = arg;
    size_t n_ready = 0, lowest = 0;

    s->probe = NULL;
    for (size_t i = 0; i < s->n_targets; i++) {
        n_ready += answers[i].running >= (double)s->request.when_running;
        if (answers[i].running < answers[lowest].running)
            lowest = i;
    }
    if (s->all->jobs.closing)
        return;
    bool blocked = is_blocked(s); /* somebody may have been quicker */
    if (n_ready == s->n_targets && !blocked) {
        lease_or_begin(s);
        return;
    }
    const char *url = s->targets[lowest].worker.url;
    if (n_ready < s->n_targets)
        session_wait_for(s,
                         answers[lowest].running < 0
                             ? xasprintf("%s does not report its number of running requests (/metrics)", url)
                             : xasprintf("%" PRId64 " running requests; %s has %.0f", s->request.when_running,
                                         url, answers[lowest].running));
    if (mono_ns() >= s->when_deadline_ns) {
        _cleanup_(freep) char *text = xasprintf("gave up waiting for %s", s->waiting_for);
        session_explain(s, "Send more requests, lower --when-running, or raise --timeout.", "%s", text);
        session_end_unstarted(s, STATE_CANCELLED);
        return;
    }
    session_timer(s, mono_ns() + WHEN_INTERVAL_NS, session_poll_load);
}

static void session_poll_load(struct session *s)
{
    session_timer_off(s); /* one probe at a time */
    session_probe(s, WHEN_CALL_TIMEOUT_NS, session_on_load);
}

void session_proceed(struct session *s)
{
    char text[UNIT_TEXT_MAX];

    if (s->record.state != STATE_REQUESTED || s->probe || s->warming || s->leasing || s->all->jobs.closing)
        return;
    if (s->lease_again_ns > mono_ns()) {
        session_timer(s, s->lease_again_ns, session_proceed);
        return; /* in line, as it was */
    }
    s->in_line = false;
    int64_t lead = s->request.start_at - session_lead_ns(s) - wall_ns();
    if (s->request.start_at > 0 && lead > 0) {
        session_wait_for(s, xasprintf("%s", format_time(text, s->request.start_at)));
        /* A wall clock may be set meanwhile: looked at again at least once a minute. */
        session_timer(s, mono_ns() + MIN(lead, 60 * NS_PER_S), session_proceed);
        return;
    }
    if (is_blocked(s)) {
        s->in_line = true;
        return;
    }
    if (s->request.when_running > 0) {
        if (s->when_deadline_ns == 0)
            s->when_deadline_ns = mono_ns() + s->request.when_timeout_ns;
        session_poll_load(s);
        return;
    }
    lease_or_begin(s);
}
