/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a restart: each unfinished session of the catalog is rebuilt and continues from its last committed
 * state transition.
 *
 * - requested: goes on waiting for its time or in its queue, else it is cancelled, as its requester is gone
 * - starting: no start is sent again; what may have been started is stopped, and what it wrote is collected
 * - recording: goes on until its planned end; stopped at once where that has passed, or where steps were to
 * be counted, of which nobody knows how many were done meanwhile
 * - stopping: every pending stop is sent again; the traces decide whether it succeeded
 * - collecting: the collector scans again
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/session/internal.h"
#include <errno.h>
#include <inttypes.h>

#define START_AGAIN "Start it again: what it had begun was stopped."

struct target_list {
    struct target_record *items;
    size_t n, cap;
};

static int target_list_add(const struct target_record *r, void *arg)
{
    struct target_list *list = arg;

    VEC_GROW(list->items, list->n, list->cap);
    target_record_copy(&list->items[list->n++], r);
    return 0;
}

/* The monotonic moment of a wall time that an earlier profd noted, as far as the clock was not set since. */
static int64_t mono_before_now(int64_t at)
{
    return mono_ns() - MAX(wall_ns() - at, INT64_C(0));
}

static void rebuild_target(struct target *t, const struct target_record *r)
{
    char error[200];
    _cleanup_json_ facts = json_parse(r->worker, strlen(r->worker), error);

    target_record_done(&t->record);
    t->record = *r;
    if (!facts || worker_from_json(facts, &t->worker) < 0 || !engine_ops(t->worker.engine)) {
        log_struct(LOG_ERR, LOG_FIELDS(.session_id = r->session_id, .worker = r->worker_url),
                   "session s%" PRId64 ": the catalog's record of %s cannot be used", r->session_id,
                   r->worker_url);
        worker_done(&t->worker);
        worker_init(&t->worker);
        t->worker.url = xstrdup(r->worker_url);
        t->worker.engine = ENGINE_VLLM;
    }
    t->start_settled = r->state != STATE_REQUESTED; /* its start is yet to come, or over */
    t->inherited = true;
    target_keep_credentials(t);
    t->stop_repeated = r->state == STATE_STOPPING; /* it may have left */
    t->recorded = r->start_status != RECORD_NONE && r->start_status / 100 == 2;
    t->start_unanswered = r->start_status == RECORD_NONE && r->state >= STATE_STOPPING;
    if (r->stop_sent_at != RECORD_NONE)
        t->stop_sent_ns = mono_before_now(r->stop_sent_at);
    on_demand_rebuild(t);
}

/* The name of an engine that this build does not have (extras/), in the record of a target; NULL: none. The caller frees
 * it. */
static char *missing_engine(const struct target *t)
{
    char error[200];
    _cleanup_json_ facts = json_parse(t->record.worker, strlen(t->record.worker), error);
    const char *name = json_get_str(facts, "engine");

    return name && engine_from_name(name) < 0 ? xstrdup(name) : NULL;
}

/* Its profiler cannot be stopped, because this profd does not know how. */
static void fail_missing_engine(struct target *t)
{
    _cleanup_(freep) char *engine = missing_engine(t);

    if (!engine || state_is_final(t->record.state))
        return;
    _cleanup_(freep) char *failure = xasprintf("profd was built without its engine, %s", engine);
    t->record.stop_pending = false;
    target_fail(t, failure, "Use a profd that was built with -Dextras=true.");
    target_change_state(t, STATE_FAILED);
}

static void rebuild_request(struct session *s)
{
    char error[200];
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ options = json_parse(s->record.options, strlen(s->record.options), error);

    if (!options || session_request_parse(options, &s->request, &p) < 0) {
        log_struct(LOG_WARNING, LOG_FIELDS(.session_id = s->record.session_id),
                   "session s%" PRId64 ": its options cannot be read: %s", s->record.session_id,
                   p.what ? p.what : error);
        s->request = (struct job_request){.role = -1, .labels = json_object()};
    }
}

/* Restores the moments on the clocks of this process; those on the clock of an earlier boot are discarded. */
static void rebuild_moments(struct session *s)
{
    struct session_record *r = &s->record;

    s->requested_ns = mono_before_now(r->requested_at);
    if (!r->boot_id || !streq(r->boot_id, s->all->boot_id))
        r->begun_boot_ns = r->stop_boot_ns = r->hard_stop_boot_ns = RECORD_NONE;
}

/* The limit of its length began with its recording; the deadline of its lease is the one that was stored last. */
static void rebuild_limit(struct session *s)
{
    const struct session_record *r = &s->record;
    int64_t now = boot_ns();

    s->limit_boot_ns = now + s->all->settings->session_limit_ns;
    if (r->recording_at != RECORD_NONE)
        s->limit_boot_ns -= MAX(wall_ns() - r->recording_at, INT64_C(0));
    s->deadline_boot_ns = r->hard_stop_boot_ns != RECORD_NONE ? r->hard_stop_boot_ns
                          : r->hard_stop_at != RECORD_NONE    ? now + r->hard_stop_at - wall_ns()
                                                              : now;
}

static void rebuild_remarks(struct session *s)
{
    char error[200];

    if (s->record.remarks)
        s->remarks = json_parse(s->record.remarks, strlen(s->record.remarks), error);
    if (s->remarks && !json_is_array(s->remarks)) {
        json_decref(s->remarks);
        s->remarks = NULL;
    }
}

struct rebuild {
    struct sessions *all;
    struct session **sessions;
    size_t n, cap;
};

static int rebuild_session(const struct session_record *r, void *arg)
{
    struct rebuild *b = arg;
    struct target_list list = {0};

    int err = catalog_each_target(b->all->jobs.catalog, r->session_id, target_list_add, &list);
    if (err < 0)
        return err;
    struct session *s = session_alloc(b->all, list.n);
    session_record_done(&s->record);
    session_record_copy(&s->record, r);
    rebuild_request(s);
    rebuild_moments(s);
    rebuild_remarks(s);
    for (size_t i = 0; i < list.n; i++)
        rebuild_target(&s->targets[i], &list.items[i]);
    free(list.items);
    rebuild_limit(s);
    s->rolled_back =
        s->request.require_all && s->record.recording_at == RECORD_NONE && session_first_failed(s);
    s->job.id = r->session_id;
    s->job.created = true;
    VEC_GROW(b->sessions, b->n, b->cap);
    b->sessions[b->n++] = s;
    return 0;
}

static void resume_requested(struct session *s)
{
    bool can_start = true;

    for (size_t i = 0; i < s->n_targets; i++) {
        _cleanup_(freep) char *engine = missing_engine(&s->targets[i]);
        can_start = can_start && !engine;
    }
    if (can_start && !s->request.workload && !session_is_leased(s) &&
        (s->request.start_at > wall_ns() || s->request.queue)) {
        session_proceed(s);
        return;
    }
    session_explain(s, "Start it again; with --queue or --start-at it waits through a restart.",
                    "profd was restarted before it began");
    session_end_unstarted(s, STATE_CANCELLED);
}

/* Whose start was not answered, or never left: it is stopped, and what it recorded is collected. */
static void settle_starting(struct target *t)
{
    struct sessions *all = t->session->all;

    if (t->record.state != STATE_STARTING || (target_is_on_demand(t) && t->recorded))
        return; /* a process that has its text records */
    target_fail(t, "profd was restarted while it was being started", START_AGAIN);
    t->start_unanswered =
        !target_is_on_demand(t) && (t->record.stop_pending || t->session->record.begun_at != RECORD_NONE);
    if (t->start_unanswered) {
        target_stop(t);
        if (!target_is_remote(t))
            all->collector_ops->recording(t, all->collector);
    } else {
        target_change_state(t, STATE_FAILED);
    }
}

/* Explains what the restart changed about the length of a recording. */
static void remark_restart(struct session *s)
{
    char planned[UNIT_TEXT_MAX], late[UNIT_TEXT_MAX];
    int64_t late_ns = s->record.stop_at == RECORD_NONE ? 0 : -session_left_ns(s);

    if (s->request.workload)
        session_remark(s, NULL, "Start it again.",
                       "profd was restarted while it recorded: it ended then, with its load");
    else if (s->request.recording.steps > 0)
        session_remark(s, NULL, "Start it again where all of the steps are wanted.",
                       "profd was restarted while it recorded: it ended then, after some of its %" PRId64
                       " steps",
                       s->request.recording.steps);
    else if (late_ns > 0)
        session_remark(
            s, NULL, NULL,
            "profd was away when its time was over: it recorded for %s longer than the %s asked for",
            format_duration(late, late_ns), format_duration(planned, s->request.recording.duration_ns));
}

/* Of a session that is over, or whose end has passed. */
static void resume_stops(struct session *s)
{
    session_stop_all(s);
    for (size_t i = 0; i < s->n_targets; i++)
        target_stop(&s->targets[i]);
    session_check_stopped(s);
}

/* By the wall clock, and set back to before the recording began, how long that goes on is not known. */
static bool is_in_time(const struct session *s)
{
    const struct session_record *r = &s->record;
    bool known = r->stop_boot_ns != RECORD_NONE || r->recording_at <= wall_ns();

    return r->state == STATE_RECORDING && r->stop_at != RECORD_NONE && known && session_left_ns(s) > 0;
}

/* Its coordinator had not named the moment of the start: nothing was started. */
static bool was_waiting(const struct session *s)
{
    return session_is_leased(s) && s->record.state == STATE_STARTING && s->record.start_at == RECORD_NONE;
}

static void session_resume(struct session *s)
{
    if (session_has_remote(s))
        session_resume_remote(s);
    if (was_waiting(s)) {
        session_explain(s, NULL, "profd was restarted before its coordinator named the moment of the start");
        session_end_unstarted(s, STATE_CANCELLED);
        return;
    }
    if (s->record.state == STATE_REQUESTED) {
        resume_requested(s);
        return;
    }
    bool was_starting = s->record.state == STATE_STARTING;
    bool in_time = is_in_time(s);

    s->starts_left = true;
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        fail_missing_engine(t);
        if (t->record.state == STATE_STOPPING)
            target_queue_stop(t);
        settle_starting(t);
        if (t->record.state == STATE_COLLECTING)
            target_collect(t);
        else if (t->record.state == STATE_RECORDING && !target_is_remote(t))
            s->all->collector_ops->recording(t, s->all->collector);
        on_demand_resume(t);
    }
    if (was_starting && session_count_state(s, STATE_STARTING) > 0) {
        session_resume_start(s);
        return;
    }
    if (was_starting)
        session_explain(s, START_AGAIN, "profd was restarted while it was being started");
    session_send_queued_stops(s);
    if (in_time && s->request.recording.steps == 0 && !s->request.workload) {
        session_arm_hard_limit(s);
        session_resume_recording(s);
    } else {
        if (s->record.state == STATE_RECORDING)
            remark_restart(s);
        resume_stops(s);
    }
}

int sessions_recover(struct sessions *all)
{
    struct rebuild b = {.all = all};

    int r = catalog_each_unfinished(all->jobs.catalog, rebuild_session, &b);
    for (size_t i = 0; i < b.n && r >= 0; i++) {
        log_struct(LOG_NOTICE, LOG_FIELDS(.session_id = b.sessions[i]->record.session_id),
                   "session s%" PRId64 " was %s when profd ended; going on", b.sessions[i]->record.session_id,
                   state_name(b.sessions[i]->record.state));
        session_resume(b.sessions[i]);
    }
    free(b.sessions);
    return r;
}
