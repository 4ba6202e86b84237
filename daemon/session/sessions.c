/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session/sessions.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/session/internal.h"
#include <errno.h>
#include <inttypes.h>

/* -- Helpers of all phases -- */

struct timer_arg {
    void (*fn)(struct session *s);
    struct session *session;
};

static void on_session_timer(evutil_socket_t fd, short what, void *arg)
{
    struct timer_arg t = *(struct timer_arg *)arg;
    session_timer_off(t.session);
    t.fn(t.session);
}

void session_timer_off(struct session *s)
{
    if (!s->timer)
        return;
    free(event_get_callback_arg(s->timer));
    event_free(s->timer);
    s->timer = NULL;
}

void session_timer(struct session *s, int64_t deadline_ns, void (*fn)(struct session *s))
{
    struct timer_arg *arg = xcalloc(1, sizeof(*arg));
    struct timeval tv = timeval_until(deadline_ns);

    session_timer_off(s);
    *arg = (struct timer_arg){.fn = fn, .session = s};
    s->timer = event_new(s->all->jobs.base, -1, 0, on_session_timer, arg);
    event_add(s->timer, &tv);
}

struct session *session_alloc(struct sessions *all, size_t n_targets)
{
    struct session *s = xcalloc(1, sizeof(*s));

    s->all = all;
    s->n_targets = n_targets;
    s->requested_ns = mono_ns();
    s->targets = xcalloc(n_targets, sizeof(*s->targets));
    session_record_init(&s->record);
    for (size_t i = 0; i < n_targets; i++) {
        s->targets[i].session = s;
        s->targets[i].steps_before = s->targets[i].steps_before_load = -1;
        target_record_init(&s->targets[i].record);
        worker_init(&s->targets[i].worker);
    }
    TAILQ_INSERT_TAIL(&all->jobs.list, &s->job, next);
    return s;
}

static void target_release(struct target *t)
{
    if (t->recorder_state)
        target_recorder(t)->forget(t);
    on_demand_free(t);
    if (t->call)
        call_cancel(t->call);
    if (t->retry)
        event_free(t->retry);
    target_record_done(&t->record);
    worker_done(&t->worker);
    call_credentials_done(&t->credentials);
}

void session_free(struct session *s)
{
    TAILQ_REMOVE(&s->all->jobs.list, &s->job, next);
    probe_cancel(s->probe);
    session_timer_off(s);
    if (s->hard_timer)
        event_free(s->hard_timer);
    for (size_t i = 0; i < s->n_targets; i++)
        target_release(&s->targets[i]);
    free(s->targets);
    session_record_done(&s->record);
    job_request_done(&s->request);
    json_decref(s->remarks);
    free(s->waiting_for);
    free(s);
}

struct session *sessions_find(struct sessions *all, int64_t session_id)
{
    return (struct session *)jobs_find(&all->jobs, session_id);
}

/* -- The object -- */

/* Saves it with its targets while it is unsaved, and adds the event again: that of a failed commit is lost.
 * mark_unsaved() takes `resaved` back where one of them fails. */
static void save_again(struct session *s)
{
    s->resaved = true;
    session_save(s);
    if (s->event_unsaved)
        session_report_state(s);
}

static void on_saved_again(int err, void *arg)
{
    struct sessions *all = arg;
    struct live_job *job, *next;

    for (job = TAILQ_FIRST(&all->jobs.list); job; job = next) {
        struct session *s = (struct session *)job;
        next = TAILQ_NEXT(job, next);
        if (err < 0 || !s->resaved)
            continue;
        log_struct(LOG_NOTICE, LOG_FIELDS(.session_id = s->record.session_id),
                   "session s%" PRId64 ": the catalog has its state again", s->record.session_id);
        s->unsaved = s->event_unsaved = s->resaved = false;
        if (s->finished_unsaved)
            session_free(s);
    }
}

static void on_resave(evutil_socket_t fd, short what, void *arg)
{
    struct sessions *all = arg;
    struct session *s;

    SESSIONS_FOREACH(s, all)
        if (s->unsaved)
            save_again(s);
    catalog_then(all->jobs.catalog, false, on_saved_again, all);
}

bool session_has_pending_stop(const struct live_job *job)
{
    const struct session *s = (const struct session *)job;

    for (size_t i = 0; i < s->n_targets; i++)
        if (s->targets[i].record.stop_pending)
            return true;
    return false;
}

void sessions_log_pending_stops(struct jobs *jobs)
{
    const struct sessions *all = (const struct sessions *)jobs;
    const struct session *s;

    SESSIONS_FOREACH(s, all)
        for (size_t i = 0; i < s->n_targets; i++) {
            const struct target *t = &s->targets[i];
            if (t->record.stop_pending)
                log_struct(LOG_WARNING,
                           LOG_FIELDS(.session_id = s->record.session_id, .worker = t->worker.url,
                                      .message_id = MESSAGE_STOP_OWED),
                           "session s%" PRId64
                           ": %s has not answered its stop; the next profd sends it again",
                           s->record.session_id, t->worker.url);
        }
}

static void on_proceed(evutil_socket_t fd, short what, void *arg)
{
    struct sessions *all = arg;
    struct live_job *job, *next;

    for (job = TAILQ_FIRST(&all->jobs.list); job && !all->jobs.closing; job = next) {
        next = TAILQ_NEXT(job, next);
        if (job->created)
            session_proceed((struct session *)job);
    }
    jobs_check_shutdown(&all->jobs);
}

void sessions_wake(struct sessions *all)
{
    struct timeval at_once = {0};
    event_add(all->proceed, &at_once);
}

int sessions_new(struct event_base *base, struct offload *offload, struct caller *caller,
                 struct fleet_finder *finder, struct catalog *catalog,
                 const struct fleet_settings *fleet_settings, const struct session_settings *settings,
                 struct sessions **ret)
{
    struct sessions *all = xcalloc(1, sizeof(*all));

    *all = (struct sessions){
        .jobs = {.ops = &session_job_ops, .base = base, .catalog = catalog, .finder = finder},
        .offload = offload,
        .caller = caller,
        .fleet_settings = fleet_settings,
        .settings = settings,
        .boot_id = boot_id()};
    TAILQ_INIT(&all->jobs.list);
    all->resave = event_new(base, -1, 0, on_resave, all);
    all->proceed = event_new(base, -1, 0, on_proceed, all);
    *ret = all;
    return 0;
}

struct sessions *sessions_free(struct sessions *all)
{
    if (!all)
        return NULL;
    while (!TAILQ_EMPTY(&all->jobs.list))
        session_free((struct session *)TAILQ_FIRST(&all->jobs.list));
    event_free(all->resave);
    event_free(all->proceed);
    jobs_done(&all->jobs);
    free(all->boot_id);
    free(all);
    return NULL;
}

void sessions_set_collector(struct sessions *all, const struct collector_ops *ops, void *collector)
{
    all->collector_ops = ops;
    all->collector = collector;
}

int sessions_admit(const struct sessions *all, struct problem *p)
{
    const struct collector_ops *ops = all->collector_ops;

    return ops && ops->admit ? ops->admit(all->collector, p) : 0;
}

void sessions_set_loader(struct sessions *all, const struct loader_ops *ops, void *loader)
{
    all->loader_ops = ops;
    all->loader = loader;
}

void sessions_set_remote(struct sessions *all, const struct remote_ops *ops, void *remote)
{
    all->remote_ops = ops;
    all->remote = remote;
}

void sessions_set_lease_ops(struct sessions *all, const struct lease_ops *ops, void *leases)
{
    all->lease_ops = ops;
    all->leases = leases;
}

void sessions_set_kineto(struct sessions *all, struct kineto *kineto, const struct kineto_settings *settings)
{
    all->kineto = kineto;
    all->kineto_settings = settings;
}

/* -- Operations -- */

void session_stop(struct session *s)
{
    session_stop_load(s);
    switch (s->record.state) {
    case STATE_REQUESTED:
        probe_cancel(s->probe);
        s->probe = NULL;
        session_end_unstarted(s, STATE_CANCELLED);
        break;
    case STATE_STARTING:
        s->stop_wanted = true;
        if (s->starts_left)
            session_stop_all(s);
        else if (session_stop_preparing(s))
            ; /* it ends with the last of its own calls */
        else if (session_stop_unfetched(s))
            s->stop_wanted = false; /* the others cannot be called back */
        else if (s->timer || s->armed)
            session_give_up(s); /* it waited for its directories, or for its planned time */
        break;
    case STATE_RECORDING:
        session_stop_all(s);
        break;
    default:
        break; /* stops are on their way, or over */
    }
}

void session_stop_by(struct live_job *job, const char *actor)
{
    struct session *s = (struct session *)job;

    catalog_add_event(s->all->jobs.catalog, "session-stop", actor, job->id, RECORD_NONE, RECORD_NONE,
                      "stop requested while %s", state_name(s->record.state));
    if (s->record.state == STATE_REQUESTED)
        session_explain(s, NULL, "stopped before it began, by %s", actor);
    else if (session_is_leased(s))
        session_remark(s, NULL, NULL, "stopped by %s, on the host of its workers", actor);
    session_stop(s);
}

struct jobs *sessions_jobs(struct sessions *all)
{
    return &all->jobs;
}

/* -- What clients are shown: rows of the catalog, and from memory what no row has. Where the catalog could
 * not store a session's latest state (a full disk), that is memory's: what profd acts on, and logs. -- */

static void session_show_unsaved(const struct session *s, json_t *session)
{
    _cleanup_(freep) enum state *states = xcalloc(s->n_targets, sizeof(*states));
    json_t *targets = json_object_get(session, "targets"), *j;
    size_t i;

    for (i = 0; i < s->n_targets; i++)
        states[i] = s->targets[i].record.state;
    session_json_renew(session, &s->record, states, s->n_targets);
    json_array_foreach(targets, i, j)
        if (i < s->n_targets)
            target_json_renew(j, &s->targets[i].record);
}

/* What only this process knows of a target that is not over. */
static void session_show_target(const struct target *t, json_t *j)
{
    int64_t since = RECORD_NONE, until = RECORD_NONE;
    const char *silence = target_silence(t, &since, &until);

    json_put_int(j, "bytes_seen", target_bytes_seen(t));
    json_put_str(j, "silence", silence);
    if (!silence)
        return;
    json_put_int(j, "silent_since", since);
    if (until != RECORD_NONE)
        json_put_int(j, "silent_until", until);
}

int session_read(struct jobs *jobs, int64_t id, bool full, json_t **ret)
{
    const struct session *s = (const struct session *)jobs_find(jobs, id);
    json_t *j;
    size_t i;

    int err = catalog_session_json(jobs->catalog, id, full, ret);
    if (err < 0 || !s)
        return err;
    if (s->unsaved)
        session_show_unsaved(s, *ret);
    if (s->record.state == STATE_REQUESTED)
        json_put_str(*ret, "waiting_for", s->waiting_for);
    json_array_foreach(json_object_get(*ret, "targets"), i, j)
        if (i < s->n_targets && !state_is_final(s->targets[i].record.state))
            session_show_target(&s->targets[i], j);
    return 0;
}

/* -- Lists -- */

static int64_t session_id_at(const json_t *list, size_t i)
{
    const char *ref = json_get_str(json_array_get(list, i), "session");
    return ref ? strtoll(ref + 1, NULL, 10) : 0;
}

static bool is_listed_as(const struct session *s, const char *state)
{
    return !state || (streq(state, "active") ? !state_is_final(s->record.state)
                                             : streq(state, state_name(s->record.state)));
}

/* As the catalog would list it, had it taken its state. The newest come first. */
static int list_unsaved(const struct session *s, int64_t before_id, const char *state, json_t *list)
{
    int64_t id = s->record.session_id;
    json_t *item = NULL;
    size_t i = 0;

    while (i < json_array_size(list) && session_id_at(list, i) > id)
        i++;
    if (i < json_array_size(list) && session_id_at(list, i) == id)
        json_array_remove(list, i);
    if (!is_listed_as(s, state) || (before_id != RECORD_NONE && id >= before_id))
        return 0;
    int r = catalog_session_json(s->all->jobs.catalog, id, false, &item);
    if (r < 0)
        return r;
    session_show_unsaved(s, item);
    json_object_del(item, "remarks");
    json_object_del(item, "skipped");
    json_array_insert_new(list, i, item);
    return 0;
}

int sessions_list_json(struct sessions *all, int64_t limit, int64_t before_id, const char *state,
                       json_t **ret)
{
    _cleanup_json_ list = NULL;
    const struct session *s;
    int64_t n_unsaved = 0;

    SESSIONS_FOREACH(s, all)
        n_unsaved += s->unsaved;
    int r = catalog_sessions_json(all->jobs.catalog, limit + n_unsaved, before_id, state, &list);
    SESSIONS_FOREACH(s, all)
        if (s->unsaved && r == 0)
            r = list_unsaved(s, before_id, state, list);
    if (r < 0)
        return r;
    while (json_array_size(list) > (size_t)limit)
        json_array_remove(list, json_array_size(list) - 1);
    *ret = TAKE_PTR(list);
    return 0;
}

/* -- Metrics -- */

void sessions_count_call(struct target *t, enum session_call call, const struct call_result *r,
                         bool is_refused)
{
    struct session_metrics *m = &t->session->all->metrics;
    bool answered_well = r->err == 0 && r->status / 100 == 2 && !is_refused;

    m->calls[call][t->worker.engine][answered_well ? CALL_OK : r->err < 0 ? CALL_UNANSWERED : CALL_REFUSED]++;
    if (r->sent_at_ns > 0)
        histogram_add(&m->call_durations[call], r->answered_mono_ns - r->sent_mono_ns);
}

void sessions_count_end(const struct session *s)
{
    struct session_metrics *m = &s->all->metrics;
    const struct session_record *r = &s->record;

    m->ended[r->state]++;
    histogram_add(&m->durations, mono_ns() - s->requested_ns);
    if (r->skew_ns != RECORD_NONE)
        histogram_add(&m->start_skews, r->skew_ns);
}

const struct session_metrics *sessions_metrics(const struct sessions *all)
{
    return &all->metrics;
}

static void target_add_gauges(const struct target *t, struct session_gauges *g)
{
    g->targets[t->record.state]++;
    if (!t->record.stop_pending || t->record.state != STATE_STOPPING)
        return;
    g->stops_pending++;
    if (t->stop_sent_ns != 0)
        g->oldest_stop_sent_ns = MIN(g->oldest_stop_sent_ns, t->stop_sent_ns);
}

void sessions_gauges(const struct sessions *all, struct session_gauges *ret)
{
    struct session_gauges g = {.oldest_stop_sent_ns = INT64_MAX};
    const struct session *s;

    SESSIONS_FOREACH(s, all) {
        if (!state_is_final(s->record.state))
            g.sessions[s->record.state]++;
        for (size_t i = 0; i < s->n_targets; i++)
            target_add_gauges(&s->targets[i], &g);
    }
    *ret = g;
}
