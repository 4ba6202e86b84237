/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every change of a session's or target's state: checked against the table, written to the catalog's open
 * transaction, published as an event. A catalog that cannot store it does not block the session (a pending
 * stop must be sent even if the disk is full): the session is marked and saved again until that succeeds.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/session/internal.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>

#define RESAVE_INTERVAL_NS (2 * NS_PER_S)

/* -- The table -- */

#define TO(s) (1u << (s))

static const unsigned transitions[_STATE_MAX] = {
    [STATE_REQUESTED] = TO(STATE_STARTING) | TO(STATE_FAILED) | TO(STATE_CANCELLED),
    /* To stopping without recording: a start that timed out or was rolled back has a stop pending. */
    [STATE_STARTING] = TO(STATE_RECORDING) | TO(STATE_STOPPING) | TO(STATE_FAILED) | TO(STATE_CANCELLED),
    [STATE_RECORDING] = TO(STATE_STOPPING) | TO(STATE_FAILED),
    [STATE_STOPPING] = TO(STATE_COLLECTING) | TO(STATE_COMPLETE) | TO(STATE_FAILED) | TO(STATE_CANCELLED),
    [STATE_COLLECTING] = TO(STATE_COMPLETE) | TO(STATE_PARTIAL) | TO(STATE_FAILED) | TO(STATE_CANCELLED),
};

bool transition_exists(enum state from, enum state to)
{
    return transitions[from] & TO(to);
}

enum state session_outcome(const enum state *targets, size_t n)
{
    size_t count[_STATE_MAX] = {0};

    for (size_t i = 0; i < n; i++)
        count[targets[i]]++;
    if (n > 0 && count[STATE_COMPLETE] == n)
        return STATE_COMPLETE;
    if (count[STATE_COMPLETE] + count[STATE_PARTIAL] > 0)
        return STATE_PARTIAL;
    return count[STATE_CANCELLED] == n ? STATE_CANCELLED : STATE_FAILED;
}

/* -- The catalog -- */

static void session_mark_unsaved(struct session *s, int err)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (!s->unsaved) {
        catalog_problem(s->all->jobs.catalog, err, &p, "the catalog cannot take its state");
        log_struct(LOG_ERR, LOG_FIELDS(.session_id = s->record.session_id),
                   "session s%" PRId64 ": %s; going on, and trying again", s->record.session_id, p.what);
    }
    s->unsaved = true;
    s->event_unsaved |= err != -EBUSY;
    s->resaved = false;
    struct timeval tv = timeval_of(RESAVE_INTERVAL_NS);
    event_add(s->all->resave, &tv);
}

static void session_on_saved(int err, void *arg)
{
    if (err < 0)
        session_mark_unsaved(arg, err);
}

/* A successful write can still be lost if its commit batch fails, possibly because of another module's write.
 */
static void session_watch_commit(struct session *s, int written)
{
    if (written < 0)
        session_mark_unsaved(s, written);
    catalog_then(s->all->jobs.catalog, false, session_on_saved, s);
}

/* What the catalog missed of the targets goes before what follows from it: one that ends here has no later.
 */
void session_save(struct session *s)
{
    int r = 0;

    if (s->remarks) {
        free(s->record.remarks);
        s->record.remarks = json_dumps(s->remarks, JSON_COMPACT);
    }
    for (size_t i = 0; i < s->n_targets && r >= 0 && s->unsaved; i++)
        r = catalog_save_target(s->all->jobs.catalog, &s->targets[i].record);
    session_watch_commit(s, r < 0 ? r : catalog_save_session(s->all->jobs.catalog, &s->record));
}

void target_save(struct target *t)
{
    session_watch_commit(t->session, catalog_save_target(t->session->all->jobs.catalog, &t->record));
}

void session_save_targets(struct session *s, enum state from, enum state to, bool stop_pending)
{
    session_watch_commit(
        s, catalog_move_targets(s->all->jobs.catalog, s->record.session_id, from, to, stop_pending));
}

/* What an operator looks up of a session's life. */
static const char *const message_of_state[_STATE_MAX] = {
    [STATE_STARTING] = MESSAGE_SESSION_STARTED,
    [STATE_COMPLETE] = MESSAGE_SESSION_COMPLETE,
    [STATE_PARTIAL] = MESSAGE_SESSION_FAILED,
    [STATE_FAILED] = MESSAGE_SESSION_FAILED,
};

void session_report_state(struct session *s)
{
    catalog_add_event(s->all->jobs.catalog, "session-state", "profd", s->record.session_id, RECORD_NONE,
                      RECORD_NONE, "%s%s%s", state_name(s->record.state), s->record.reason ? ": " : "",
                      s->record.reason ? s->record.reason : "");
}

void session_change_state(struct session *s, enum state to)
{
    assert(transition_exists(s->record.state, to));
    s->record.state = to;
    s->job.is_over = state_is_final(to);
    session_save(s);
    session_report_state(s);
    log_struct(LOG_INFO, LOG_FIELDS(.session_id = s->record.session_id, .message_id = message_of_state[to]),
               "session s%" PRId64 " is %s%s%s", s->record.session_id, state_name(to),
               s->record.reason ? ": " : "", s->record.reason ? s->record.reason : "");
}

static void target_report_state(struct target *t)
{
    catalog_add_event(t->session->all->jobs.catalog, "target-state", "profd", t->session->record.session_id,
                      t->record.target_id, RECORD_NONE, "%s %s%s%s", t->worker.url,
                      state_name(t->record.state), t->record.failure ? ": " : "",
                      t->record.failure ? t->record.failure : "");
}

void session_change_targets(struct session *s, enum state from, enum state to)
{
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        if (state_is_final(t->record.state))
            continue;
        assert(t->record.state == from && transition_exists(from, to));
        t->record.state = to;
    }
    session_save_targets(s, from, to, false);
    for (size_t i = 0; i < s->n_targets; i++)
        if (s->targets[i].record.state == to)
            target_report_state(&s->targets[i]);
}

/* Whoever collects it need not any more. */
static void target_forget_collecting(struct target *t)
{
    struct sessions *all = t->session->all;

    if (target_is_remote(t) && all->remote_ops)
        all->remote_ops->forget(t, all->remote);
    else if (!target_is_remote(t) && all->collector_ops)
        all->collector_ops->forget(t, all->collector);
}

void target_change_state(struct target *t, enum state to)
{
    assert(transition_exists(t->record.state, to));
    t->record.state = to;
    target_save(t);
    target_report_state(t);
    if (to == STATE_FAILED)
        log_struct(LOG_WARNING,
                   LOG_FIELDS(.session_id = t->session->record.session_id, .worker = t->worker.url),
                   "session s%" PRId64 ": %s: %s", t->session->record.session_id, t->worker.url,
                   t->record.failure ? t->record.failure : "failed");
    if (to >= STATE_COLLECTING)
        target_lead(t);
    if (state_is_final(to))
        target_forget_collecting(t);
}

void target_fail(struct target *t, const char *failure, const char *remedy)
{
    if (!t->record.failure) {
        t->record.failure = xstrdup(failure);
        replace_str(&t->record.remedy, remedy);
    }
}

void session_explain(struct session *s, const char *remedy, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    job_explain(&s->record.reason, &s->record.remedy, remedy, format, ap);
    va_end(ap);
}

void session_remark(struct session *s, const struct target *t, const char *remedy, const char *format, ...)
{
    json_t *item = json_object();
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    json_put_bool(item, "refuses", false);
    json_put_str(item, "worker", t ? t->worker.url : NULL);
    json_put_str(item, "text", text);
    json_put_str(item, "remedy", remedy);
    if (!s->remarks)
        s->remarks = json_array();
    json_array_append_new(s->remarks, item);
    catalog_add_event(s->all->jobs.catalog, "remark", "profd", s->record.session_id,
                      t ? t->record.target_id : RECORD_NONE, RECORD_NONE, "%s%s%s", t ? t->worker.url : "",
                      t ? " " : "", text);
}

/* After the commit of its last state. One that could not be saved stays in memory until it can. */
static void session_on_finished(int err, void *arg)
{
    struct session *s = arg;

    (void)err; /* session_on_saved() was called with it before */
    if (s->unsaved)
        s->finished_unsaved = true;
    else
        session_free(s);
}

/* A session follows its targets to their end, wherever it was itself. */
static void session_follow_targets(struct session *s, enum state outcome)
{
    static const enum state on_the_way[_STATE_MAX] = {
        [STATE_STARTING] = STATE_STOPPING,
        [STATE_RECORDING] = STATE_STOPPING,
        [STATE_STOPPING] = STATE_COLLECTING,
    };

    if (s->record.state == STATE_RECORDING)
        session_change_state(s, STATE_STOPPING);
    while (!transition_exists(s->record.state, outcome))
        session_change_state(s, on_the_way[s->record.state]);
}

size_t session_count_state(const struct session *s, enum state state)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_targets; i++)
        n += s->targets[i].record.state == state;
    return n;
}

const struct target *session_first_failed(const struct session *s)
{
    for (size_t i = 0; i < s->n_targets; i++)
        if (s->targets[i].record.failure)
            return &s->targets[i];
    return NULL;
}

void session_end_unstarted(struct session *s, enum state to)
{
    session_give_back(s);
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        t->record.stop_pending = false;
        if (!state_is_final(t->record.state))
            target_change_state(t, to);
    }
    session_check_finished(s);
}

static void explain_outcome(struct session *s)
{
    size_t n_complete = session_count_state(s, STATE_COMPLETE);
    const struct target *first = session_first_failed(s);

    if (n_complete < s->n_targets && first)
        session_explain(s, first->record.remedy, "%zu of %zu workers are complete; %s: %s", n_complete,
                        s->n_targets, first->worker.url, first->record.failure);
}

void session_check_finished(struct session *s)
{
    if (state_is_final(s->record.state))
        return;
    while (s->n_finished < s->n_targets && state_is_final(s->targets[s->n_finished].record.state))
        s->n_finished++;
    if (s->n_finished < s->n_targets)
        return;
    _cleanup_(freep) enum state *states = xcalloc(s->n_targets, sizeof(*states));
    for (size_t i = 0; i < s->n_targets; i++)
        states[i] = s->targets[i].record.state;
    enum state outcome = session_outcome(states, s->n_targets);
    session_follow_targets(s, outcome);
    session_timer_off(s);
    if (s->hard_timer)
        event_del(s->hard_timer);
    s->record.finished_at = wall_ns();
    explain_outcome(s);
    session_change_state(s, outcome);
    sessions_count_end(s);
    if (s->all->collector_ops)
        s->all->collector_ops->ended(s, s->all->collector);
    if (session_is_leased(s) && s->all->lease_ops)
        s->all->lease_ops->ended(s, s->all->leases);
    if (!s->loads)
        session_stop_load(s);
    sessions_wake(s->all);
    catalog_then(s->all->jobs.catalog, false, session_on_finished, s);
}
