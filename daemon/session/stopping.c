/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops: sent to every target that has a stop pending. Only their answer or their own deadline ends them.
 *
 * A worker writes its traces before it answers, which may take half an hour. A connection that breaks
 * meanwhile is tried again; whether a repeated stop succeeded is decided by the traces, not by its status.
 * After its stop, each target is passed to the collector separately; the session follows after the last
 * answer.
 */
#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/session/internal.h"
#include <errno.h>
#include <inttypes.h>

/* A call that timed out at the deadline may end a moment before it. */
#define DEADLINE_SLACK_NS (50 * NS_PER_MS)
#define REFUSED_TRIES     3 /* nobody listens any more: the process is gone, and its profiler with it */
/* A stop that the engine says has failed is sent again this often: one that was slow to write its trace has done so by
 * then. */
#define ERROR_TRIES      3
#define FAILURE_TEXT_MAX 600

static const struct backoff stop_retry = {.first_ns = NS_PER_S, .max_ns = 30 * NS_PER_S};

/* Of who stands before the profiler and did not let the stop through: it is still running. */
static const int not_delivered[] = {401, 403, 408, 425, 429, 502, 503, 504};

static void next_in_line(struct session *s);

static bool writes_files(const struct target *t)
{
    return !(t->session->request.recording.activities & ACTIVITY_CUDA_PROFILER) &&
           !target_engine(t)->writes_no_traces;
}

void target_collect(struct target *t)
{
    struct sessions *all = t->session->all;

    if (target_is_remote(t) && target_server(t) && !target_server_records(t))
        all->remote_ops->stop(
            t, all->remote); /* its host waits for the end of the server; again after a restart */
    if (target_is_remote(t))
        all->remote_ops->collect(t, all->remote);
    else
        all->collector_ops->collect(t, all->collector);
}

/* On to the files, or to the end for a target that certainly wrote none. */
void target_leave_stopping(struct target *t)
{
    struct session *s = t->session;

    t->record.stop_pending = false;
    if ((t->recorded || t->start_unanswered) && !s->rolled_back && writes_files(t)) {
        target_change_state(t, STATE_COLLECTING);
        target_collect(t);
    } else if (s->rolled_back && (t->recorded || !t->record.failure)) {
        target_change_state(t, STATE_CANCELLED);
    } else {
        target_change_state(t, t->recorded && !t->record.failure ? STATE_COMPLETE : STATE_FAILED);
    }
}

void target_stopped(struct target *t)
{
    struct session *s = t->session;

    target_leave_stopping(t);
    next_in_line(s);
    session_check_stopped(s);
}

/* Of an engine that ends when it has its steps: there is nothing to send. */
static void end_without_stop(struct target *t)
{
    if (t->recorded && target_bytes_seen(t) == 0) {
        session_remark(t->session, t, NULL,
                       "cannot be stopped: it goes on until it has its steps, and a trace that comes later "
                       "than it is waited for is unclaimed");
        session_save(t->session);
    }
    target_leave_stopping(t);
}

static void target_fail_stop(struct target *t, const struct call_result *r, const char *meaning)
{
    char text[FAILURE_TEXT_MAX];
    call_result_text(r, text, sizeof(text));
    _cleanup_(freep) char *failure =
        xasprintf("%s %s: %s%s", engine_method(target_engine(t)), target_stop_path(t), text, meaning);
    _cleanup_(freep) char *remedy =
        r->err < 0 ? unanswered_remedy(r, "stop") : xstrdup("See the server's log for the cause.");
    target_fail(t, failure, remedy);
}

/* The engine answered with status 2xx that its stop failed. */
static void target_fail_refused_stop(struct target *t, const char *refusal)
{
    const char *path = target_stop_path(t), *method = engine_method(target_engine(t));
    _cleanup_(freep) char *failure = xasprintf("%s %s: %s", method, path, refusal);
    _cleanup_(freep) char *remedy = xasprintf("Its profiler may still be recording. See the server's log for "
                                              "the cause, then stop it by hand (curl -X "
                                              "%s %s%s), or restart the server.",
                                              method, t->worker.url, path);

    target_fail(t, failure, remedy);
}

static void target_on_retry(evutil_socket_t fd, short what, void *arg)
{
    target_send_stop(arg);
}

/* refusal may be NULL. */
static void target_retry_stop(struct target *t, const struct call_result *r, const char *refusal)
{
    char text[FAILURE_TEXT_MAX];
    /* A worker that refuses connections has ended, or is about to listen again. */
    struct timeval tv =
        timeval_of(backoff_ns(&stop_retry, t->stop_refusals > 0 ? 1 : t->stop_tries, backoff_random()));

    if (t->stop_tries == 1)
        log_struct(LOG_WARNING,
                   LOG_FIELDS(.session_id = t->session->record.session_id, .worker = t->worker.url),
                   "session s%" PRId64 ": %s: %s %s: %s; it is sent again until it gets through",
                   t->session->record.session_id, t->worker.url, engine_method(target_engine(t)),
                   target_stop_path(t), refusal ? refusal : call_result_text(r, text, sizeof(text)));
    if (!t->retry)
        t->retry = event_new(t->session->all->jobs.base, -1, 0, target_on_retry, t);
    event_add(t->retry, &tv);
}

static bool stop_was_accepted(const struct target *t, const struct call_result *r)
{
    const struct recording recording = target_recording(t);
    return r->status / 100 == 2 || t->stop_repeated ||
           engine_has_ended(target_engine(t), &recording, r->status);
}

static bool was_delivered(const struct call_result *r)
{
    if (r->status / 100 == 3) /* elsewhere, where it is not followed */
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(not_delivered); i++)
        if (r->status == not_delivered[i])
            return false;
    return r->err == 0;
}

static void on_recorder_stopped(struct target *t, bool ok)
{
    (void)ok; /* a failure is recorded for the target */
    target_stopped(t);
}

/* r is NULL where its server is gone. */
static void finish_stop(struct target *t, const struct call_result *r)
{
    const struct answer_recorder *recorder = t->recorded ? target_recorder(t) : NULL;

    if (recorder)
        recorder->stop(t, r, on_recorder_stopped);
    else
        target_stopped(t);
}

static void target_on_stopped(const struct call_result *r, void *arg)
{
    struct target *t = arg;
    const struct recording recording = target_recording(t);
    bool has_ended = r->err == 0 && engine_has_ended(target_engine(t), &recording, r->status);
    _cleanup_(freep) char *refusal = has_ended ? NULL : target_refusal(t, r);
    bool is_over = mono_ns() >= t->stop_deadline_ns - DEADLINE_SLACK_NS;

    t->call = NULL;
    sessions_count_call(t, SESSION_CALL_STOP, r, refusal != NULL);
    if (r->err == 0)
        t->record.stop_status = r->status;
    t->stop_refusals = r->err == -ECONNREFUSED ? t->stop_refusals + 1 : 0;
    if (target_goes_older(t, r)) {
        target_send_stop(t);
    } else if (refusal && t->recorded && !is_over && ++t->stop_errors < ERROR_TRIES) {
        target_retry_stop(t, r, refusal);
    } else if (refusal) {
        target_fail_refused_stop(t, refusal);
        target_stopped(t);
    } else if (was_delivered(r)) {
        if (!stop_was_accepted(t, r)) {
            target_fail_stop(t, r, "");
            target_stopped(t);
        } else {
            t->record.stop_answered_at = r->answered_at_ns;
            finish_stop(t, r);
        }
    } else if (t->stop_refusals >= REFUSED_TRIES) {
        if (!target_recorder(t))
            target_fail_stop(t, r, "; the worker is gone");
        finish_stop(t, NULL);
    } else if (is_over) {
        target_fail_stop(t, r, "; its stop was given up");
        target_stopped(t);
    } else {
        t->stop_repeated = t->stop_repeated || (r->err < 0 && r->sent_at_ns > 0);
        target_retry_stop(t, r, NULL);
    }
}

void target_note_stop(struct target *t)
{
    if (t->record.stop_sent_at != RECORD_NONE)
        return;
    t->record.stop_sent_at = wall_ns();
    t->stop_sent_ns = mono_ns();
    target_save(t);
}

void target_send_stop(struct target *t)
{
    int64_t now = mono_ns();

    if (!target_stop_path(t)) {
        end_without_stop(t);
        return;
    }
    if (t->stop_deadline_ns == 0)
        t->stop_deadline_ns = now + t->session->all->settings->stop_timeout_ns;
    target_note_stop(t);
    if (t->inherited && t->stop_tries == 0)
        log_struct(LOG_NOTICE,
                   LOG_FIELDS(.session_id = t->session->record.session_id, .worker = t->worker.url,
                              .message_id = MESSAGE_OWED_STOP_SENT),
                   "session s%" PRId64 ": %s: sending the stop that an earlier profd left pending",
                   t->session->record.session_id, t->worker.url);
    t->stop_tries++;
    t->call = target_call(t, target_stop_path(t), NULL, MAX(t->stop_deadline_ns - now, NS_PER_S),
                          target_on_stopped);
}

/* Its server is gone, and with it what it recorded; whoever answers at its address is another one. */
static void target_end_replaced(struct target *t)
{
    target_fail(
        t, "it was replaced during the recording: another worker has its address, to which no stop is sent",
        "See why the cluster replaced it: kubectl get events.");
    target_leave_stopping(t);
}

static void target_forget(struct target *t)
{
    t->replaced = true;
    log_struct(LOG_WARNING, LOG_FIELDS(.session_id = t->session->record.session_id, .worker = t->worker.url),
               "session s%" PRId64 ": %s: another worker (%s is gone) has its address: it is not stopped",
               t->session->record.session_id, t->worker.url,
               t->worker.name ? t->worker.name : t->worker.identity);
    if (t->record.state == STATE_RECORDING)
        target_stop(t);
    if (t->stop_queued)
        return;
    call_cancel(t->call);
    t->call = NULL;
    if (t->retry)
        event_del(t->retry);
    target_end_replaced(t);
    next_in_line(t->session);
    session_check_stopped(t->session);
}

void sessions_forget_replaced(struct sessions *all, const struct worker *now)
{
    struct session *s;

    SESSIONS_FOREACH(s, all) {
        for (size_t i = 0; i < s->n_targets && now->identity; i++) {
            struct target *t = &s->targets[i];
            /* An answer recorder has calls of its own, and another host looks after its workers. */
            bool active = (t->record.state == STATE_RECORDING || t->record.state == STATE_STOPPING) &&
                          !target_recorder(t) && !target_is_remote(t);
            if (active && !t->replaced && t->worker.identity && !streq(t->worker.identity, now->identity) &&
                streq(t->worker.url, now->url))
                target_forget(t);
        }
    }
}

/* With --stagger one stop is under way at a time, so that a fleet goes on serving. */
static void next_in_line(struct session *s)
{
    bool busy = false;

    if (s->n_stops_queued == 0)
        return;
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        busy = busy || (t->record.state == STATE_STOPPING && !t->stop_queued && !target_is_on_demand(t));
    }
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        if (!t->stop_queued || (busy && s->request.stagger && !target_is_on_demand(t)))
            continue;
        t->stop_queued = false;
        s->n_stops_queued--;
        if (t->replaced) {
            target_end_replaced(t);
            continue;
        }
        busy = busy ||
               ((target_stop_path(t) || target_is_remote(t)) && !target_is_on_demand(t) && !t->peer_ended);
        target_transport(t)->stop(t);
    }
}

static void on_stops_saved(int err, void *arg)
{
    struct session *s = arg;

    (void)err; /* even if the catalog could not store the state, a profiler is not left running */
    s->stops_asked = false;
    next_in_line(s);
    session_check_stopped(s);
}

void session_send_queued_stops(struct session *s)
{
    if (s->stops_asked)
        return;
    s->stops_asked = true;
    catalog_then(s->all->jobs.catalog, false, on_stops_saved, s);
}

void target_queue_stop(struct target *t)
{
    if (t->stop_queued)
        return;
    t->stop_queued = true;
    t->session->n_stops_queued++;
}

void target_stop(struct target *t)
{
    if (t->record.state != STATE_RECORDING && t->record.state != STATE_STARTING)
        return;
    if (!target_may_stop(t))
        return; /* it comes here again at its end */
    t->recorded = t->record.state == STATE_RECORDING;
    target_queue_stop(t);
    target_change_state(t, STATE_STOPPING);
    session_send_queued_stops(t->session);
}

void session_stop_late(struct target *t)
{
    if (t->record.stop_pending)
        target_stop(t);
    session_check_stopped(t->session);
}

void session_stop_all(struct session *s)
{
    if (s->record.state != STATE_RECORDING && s->record.state != STATE_STARTING)
        return;
    probe_cancel(s->probe);
    s->probe = NULL;
    session_timer_off(s);
    session_change_state(s, STATE_STOPPING);
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        if (t->record.state == STATE_RECORDING ||
            (t->record.state == STATE_STARTING && t->start_settled && t->record.stop_pending))
            target_stop(t);
        else if (t->record.state == STATE_STARTING && target_is_remote(t))
            target_stop_unheard(t);
    }
    session_check_stopped(s);
}

/* Of other hosts by what they reported, which may come long after it. */
static int64_t session_last_stop(const struct session *s)
{
    int64_t last = RECORD_NONE;

    for (size_t i = 0; i < s->n_targets && session_has_remote(s); i++)
        if (s->targets[i].record.stop_answered_at != RECORD_NONE)
            last = MAX(last, s->targets[i].record.stop_answered_at);
    return last == RECORD_NONE ? wall_ns() : last;
}

void session_check_stopped(struct session *s)
{
    while (s->n_stopped < s->n_targets && s->targets[s->n_stopped].record.state >= STATE_COLLECTING)
        s->n_stopped++;
    if (s->n_stopped < s->n_targets)
        return;
    if (s->record.state == STATE_RECORDING)
        session_change_state(s, STATE_STOPPING);
    if (s->record.state == STATE_STOPPING && s->record.stopped_at == RECORD_NONE) {
        s->record.stopped_at = session_last_stop(s);
        if (s->request.load_ends_with_recording && !s->load_over) {
            s->load_lasted = true;
            session_stop_load(s);
        }
        sessions_wake(s->all);
        if (session_count_state(s, STATE_COLLECTING) > 0)
            session_change_state(s, STATE_COLLECTING);
    }
    session_check_finished(s);
}

/* If all traces are complete, the failure of a stop becomes a remark. */
static void target_accept_files(struct target *t)
{
    if (!t->record.failure)
        return;
    session_remark(t->session, t, NULL, "%s; its traces are complete nevertheless", t->record.failure);
    session_save(t->session);
    replace_str(&t->record.failure, NULL);
    replace_str(&t->record.remedy, NULL);
}

/*
 * That two hosts have one directory follows from the names of what they mount there, which may lead to different servers or
 * be wrong: where files are missing, that is a reason which neither host can see.
 */
static void target_remark_shared_dir(struct target *t)
{
    const struct worker *w = &t->worker;
    const char *dir = w->location.dir ? w->location.dir : w->location.local_dir;
    bool is_read_here = !target_is_remote(t) && !w->local && w->pid == 0;

    if (!w->shared.source || !dir || session_is_leased(t->session))
        return;
    if (w->shares_with)
        session_remark(
            t->session, t,
            "Compare findmnt -T of the directory on both hosts, and look for the files there. If the "
            "file systems differ, mount them at different paths, or give each worker a directory of "
            "its own.",
            "files of %s were expected in %s too, which it reports as the same directory (%s %s%s)",
            w->shares_with, dir, w->shared.fstype, w->shared.source, w->shared.root);
    else if (is_read_here)
        session_remark(
            t->session, t,
            "Compare findmnt -T of the directory on both hosts. If the file systems differ, run profd "
            "on the worker's host, or name the directory as it is mounted here: trace_dir= in "
            "profd.conf, or --trace-dir.",
            "its files were expected in %s of this host (%s %s%s): nobody on the worker's host has "
            "confirmed that it is the same directory",
            dir, w->shared.fstype, w->shared.source, w->shared.root);
}

void target_collected(struct target *t, enum state outcome, const char *reason, const char *remedy)
{
    if (t->record.state != STATE_COLLECTING)
        return;
    if (t->start_unanswered && outcome == STATE_COMPLETE && !t->record.failure)
        target_fail(t, "it was stopped before its host reported the start: when it began is not known", NULL);
    if (t->start_unanswered && outcome == STATE_COMPLETE)
        outcome = STATE_PARTIAL; /* it recorded, and when it began nobody knows: its failure stays */
    else if (outcome == STATE_COMPLETE)
        target_accept_files(t);
    else if (reason)
        target_fail(
            t, reason,
            remedy ? remedy
                   : "profctl list-traces shows the collected traces; see the worker's log for details.");
    if (outcome != STATE_COMPLETE)
        target_remark_shared_dir(t);
    target_check_empty(t);
    target_change_state(t, outcome);
    session_check_finished(t->session);
}
