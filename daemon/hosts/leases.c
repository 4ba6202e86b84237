/* SPDX-License-Identifier: Apache-2.0 */
/* The leases that are not over: their states, deadlines and sessions, and what of them outlives a restart. */
#include "daemon/hosts/lease_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <inttypes.h>

/* Timers do not count the time that a host is suspended, and boot_ns() does: deadlines are looked at again this often. */
#define LEASE_LOOK_NS (10 * NS_PER_S)
/* Before its start, a grant or a renewal keeps workers at most for that long: the most that [hosts] lease= of a coordinator may
 * be. */
#define LEASE_SILENT_NS_MAX (300 * NS_PER_S)

/* -- Finding -------------------------------------------------------------------------------------------- */

struct lease *lease_by_id(const struct leases *l, int64_t lease_id)
{
    struct lease *lease;

    TAILQ_FOREACH(lease, &l->list, next)
        if (lease->record.lease_id == lease_id)
            return lease;
    return NULL;
}

struct lease *lease_by_session(const struct leases *l, const char *session_uuid)
{
    struct lease *lease;

    TAILQ_FOREACH(lease, &l->list, next)
        if (streq(lease->record.session_uuid, session_uuid))
            return lease;
    return NULL;
}

struct session *lease_session(const struct lease *lease)
{
    int64_t id = lease->record.session_id;
    return id == RECORD_NONE ? NULL : sessions_find(lease->all->modules.sessions, id);
}

enum lease_state lease_state_now(const struct lease *lease)
{
    const struct session *s = lease_session(lease);
    return s ? lease_follow(lease->state, s->record.state, s->starts_left) : lease->state;
}

/* Of a row whose lease is not in memory: it is over, whatever the catalog could take. */
static enum lease_state lease_state_of_row(const struct lease_record *r)
{
    int state = lease_state_from_stored(r->state);

    if (state >= 0 && lease_is_final((enum lease_state)state))
        return (enum lease_state)state;
    return r->session_id != RECORD_NONE ? LEASE_OVER : LEASE_EXPIRED;
}

bool lease_find(struct leases *l, int64_t lease_id, const char *session_uuid, const char *sender,
                struct lease_found *ret, struct problem *p)
{
    struct lease *lease = lease_by_id(l, lease_id);
    struct lease_record r;

    *ret = (struct lease_found){.state = LEASE_EXPIRED, .session_id = RECORD_NONE};
    if (lease && streq(lease->record.session_uuid, session_uuid) && streq(lease->record.granted_to, sender)) {
        *ret = (struct lease_found){lease, lease_state_now(lease), lease->record.session_id};
        return true;
    }
    int err = catalog_get_lease(l->modules.catalog, lease_id, &r);
    if (err < 0 && err != -ENOENT) {
        catalog_problem(l->modules.catalog, err, p, "cannot read lease %" PRId64, lease_id);
        return false;
    }
    bool found = err == 0 && streq(r.session_uuid, session_uuid) && streq(r.granted_to, sender);
    if (found)
        *ret = (struct lease_found){NULL, lease_state_of_row(&r), r.session_id};
    if (err == 0)
        lease_record_done(&r);
    if (!found) {
        problem_set(p, -ESTALE, PROBLEM_GONE,
                    "catalog %s of this host has no lease %" PRId64 " of session %s",
                    catalog_uuid(l->modules.catalog), lease_id, session_uuid);
        problem_remedy(p, "Its catalog was replaced, or the lease is another coordinator's: ask for one.");
    }
    return found;
}

int leases_find(struct leases *l, const char *session_uuid, const char *sender, int64_t *ret_lease_id,
                const char **ret_state)
{
    const struct lease *lease = lease_by_session(l, session_uuid);
    struct lease_record r;

    *ret_lease_id = 0;
    *ret_state = NULL;
    if (lease && !streq(lease->record.granted_to, sender))
        return 0;
    if (lease && lease->committed) {
        *ret_lease_id = lease->record.lease_id;
        *ret_state = lease_state_name(lease_state_now(lease));
        return 0;
    }
    int err = catalog_find_lease(l->modules.catalog, session_uuid, &r);
    if (err == 0 && streq(r.granted_to, sender)) {
        *ret_lease_id = r.lease_id;
        *ret_state = lease_state_name(lease_state_of_row(&r));
    }
    if (err == 0)
        lease_record_done(&r);
    return err == -ENOENT ? 0 : err;
}

char *lease_actor(const struct lease *lease)
{
    return xasprintf("%s on %s", lease->record.actor, lease->record.coordinator_name);
}

/* -- States --------------------------------------------------------------------------------------------- */

struct lease *lease_alloc(struct leases *l)
{
    struct lease *lease = xcalloc(1, sizeof(*lease));

    lease->all = l;
    lease_record_init(&lease->record);
    TAILQ_INSERT_TAIL(&l->list, lease, next);
    return lease;
}

void lease_free(struct lease *lease)
{
    struct leases *l = lease->all;

    TAILQ_REMOVE(&l->list, lease, next);
    if (lease->creation)
        job_creation_cancel(lease->creation);
    for (size_t i = 0; i < lease->n_urls; i++)
        free(lease->urls[i]);
    free(lease->urls);
    fleet_free(lease->fleet);
    lease_record_done(&lease->record);
    free(lease);
}

/* A row that the catalog does not take is of a lease that is over after the next restart, as it would be anyway. */
void lease_save(struct lease *lease)
{
    struct leases *l = lease->all;

    replace_str(&lease->record.state, lease_state_stored(lease->state));
    int r = catalog_save_lease(l->modules.catalog, &lease->record);
    if (r < 0)
        log_warning("lease %" PRId64 ": the catalog cannot take its state: %s", lease->record.lease_id,
                    strerror(-r));
}

static void lease_report(struct lease *lease, enum lease_state to)
{
    _cleanup_(freep) char *actor = lease_actor(lease);
    struct leases *l = lease->all;

    if (to == LEASE_RELEASED || to == LEASE_EXPIRED)
        catalog_add_event(l->modules.catalog, to == LEASE_RELEASED ? "lease-released" : "lease-expired",
                          actor, lease->record.session_id, RECORD_NONE, RECORD_NONE,
                          "lease %" PRId64 ", %zu workers", lease->record.lease_id, lease->n_urls);
    log_info("lease %" PRId64 " of %s is %s", lease->record.lease_id, actor, lease_state_name(to));
    l->metrics.released += to == LEASE_RELEASED;
    l->metrics.expired += to == LEASE_EXPIRED;
}

void lease_set_state(struct lease *lease, enum lease_state to)
{
    struct leases *l = lease->all;
    _cleanup_(problem_done) struct problem p = {0};

    lease->state = to;
    lease_save(lease);
    leases_wake_polls(l);
    if (!lease_is_final(to)) {
        leases_arm(l);
        return;
    }
    lease_report(lease, to);
    lease_problem(LEASE_REPLY_GONE, to, LEASE_PREPARE, &p);
    lease_calls_end(l, LEASE_WAITS_COMMIT, lease->record.lease_id, lease, &p);
    lease_calls_end(l, LEASE_WAITS_CREATION, lease->record.lease_id, lease, &p);
    lease_calls_end(l, LEASE_WAITS_START, lease->record.lease_id, lease, &p);
    lease_free(lease);
    leases_arm(l);
    sessions_wake(l->modules.sessions);
}

static void session_stop_entirely(struct session *s)
{
    _cleanup_(freep) const char **urls = xcalloc(s->n_targets, sizeof(*urls));

    for (size_t i = 0; i < s->n_targets; i++)
        urls[i] = s->targets[i].worker.url;
    session_stop_workers(s, urls, s->n_targets);
}

void lease_apply(struct lease *lease, enum lease_event event)
{
    struct session *s = lease_session(lease);
    struct lease_effect effect;
    enum lease_state now = lease_state_now(lease), to = lease_next(now, event, &effect);

    if (to != now)
        lease_set_state(lease, to);
    /* May end the session, and with it the lease. */
    if (effect.action == LEASE_DO_STOP && s)
        session_stop_entirely(s);
}

/* -- Deadlines ------------------------------------------------------------------------------------------ */

/*
 * Renewals have an end: nobody on this host could get its workers back from a coordinator, or a thief of its token, that
 * never starts. An honest one meanwhile waits for other hosts and for a warm-up of its workload, for which it has the
 * length of a session here, and then has its session prepared.
 */
int64_t lease_start_within_ns(const struct lease *lease)
{
    const struct session_settings *s = lease->all->modules.settings;
    int64_t limit_ns = s->session_limit_ns + s->clean_timeout_ns + s->start_timeout_ns;

    return lease->granted_boot_ns + limit_ns - boot_ns();
}

int64_t lease_latest_ns(const struct lease *lease, int64_t at_mono_ns)
{
    const struct session_settings *s = lease->all->modules.settings;
    enum lease_state state = lease_state_now(lease);
    int64_t recording_ns = s->start_timeout_ns + s->session_limit_ns;

    if (at_mono_ns > 0)
        return MAX(at_mono_ns - mono_ns(), INT64_C(0)) + recording_ns;
    if (state == LEASE_WAITING)
        return lease_start_within_ns(lease) + recording_ns;
    return state < LEASE_WAITING ? MIN(lease_start_within_ns(lease), LEASE_SILENT_NS_MAX) : recording_ns;
}

void lease_set_deadline(struct lease *lease, int64_t from_now_ns)
{
    lease->record.deadline_boot_ns = boot_ns() + from_now_ns;
    leases_arm(lease->all);
}

/* The session of a lease has the deadline as a limit of its recording, and ends that by itself. */
static bool lease_may_expire(const struct lease *lease)
{
    return lease_state_now(lease) <= LEASE_WAITING;
}

void leases_arm(struct leases *l)
{
    int64_t first = LEASE_LOOK_NS;
    const struct lease *lease;
    bool any = false;

    TAILQ_FOREACH(lease, &l->list, next)
        if (lease_may_expire(lease)) {
            first = MIN(first, lease->record.deadline_boot_ns - boot_ns());
            any = true;
        }
    if (!any) {
        event_del(l->deadline);
        return;
    }
    const struct timeval tv = timeval_of(MAX(first, INT64_C(0)));
    event_add(l->deadline, &tv);
}

static struct lease *leases_find_expired(const struct leases *l)
{
    struct lease *lease;

    TAILQ_FOREACH(lease, &l->list, next)
        if (lease_may_expire(lease) && lease->record.deadline_boot_ns <= boot_ns())
            return lease;
    return NULL;
}

static void leases_on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct leases *l = arg;
    struct lease *lease;

    while ((lease = leases_find_expired(l)))
        lease_apply(lease, LEASE_DEADLINE);
    leases_arm(l);
}

/* -- Its session ---------------------------------------------------------------------------------------- */

/* Armed is no column: with its row saved again, a poll that waits for a change is answered. */
static void leases_on_armed(struct session *s, void *arg)
{
    struct lease *lease = lease_by_id(arg, s->record.lease_id);

    session_save(s);
    leases_wake_polls(arg);
    if (lease)
        lease_go(lease);
}

static void leases_on_ended(struct session *s, void *arg)
{
    struct leases *l = arg;
    struct lease *lease = lease_by_id(l, s->record.lease_id);

    leases_wake_polls(l);
    if (!lease)
        return;
    bool expired =
        lease->state <= LEASE_WAITING && !s->starts_left && lease->record.deadline_boot_ns <= boot_ns();
    lease_set_state(lease, lease_next(lease->state, expired ? LEASE_DEADLINE : LEASE_SESSION_ENDED, NULL));
}

static const struct lease_ops leases_ops = {
    .holder = leases_holder_text,
    .armed = leases_on_armed,
    .ended = leases_on_ended,
};

/* -- After a restart ------------------------------------------------------------------------------------ */

static int lease_rebuild(const struct lease_record *r, void *arg)
{
    struct leases *l = arg;
    struct lease *lease = lease_alloc(l);
    int stored = lease_state_from_stored(r->state);
    char error[200];
    _cleanup_json_ urls = r->workers ? json_parse(r->workers, strlen(r->workers), error) : NULL;

    lease->record = (struct lease_record){.lease_id = r->lease_id,
                                          .session_uuid = xstrdup(r->session_uuid),
                                          .coordinator = xstrdup(r->coordinator),
                                          .coordinator_name = xstrdup(r->coordinator_name),
                                          .actor = xstrdup(r->actor),
                                          .state = xstrdup(r->state),
                                          .workers = xstrdup(r->workers),
                                          .granted_at = r->granted_at,
                                          .deadline_boot_ns = r->deadline_boot_ns,
                                          .boot_id = xstrdup(r->boot_id),
                                          .granted_to = xstrdup(r->granted_to),
                                          .session_id = r->session_id};
    lease->state = stored < 0 ? LEASE_GRANTED : (enum lease_state)stored;
    lease->committed = true;
    lease->urls = xcalloc(json_array_size(urls) + 1, sizeof(*lease->urls));
    for (size_t i = 0; i < json_array_size(urls); i++) {
        const char *url = json_string_value(json_array_get(urls, i));
        if (url)
            lease->urls[lease->n_urls++] = xstrdup(url);
    }
    return 0;
}

static void lease_resume(struct lease *lease)
{
    bool rebooted = !lease->record.boot_id || !streq(lease->record.boot_id, lease->all->boot_id);
    const struct session *s = lease_session(lease);
    enum lease_state now = lease_state_now(lease);

    if (now >= LEASE_WAITING && (!s || state_is_final(s->record.state)))
        now = LEASE_OVER;
    else
        now = lease_next(now, rebooted ? LEASE_REBOOT : LEASE_RESTART, NULL);
    if (lease_is_final(now))
        lease_set_state(lease, now);
}

int leases_recover(struct leases *l)
{
    int r = catalog_each_open_lease(l->modules.catalog, lease_rebuild, l);
    struct lease *lease, *next;

    for (lease = TAILQ_FIRST(&l->list); lease && r >= 0; lease = next) {
        next = TAILQ_NEXT(lease, next);
        lease_resume(lease);
    }
    return r;
}

/* -- The object ----------------------------------------------------------------------------------------- */

int leases_new(const struct leases_modules *modules, struct leases **ret)
{
    struct leases *l = xcalloc(1, sizeof(*l));

    *l = (struct leases){.modules = *modules, .boot_id = boot_id()};
    TAILQ_INIT(&l->list);
    TAILQ_INIT(&l->calls);
    TAILQ_INIT(&l->polls);
    l->deadline = event_new(modules->base, -1, 0, leases_on_deadline, l);
    l->look = event_new(modules->base, -1, 0, leases_on_look, l);
    if (!l->deadline || !l->look)
        abort(); /* as base/alloc.h */
    catalog_on_event(modules->catalog, leases_on_event, l);
    sessions_set_lease_ops(modules->sessions, &leases_ops, l);
    *ret = l;
    return 0;
}

void leases_close(struct leases *l)
{
    struct lease *lease;

    l->closing = true;
    while (!TAILQ_EMPTY(&l->calls))
        lease_call_free(TAILQ_FIRST(&l->calls));
    lease_polls_free(l);
    TAILQ_FOREACH(lease, &l->list, next)
        if (lease->creation) {
            job_creation_cancel(lease->creation);
            lease->creation = NULL;
        }
    event_del(l->deadline);
    event_del(l->look);
}

struct leases *leases_free(struct leases *l)
{
    if (!l)
        return NULL;
    leases_close(l);
    while (!TAILQ_EMPTY(&l->list))
        lease_free(TAILQ_FIRST(&l->list));
    event_free(l->deadline);
    event_free(l->look);
    free(l->holder_text);
    free(l->boot_id);
    free(l);
    return NULL;
}

const struct lease_metrics *leases_metrics(const struct leases *l)
{
    return &l->metrics;
}

void leases_count(const struct leases *l, uint64_t ret[static _LEASE_STATE_MAX])
{
    const struct lease *lease;

    for (int s = 0; s < _LEASE_STATE_MAX; s++)
        ret[s] = 0;
    TAILQ_FOREACH(lease, &l->list, next)
        ret[lease_state_now(lease)]++;
}
