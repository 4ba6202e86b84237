/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of a lease, for its coordinator: the session and its targets as they are, and the traces that changed since it
 * asked last, by the numbers of this catalog's changes. A coordinator that lost an answer asks for the same rows again.
 *
 * An answer is made right after a commit, from rows that are committed: a number that a failed commit takes back was never
 * told. Between two commits nothing is read, so a poll that waits costs nothing.
 */
#include "daemon/hosts/lease_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/catalog/uploads.h"
#include <errno.h>

struct lease_poll {
    TAILQ_ENTRY(lease_poll) next;
    struct leases *all;
    int64_t lease_id;
    char *session_uuid;
    char *sender;
    int64_t session_id; /* of this host; RECORD_NONE: none yet */
    int64_t after;
    struct event *timer;
    bool due;     /* something may have changed */
    bool is_late; /* it waited long enough */
    void (*done)(json_t *take_answer, const struct problem *p, void *arg);
    void *arg;
};

static void lease_poll_free(struct lease_poll *poll)
{
    TAILQ_REMOVE(&poll->all->polls, poll, next);
    event_free(poll->timer);
    free(poll->session_uuid);
    free(poll->sender);
    free(poll);
}

void lease_poll_cancel(struct lease_poll *poll)
{
    lease_poll_free(poll);
}

void lease_polls_free(struct leases *l)
{
    while (!TAILQ_EMPTY(&l->polls))
        lease_poll_free(TAILQ_FIRST(&l->polls));
}

/* -- The answer ----------------------------------------------------------------------------------------- */

/* Members of a target that the coordinator shows. */
static const char *const told_members[] = {
    "worker",       "state",       "profile_id", "output_dir", "trace_dir",  "ranks_expected",
    "start_status", "stop_status", "failure",    "remedy",     "bytes_seen",
};

/* Moments of a target, by this host's monotonic clock instead of its wall clock. */
static const struct {
    const char *at, *mono_ns;
} told_moments[] = {
    {"start_sent_at", "start_sent_mono_ns"},
    {"start_answered_at", "start_answered_mono_ns"},
    {"stop_sent_at", "stop_sent_mono_ns"},
    {"stop_answered_at", "stop_answered_mono_ns"},
};

/*
 * The wall clock minus the monotonic one when the session began: its moments are relative to that reading, so that a clock
 * which is set meanwhile changes none. After a restart by the clock of the boot. False where it began in an earlier boot.
 */
static bool lease_wall_minus_mono(struct leases *l, int64_t session_id, int64_t *ret)
{
    const struct session *s = sessions_find(l->modules.sessions, session_id);
    struct session_record r;

    if (s && s->begun_ns > 0) {
        *ret = s->record.begun_at - s->begun_ns;
        return true;
    }
    if (catalog_get_session(l->modules.catalog, session_id, &r) < 0)
        return false;
    bool known = r.begun_at != RECORD_NONE && r.begun_boot_ns != RECORD_NONE && r.boot_id &&
                 streq(r.boot_id, l->boot_id);
    *ret = known ? r.begun_at - (r.begun_boot_ns - (boot_ns() - mono_ns())) : 0;
    session_record_done(&r);
    return known;
}

static json_t *lease_tell_target(const json_t *target, bool begun, int64_t wall_minus_mono)
{
    json_t *told = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(told_members); i++) {
        json_t *value = json_object_get(target, told_members[i]);
        if (value)
            json_object_set(told, told_members[i], value);
    }
    for (size_t i = 0; i < ARRAY_SIZE(told_moments) && begun; i++) {
        int64_t at = json_get_int(target, told_moments[i].at, RECORD_NONE);
        if (at != RECORD_NONE)
            json_put_int(told, told_moments[i].mono_ns, at - wall_minus_mono);
    }
    return told;
}

/* Adds the session and its targets. */
static int lease_tell_session(struct leases *l, int64_t session_id, json_t *answer)
{
    json_t *session = NULL, *target;
    int64_t wall_minus_mono = 0;
    size_t i;

    int r = jobs_read(sessions_jobs(l->modules.sessions), session_id, true, &session);
    if (r < 0)
        return r == -ENOENT ? 0 : r; /* it was removed, with its traces */
    bool begun = lease_wall_minus_mono(l, session_id, &wall_minus_mono);
    json_t *targets = json_array();
    json_array_foreach(json_object_get(session, "targets"), i, target)
        json_array_append_new(targets, lease_tell_target(target, begun, wall_minus_mono));
    json_object_set_new(answer, "targets", targets);
    json_object_del(session, "targets");
    json_object_set_new(answer, "session", session);
    return 0;
}

struct trace_telling {
    json_t *list;
    int64_t last; /* number of the last change */
};

static int lease_tell_trace(const struct trace_record *r, int64_t seq, void *arg)
{
    struct trace_telling *t = arg;

    json_array_append_new(t->list, trace_record_to_json(r));
    t->last = seq;
    return 0;
}

/* Over: its session is, too, and the catalog has the end of that. */
static bool lease_is_over(const struct leases *l, const struct lease_found *found)
{
    return lease_is_final(found->state) &&
           (found->session_id == RECORD_NONE || !sessions_find(l->modules.sessions, found->session_id));
}

/* Until its traces are archived the coordinator goes on asking, so that it can tell from where they can be had. */
static bool lease_waits_for_archive(struct leases *l, const struct lease_found *found, int *ret_r)
{
    bool waits = false;

    if (found->session_id != RECORD_NONE)
        *ret_r = catalog_session_waits_for_archive(l->modules.catalog, found->session_id,
                                                   wall_ns() - LEASE_ARCHIVE_WAIT_NS, &waits);
    return waits;
}

/* *ret is NULL where nothing changed. */
static int lease_tell(struct leases *l, const struct lease_poll *poll, const struct lease_found *found,
                      json_t **ret)
{
    struct trace_telling traces = {.last = poll->after};
    int64_t changed = 0;
    int r = 0;

    traces.list = json_array();
    _cleanup_json_ answer = json_object();
    json_object_set_new(answer, "traces", traces.list);
    if (found->session_id != RECORD_NONE) {
        r = catalog_session_change(l->modules.catalog, found->session_id, &changed);
        if (r >= 0)
            r = catalog_each_changed_trace(l->modules.catalog, found->session_id, poll->after,
                                           LEASE_POLL_TRACES_MAX, lease_tell_trace, &traces);
    }
    bool has_all = json_array_size(traces.list) < LEASE_POLL_TRACES_MAX;
    bool over = r == 0 && lease_is_over(l, found) && has_all && !lease_waits_for_archive(l, found, &r);
    if (r < 0 || (changed <= poll->after && json_array_size(traces.list) == 0 && !over && !poll->is_late))
        return r;
    if (found->session_id != RECORD_NONE)
        r = lease_tell_session(l, found->session_id, answer);
    const struct session *s =
        found->session_id != RECORD_NONE ? sessions_find(l->modules.sessions, found->session_id) : NULL;
    json_put_int(answer, "lease", poll->lease_id);
    json_put_str(answer, "catalog", catalog_uuid(l->modules.catalog));
    json_put_str(answer, "state", lease_state_name(found->state));
    json_put_bool(answer, "armed", s && (s->armed || s->starts_left));
    json_put_bool(answer, "over", over);
    json_put_int(answer, "next", has_all ? MAX(MAX(changed, traces.last), poll->after) : traces.last);
    if (r == 0)
        *ret = TAKE_PTR(answer);
    return r;
}

/* -- Waiting -------------------------------------------------------------------------------------------- */

static void lease_poll_end(struct lease_poll *poll, json_t *take_answer, const struct problem *p)
{
    void (*done)(json_t * take_answer, const struct problem *p, void *arg) = poll->done;
    void *arg = poll->arg;

    lease_poll_free(poll);
    done(take_answer, p, arg);
}

static void lease_poll_look(struct lease_poll *poll)
{
    struct leases *l = poll->all;
    _cleanup_(problem_done) struct problem p = {0};
    struct lease_found found;
    json_t *answer = NULL;

    poll->due = false;
    if (!lease_find(l, poll->lease_id, poll->session_uuid, poll->sender, &found, &p)) {
        lease_poll_end(poll, NULL, &p);
        return;
    }
    poll->session_id = found.session_id;
    int r = lease_tell(l, poll, &found, &answer);
    if (r < 0) {
        catalog_problem(l->modules.catalog, r, &p, "cannot read what changed of the lease");
        lease_poll_end(poll, NULL, &p);
    } else if (answer) {
        lease_poll_end(poll, answer, NULL);
    }
}

/* After a commit; where that failed, memory is ahead of the catalog and a poll waits until its time is over. */
static void leases_on_settled(int err, void *arg)
{
    struct leases *l = arg;
    struct lease_poll *poll, *next;

    (void)err;
    for (poll = TAILQ_FIRST(&l->polls); poll && !l->closing; poll = next) {
        next = TAILQ_NEXT(poll, next);
        if (poll->due)
            lease_poll_look(poll);
    }
}

void leases_on_look(evutil_socket_t fd, short what, void *arg)
{
    struct leases *l = arg;
    catalog_then(l->modules.catalog, false, leases_on_settled, l);
}

static void leases_look_soon(struct leases *l)
{
    const struct timeval next_iteration = {0};

    if (!l->closing)
        event_add(l->look, &next_iteration);
}

void leases_wake_polls(struct leases *l)
{
    struct lease_poll *poll;

    TAILQ_FOREACH(poll, &l->polls, next)
        poll->due = true;
    if (!TAILQ_EMPTY(&l->polls))
        leases_look_soon(l);
}

/* Every change of a session, a target or a trace that matters is announced with the session. */
void leases_on_event(const json_t *event, void *arg)
{
    struct leases *l = arg;
    const char *ref = json_get_str(event, "session");
    struct lease_poll *poll;
    int64_t session_id;
    bool any = false;

    if (!ref || TAILQ_EMPTY(&l->polls) || parse_ref(ref, 's', &session_id) != 's')
        return;
    TAILQ_FOREACH(poll, &l->polls, next)
        if (poll->session_id == session_id)
            poll->due = any = true;
    if (any)
        leases_look_soon(l);
}

static void lease_poll_on_late(evutil_socket_t fd, short what, void *arg)
{
    struct lease_poll *poll = arg;

    poll->due = poll->is_late = true;
    leases_look_soon(poll->all);
}

struct lease_poll *leases_poll(struct leases *l, int64_t lease_id, const char *session_uuid,
                               const char *sender, int64_t after, int64_t wait_ns,
                               void (*done)(json_t *take_answer, const struct problem *p, void *arg),
                               void *arg)
{
    struct lease_poll *poll = xcalloc(1, sizeof(*poll));
    const struct timeval tv = timeval_of(MIN(wait_ns, LEASE_POLL_WAIT_MAX));

    *poll = (struct lease_poll){.all = l,
                                .lease_id = lease_id,
                                .session_uuid = xstrdup(session_uuid),
                                .sender = xstrdup(sender),
                                .session_id = RECORD_NONE,
                                .after = after,
                                .due = true,
                                .done = done,
                                .arg = arg};
    poll->timer = evtimer_new(l->modules.base, lease_poll_on_late, poll);
    if (!poll->timer)
        abort(); /* as base/alloc.h */
    event_add(poll->timer, &tv);
    TAILQ_INSERT_TAIL(&l->polls, poll, next);
    leases_look_soon(l);
    return poll;
}
