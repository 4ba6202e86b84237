/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the coordinator sends to a host about its part: lease, prepare, start, stop, release, and renewals of the lease.
 *
 * Every POST is idempotent at the host, so each is repeated until it is answered or its time is over; at most one is in
 * flight, and a later one replaces an earlier one.
 */
#include "daemon/hosts/part_internal.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "daemon/hosts/lease_body.h"
#include <errno.h>
#include <inttypes.h>

#define ASK_TRIES          3
#define RENEW_MAX_NS       (10 * NS_PER_S)
#define DURATION_MARGIN_NS (5 * NS_PER_S) /* a lease ends that long after the planned end */
/* A host that finds its workers first may take that long. */
#define LEASE_CALL_NS (15 * NS_PER_S)
#define START_CALL_NS (2 * NS_PER_S)
#define CLOCK_TRIES   3

static const struct backoff call_retry = {
    .first_ns = 200 * NS_PER_MS, .max_ns = 30 * NS_PER_S, .random_percent = 25};

/* What a host is told of the session's request; the rest is the coordinator's (daemon/session/leased.c). */
static const char *const passed_on[] = {
    "steps",      "duration_ns", "start_step",    "prompt",   "model",
    "activities", "with_stack",  "record_shapes", "by_stage", "labels",
};

static const struct {
    const char *path; /* behind /v1/leases/N */
    const char *unanswered;
} part_calls[] = {
    [PART_CALL_LEASE] = {NULL, "no answer yet to the request for its lease"},
    [PART_CALL_PREPARE] = {"prepare", "no answer yet to the request to prepare"},
    [PART_CALL_START] = {"start", "no answer yet to the start"},
    [PART_CALL_STOP] = {"stop", "no answer yet to the stop"},
    [PART_CALL_RELEASE] = {"release", "no answer yet to the release"},
};

const char *part_call_text(const struct part *part)
{
    return part_calls[part->calling].unanswered;
}

static struct session *part_session(const struct part *part)
{
    return part->of && !part->of->over ? part->of->session : NULL;
}

/* -- Bodies -- */

static json_t *part_urls(const struct part *part, bool only_stops)
{
    json_t *urls = json_array();

    for (size_t i = 0; i < part->n_targets; i++)
        if (!only_stops || part->targets[i].stop_asked)
            json_array_append_new(urls, json_text(part->targets[i].url));
    return urls;
}

static void part_put_lease(const struct part *part, json_t *body)
{
    const struct session *s = part_session(part);
    const struct peers_self self = peers_self(part->all->peers);
    json_t *coordinator = json_object();

    json_put_str(coordinator, "catalog", self.uuid);
    json_put_str(coordinator, "host", self.host);
    json_object_set_new(body, "coordinator", coordinator);
    json_put_str(body, "actor", s->record.requested_by);
    json_object_set_new(body, "workers", part_urls(part, false));
    json_put_int(body, "lease_ns", part->all->settings->lease_ns);
}

/* A recording whose end the coordinator decides has no duration at its hosts: with "stagger" they wait for stops. */
static json_t *part_request(const struct session *s)
{
    char error[200];
    _cleanup_json_ options =
        s->record.options ? json_parse(s->record.options, strlen(s->record.options), error) : NULL;
    json_t *request = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++) {
        json_t *value = json_object_get(options, passed_on[i]);
        if (value)
            json_object_set(request, passed_on[i], value);
    }
    if (s->request.stagger || (s->request.recording.duration_ns == 0 && s->request.recording.steps == 0))
        json_put_bool(request, "stagger", true);
    return request;
}

static void part_put_prepare(const struct part *part, json_t *body)
{
    json_t *workers = json_array();

    json_object_set_new(body, "request", part_request(part_session(part)));
    for (size_t i = 0; i < part->n_targets; i++) {
        const struct target *t = part->targets[i].target;
        json_t *worker = t ? json_object() : NULL;
        if (!worker)
            continue;
        json_object_set_new(worker, "url", json_text(t->worker.url));
        json_put_str(worker, "profile_id", t->record.profile_id);
        if (t->worker.shares_dir > 0)
            json_put_bool(worker, "shares_dir", true);
        if (t->worker.sizes.ranks > 0)
            json_put_int(worker, "ranks", t->worker.sizes.ranks);
        if (t->worker.role != ROLE_UNKNOWN)
            json_put_str(worker, "role", role_name(t->worker.role));
        json_array_append_new(workers, worker);
    }
    json_object_set_new(body, "workers", workers);
}

/* From now to when the host stops by itself, unless that is renewed. */
static int64_t part_deadline_ns(const struct part *part)
{
    int64_t until_start = MAX(part->of->go_at_ns - mono_ns(), INT64_C(0));
    int64_t length = part_is_open_ended(part)
                         ? part->all->settings->lease_ns
                         : part_session(part)->request.recording.duration_ns + DURATION_MARGIN_NS;

    return MIN(until_start + MAX(length, part->all->settings->lease_ns), LEASE_NS_MAX);
}

static void part_put_start(struct part *part, json_t *body)
{
    const struct session *s = part_session(part);
    json_t *clock = json_object(), *workers = json_array();

    json_put_int(body, "at_mono_ns", part->of->go_at_ns + part->clock.offset_ns);
    json_put_str(body, "boot_id", part->clock.boot_id);
    json_put_int(clock, "offset_ns", part->clock.wall_offset_ns);
    json_put_int(clock, "error_ns", part->clock.error_ns);
    json_object_set_new(body, "clock", clock);
    json_put_int(body, "deadline_ns", part_deadline_ns(part));
    for (size_t i = 0; i < part->n_targets; i++) {
        const struct target *t = part->targets[i].target;
        json_t *worker = t && t->record.state == STATE_STARTING ? json_object() : NULL;
        if (!worker)
            continue;
        json_object_set_new(worker, "url", json_text(t->worker.url));
        if (s->run_id > 0 && target_recording(t).start_step > 0)
            json_put_int(worker, "start_step", target_recording(t).start_step);
        json_put_str(worker, "output_dir", target_watched_dir(t));
        json_array_append_new(workers, worker);
    }
    json_object_set_new(body, "workers", workers);
    part->lease_end_ns = mono_ns() + part_deadline_ns(part);
}

/* Without a list, all of the part. */
static void part_put_stop(struct part *part, json_t *body)
{
    const struct session *s = part_session(part);
    bool all = true;

    for (size_t i = 0; i < part->n_targets; i++)
        all = all && part->targets[i].stop_asked;
    if (!all)
        json_object_set_new(body, "workers", part_urls(part, true));
    if (s && s->rolled_back)
        json_put_bool(body, "rolled_back", true);
    for (size_t i = 0; i < part->n_targets; i++)
        part->targets[i].stop_sent = part->targets[i].stop_asked;
}

static json_t *part_body(struct part *part, enum part_call call)
{
    json_t *body = json_object();

    json_put_str(body, "session", part->session_uuid);
    if (call == PART_CALL_LEASE)
        part_put_lease(part, body);
    else if (call == PART_CALL_PREPARE)
        part_put_prepare(part, body);
    else if (call == PART_CALL_START)
        part_put_start(part, body);
    else if (call == PART_CALL_STOP)
        part_put_stop(part, body);
    return body;
}

/* -- Answers -- */

static void part_on_leased(struct part *part, const json_t *body)
{
    const char *catalog = json_get_str(body, "catalog");
    int64_t lease = json_get_int(body, "lease", 0);

    if (!streq(catalog, part->record.host_uuid) || lease <= 0) {
        part_explain(part, "profctl list-hosts shows the state of each host.",
                     "another catalog answers at its address");
        part_event(part, PART_GONE);
        return;
    }
    part->record.lease_id = lease;
    part->lease_end_ns = mono_ns() + part->all->settings->lease_ns;
    part_renew_later(part);
    part_event(part, PART_OK);
}

static void part_on_accepted(struct part *part, enum part_call call, const json_t *body)
{
    switch (call) {
    case PART_CALL_LEASE:
        part_on_leased(part, body);
        break;
    case PART_CALL_PREPARE:
    case PART_CALL_START:
        part_event(part, PART_OK);
        break;
    case PART_CALL_RELEASE:
        if (part_is_final(part->state)) {
            part->record.open = false;
            if (part->record.part_id > 0)
                part_save(part);
            part_calls_end(part);
            if (!part->of)
                part_drop(part);
        }
        break;
    default:
        break; /* the poll shows what became of it */
    }
}

static void part_on_refused(struct part *part, enum part_call call, int status, const json_t *body,
                            const struct problem *p)
{
    const char *holder = json_get_str(json_object_get(body, "holder"), "session");
    const char *what = p && p->what ? p->what : "an error without a text";

    if (call == PART_CALL_RELEASE) {
        part_on_accepted(part, call, body); /* nothing is held any more, or not by this session */
        return;
    }
    if (call == PART_CALL_STOP) {
        if (status == 410)
            part_event(part, PART_GONE);
        return; /* else the poll decides */
    }
    part->is_busy = call == PART_CALL_LEASE && status == 409;
    if (uuid_is(holder))
        replace_str(&part->holder, holder);
    if (status == 410)
        part_explain(part, "Its catalog was restored or emptied, or the lease expired: start it again.",
                     "it has no such lease any more: %s", part_text_of(part, p, "gone"));
    else
        part_explain(part, p ? p->remedy : NULL, "%s", what);
    part_event(part, status == 410 ? PART_GONE : status == 409 ? PART_BUSY : PART_DENIED);
}

/* The lease was asked for, and is not wanted any more: with its number it is given back, or it would hold the workers
 * until it expires. */
static void part_on_unwanted(struct part *part, int status, const json_t *body)
{
    int64_t lease = status / 100 == 2 ? json_get_int(body, "lease", 0) : 0;

    part->is_abandoned = false;
    part->calling = PART_CALL_NONE;
    if (lease > 0 && streq(json_get_str(body, "catalog"), part->record.host_uuid)) {
        part->record.lease_id = lease;
        part->lease_end_ns = mono_ns() + part->all->settings->lease_ns;
        part_call(part, PART_CALL_RELEASE);
    } else if (!part->of) {
        part_drop(part);
    }
}

/* Whether a call that got no answer is sent again. */
static bool part_may_try_again(const struct part *part, enum part_call call)
{
    switch (call) {
    case PART_CALL_LEASE:
        return part->call_tries < ASK_TRIES;
    case PART_CALL_PREPARE:
    case PART_CALL_RELEASE:
        return mono_ns() < part->lease_end_ns;
    case PART_CALL_START:
        return true; /* until the timer of its session ends it */
    default:
        return part->of ? !part_is_overdue(part)
                        : wall_ns() < part->record.deadline_at; /* it may be recorded still */
    }
}

static void part_on_unanswered(struct part *part, enum part_call call, const struct problem *p)
{
    part_note_silence(part, p);
    struct timeval tv = timeval_of(backoff_ns(&call_retry, part->call_tries, backoff_random()));

    if (part_may_try_again(part, call)) {
        event_add(part->call_again, &tv);
        return;
    }
    if (call == PART_CALL_RELEASE) {
        part_on_accepted(part, call, NULL); /* the lease has expired */
        return;
    }
    part_explain(part, p && p->remedy ? p->remedy : "profctl list-hosts shows the state of each host.",
                 "does not answer: %s", part_text_of(part, p, "no answer"));
    part_event(part, PART_OVERDUE);
}

/* Of something in between, or of a host that is overloaded or restarts. */
static bool is_no_answer(int status)
{
    static const int passing[] = {0, 408, 425, 429, 502, 503, 504};

    for (size_t i = 0; i < ARRAY_SIZE(passing); i++)
        if (status == passing[i])
            return true;
    return false;
}

static void part_on_answer(int status, const json_t *body, const struct problem *p, void *arg)
{
    struct part *part = arg;
    struct peer_times times = peer_query_times(part->call);
    enum part_call call = part->calling;

    part->call = NULL;
    if (part->is_abandoned) {
        part_on_unwanted(part, status, body);
        return;
    }
    if (!is_no_answer(status)) {
        part_note_answer(part);
        if (times.sent_mono_ns > 0 && times.answered_mono_ns > 0)
            part->slowest_ns = MAX(part->slowest_ns, times.answered_mono_ns - times.sent_mono_ns);
    }
    if (is_no_answer(status)) {
        part_on_unanswered(part, call, p);
        return;
    }
    part->calling = PART_CALL_NONE;
    if (status / 100 == 2)
        part_on_accepted(part, call, body);
    else
        part_on_refused(part, call, status, body, p);
}

/* -- Sending -- */

static int64_t part_call_timeout_ns(const struct part *part, enum part_call call)
{
    if (call == PART_CALL_LEASE || call == PART_CALL_PREPARE)
        return MAX(LEASE_CALL_NS, part->all->settings->call_ns);
    return call == PART_CALL_START ? START_CALL_NS : part->all->settings->call_ns;
}

static void part_send(struct part *part)
{
    const struct peer *peer = part_peer(part);
    const char *path = part_calls[part->calling].path;
    _cleanup_(freep) char *full =
        path ? xasprintf("/v1/leases/%" PRId64 "/%s", part->record.lease_id, path) : xstrdup("/v1/leases");

    part->call_tries++;
    part->call_sent_ns = mono_ns();
    if (peer)
        part->call = peer_post(part->all->peers, peer, full, part_body(part, part->calling),
                               part_call_timeout_ns(part, part->calling), part_on_answer, part);
    else
        part_on_unanswered(part, part->calling, NULL);
}

static void on_call_again(evutil_socket_t fd, short what, void *arg)
{
    struct part *part = arg;

    /* The bodies of these are made of the session, which may be gone. */
    if (part_session(part) || part->calling == PART_CALL_STOP || part->calling == PART_CALL_RELEASE)
        part_send(part);
}

void part_call(struct part *part, enum part_call call)
{
    if (part->dropped)
        return;
    if (call == PART_CALL_RELEASE && part->calling == PART_CALL_LEASE && part->call) {
        part->calling = call;
        part->is_abandoned = true; /* part_on_unwanted() gives it back */
        return;
    }
    if (part->call)
        peer_query_cancel(TAKE_PTR(part->call));
    part->is_abandoned = false;
    if (!part->call_again)
        part->call_again = event_new(part->all->base, -1, 0, on_call_again, part);
    event_del(part->call_again);
    part->calling = call;
    part->call_tries = 0;
    if (call == PART_CALL_RELEASE && part->record.lease_id == RECORD_NONE) {
        /* Its number is not known: what the host may have granted expires. */
        part->calling = PART_CALL_NONE;
        return;
    }
    part_send(part);
}

/* -- Renewals -- */

static void part_on_renewed(int status, const json_t *body, const struct problem *p, void *arg)
{
    struct part *part = arg;

    part->renewal = NULL;
    if (status / 100 == 2) {
        part_note_answer(part);
        part->lease_end_ns = mono_ns() + part->all->settings->lease_ns;
    } else if (status == 410 && part->state < PART_RECORDING) {
        part_explain(part, "Start it again.", "its lease expired: %s", part_text_of(part, p, "gone"));
        part_event(part, PART_GONE);
    } else if (is_no_answer(status)) {
        part_note_silence(part, p);
    }
}

/* Before the start, and during a recording whose end the host does not know. */
static bool part_needs_renewal(const struct part *part)
{
    const struct session_parts *of = part->of;

    if (!of || part->dropped || part->state > PART_RECORDING || part->state == PART_ASKING)
        return false;
    return of->go_at_ns == 0 || part_is_open_ended(part);
}

static void on_renew(evutil_socket_t fd, short what, void *arg)
{
    struct part *part = arg;
    const struct peer *peer = part_peer(part);

    if (!part_needs_renewal(part))
        return;
    part_renew_later(part);
    if (part->renewal || !peer)
        return;
    int64_t until_start = part->of->go_at_ns > 0 ? MAX(part->of->go_at_ns - mono_ns(), INT64_C(0)) : 0;
    _cleanup_(freep) char *path = xasprintf("/v1/leases/%" PRId64 "/renew", part->record.lease_id);
    json_t *body = json_object();
    json_put_str(body, "session", part->session_uuid);
    json_put_int(body, "deadline_ns", MIN(until_start + part->all->settings->lease_ns, LEASE_NS_MAX));
    part->renewal = peer_post(part->all->peers, peer, path, body, 0, part_on_renewed, part);
}

void part_renew_later(struct part *part)
{
    struct timeval tv = timeval_of(MIN(part->all->settings->lease_ns / 3, RENEW_MAX_NS));

    if (!part->renew)
        part->renew = event_new(part->all->base, -1, 0, on_renew, part);
    event_add(part->renew, &tv);
}

/* -- Clocks -- */

static void part_on_clock(const struct clock_estimate *e, const struct problem *p, void *arg)
{
    struct part *part = arg;

    part->measuring = NULL;
    if (e) {
        part->clock = *e;
        part->measured = true;
        if (part->state == PART_PREPARING && part->host_armed)
            part_event(part, PART_OK);
        return;
    }
    if (++part->clock_tries < CLOCK_TRIES) {
        part_measure_clock(part);
        return;
    }
    if (part->state != PART_PREPARING && part->state != PART_LEASED)
        return; /* of one that recorded before a restart: its moments stay unknown */
    part_explain(part, p ? p->remedy : NULL, "its clock cannot be compared: %s",
                 part_text_of(part, p, "no answer"));
    part_event(part, PART_DENIED);
}

void part_measure_clock(struct part *part)
{
    const struct peer *peer = part_peer(part);

    if (peer)
        part->measuring =
            peer_measure_clock(part->all->peers, peer, CLOCK_EXCHANGES_DEFAULT, part_on_clock, part);
}

void part_calls_end(struct part *part)
{
    if (part->call)
        peer_query_cancel(TAKE_PTR(part->call));
    if (part->renewal)
        peer_query_cancel(TAKE_PTR(part->renewal));
    if (part->call_again)
        event_free(TAKE_PTR(part->call_again));
    if (part->renew)
        event_free(TAKE_PTR(part->renew));
    part->calling = PART_CALL_NONE;
}
