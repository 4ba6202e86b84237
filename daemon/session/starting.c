/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From "it begins" to "all starts were answered":
 *
 *   stops that clean up -> barrier -> directories prepared -> commit with fsync -> all starts in one iteration
 * of the event loop
 *
 * From the commit with fsync on, each target has a stop pending, until one is answered or it is certain that none
 * started.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/process.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/session/internal.h"
#include <errno.h>

/* A worker that is slow to answer its start does not lengthen the recording of the others by more than this.
 */
#define START_GRACE_NS   (2 * NS_PER_S)
#define FAILURE_TEXT_MAX 600
/* A start waits for another program's lock on the catalog this long, and looks this often. */
#define LOCK_PATIENCE_NS (2 * NS_PER_S)
#define LOCK_RETRY_NS    (100 * NS_PER_MS)

#define PREPARE_MAX_NS   (30 * NS_PER_S)
/* A start time that moved by less is not worth a remark. */
#define START_MOVED_NS NS_PER_S

/* Whether workers can write to their directories, asked on a thread. */
struct writable_check {
    struct sessions *all;
    int64_t session_id;
    size_t n;
    struct {
        struct worker worker; /* only local, pid and uid are set */
        char *dir;            /* NULL: not asked */
        int can_write;
    } targets[];
};

static void check_writable(void *arg)
{
    struct writable_check *c = arg;

    for (size_t i = 0; i < c->n; i++)
        if (c->targets[i].dir)
            c->targets[i].can_write = process_can_write(&c->targets[i].worker, c->targets[i].dir);
}

static void on_writable_checked(void *arg)
{
    struct writable_check *c = arg;
    struct session *s = sessions_find(c->all, c->session_id);

    for (size_t i = 0; i < c->n; i++) {
        _cleanup_(freep) char *dir = c->targets[i].dir;
        struct target *t = s ? &s->targets[i] : NULL;
        if (!t || !dir || c->targets[i].can_write != 0 || t->record.state != STATE_STARTING)
            continue;
        _cleanup_(freep) char *failure =
            xasprintf("its user cannot write to %s; the server could die when it is stopped", dir);
        target_fail(
            t, failure,
            "Name a directory that it can write to: output_dir= in [fleet] or [worker] of profd.conf.");
        target_change_state(t, STATE_FAILED);
    }
    free(c);
    if (s && s->record.state == STATE_STARTING)
        s->all->collector_ops->prepare(s, s->all->collector);
}

/* A mount whose server is gone blocks each thread that accesses it, without end. */
static void on_directories_late(struct session *s)
{
    session_explain(s, "Is its file system's server up? A plain ls of it would hang as well.",
                    "a trace directory does not answer; nothing was started");
    session_give_up(s);
}

void session_prepare_directories(struct session *s)
{
    struct writable_check *c = xcalloc(1, sizeof(*c) + s->n_targets * sizeof(c->targets[0]));
    /* Repeated tries at a directory that does not answer hold one thread. */
    uint64_t queue = OFFLOAD_NO_QUEUE;

    *c = (struct writable_check){.all = s->all, .session_id = s->record.session_id, .n = s->n_targets};
    for (size_t i = 0; i < s->n_targets; i++) {
        const struct target *t = &s->targets[i];
        if (!target_engine(t)->takes_output_dir || !t->record.trace_dir || t->worker.pid == 0 ||
            target_is_remote(t))
            continue;
        c->targets[i].worker =
            (struct worker){.local = t->worker.local, .pid = t->worker.pid, .uid = t->worker.uid};
        c->targets[i].dir =
            xstrdup(t->worker.location.local_dir ? t->worker.location.local_dir : t->record.trace_dir);
        if (queue == OFFLOAD_NO_QUEUE)
            queue = offload_queue_of_dir(c->targets[i].dir);
    }
    session_timer(s, mono_ns() + PREPARE_MAX_NS, on_directories_late);
    offload_run_in(s->all->offload, queue, check_writable, on_writable_checked, c);
}

/* -- The stop that goes before a start -- */

static void send_cleaning_stop(struct target *t);

static void on_cleaned(const struct call_result *r, void *arg)
{
    struct target *t = arg;
    struct session *s = t->session;

    _cleanup_(freep) char *remedy = r->err < 0 ? unanswered_remedy(r, "clean") : NULL;

    t->call = NULL;
    if (target_goes_older(t, r)) {
        send_cleaning_stop(t);
        return;
    }
    if (r->err == -ETIMEDOUT && r->sent_at_ns > 0) {
        target_fail(t,
                    "is still writing an earlier trace, or hangs: the stop before the start was not answered",
                    remedy);
        target_change_state(t, STATE_FAILED);
    } else if (r->err < 0 && r->err != -ECONNRESET) {
        char text[FAILURE_TEXT_MAX];
        call_result_text(r, text, sizeof(text));
        _cleanup_(freep) char *failure = xasprintf("cannot be reached: %s", text);
        target_fail(t, failure, remedy);
        target_change_state(t, STATE_FAILED);
    }
    if (--s->n_outstanding == 0)
        session_prepare_directories(s);
}

static void send_cleaning_stop(struct target *t)
{
    t->call =
        target_call(t, target_stop_path(t), NULL, t->session->all->settings->clean_timeout_ns, on_cleaned);
}

static void send_cleaning_stops(int err, void *arg)
{
    struct session *s = arg;

    (void)err;
    if (s->stop_wanted) {
        session_end_unstarted(s, STATE_CANCELLED);
        return;
    }
    s->n_outstanding = 1;
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        if (!target_engine(t)->stop_before_start || target_is_remote(t) || worker_is_watched(&t->worker))
            continue;
        send_cleaning_stop(t);
        s->n_outstanding++;
    }
    session_prepare_remote(s);
    if (--s->n_outstanding == 0)
        session_prepare_directories(s);
}

/* -- The starts -- */

static void commit_again(struct session *s);

void session_refuse_start(struct session *s, int err)
{
    _cleanup_(problem_done) struct problem p = {0};

    catalog_problem(s->all->jobs.catalog, err, &p, "nothing was started, the catalog cannot take the start");
    session_explain(s, p.remedy, "%s", p.what);
    session_end_unstarted(s, STATE_FAILED);
}

/* At a moment that its coordinator names, or that is agreed with the hosts that are left. */
static bool starts_with_others(const struct session *s)
{
    for (size_t i = 0; i < s->n_targets; i++)
        if (target_is_remote(&s->targets[i]) && s->targets[i].record.state == STATE_STARTING)
            return true;
    return session_is_leased(s);
}

/* Who else writes is waited for, but not by the loop. */
static void on_durable(int err, void *arg)
{
    struct session *s = arg;
    int64_t now = mono_ns();

    if (err == -EBUSY && !s->stop_wanted && now < s->durable_until) {
        session_timer(s, now + LOCK_RETRY_NS, commit_again);
    } else if (err < 0) {
        session_refuse_start(s, err);
    } else if (s->stop_wanted) {
        session_end_unstarted(s, STATE_CANCELLED);
    } else if (starts_with_others(s)) {
        session_arm(s);
    } else {
        session_send_starts(s);
    }
}

static void commit_again(struct session *s)
{
    if (s->stop_wanted) {
        session_end_unstarted(s, STATE_CANCELLED);
        return;
    }
    s->begun_ns = mono_ns();
    s->record.begun_at = wall_ns();
    s->record.begun_boot_ns = boot_ns();
    replace_str(&s->record.boot_id, s->all->boot_id);
    session_limit_length(s, s->record.begun_at,
                         s->all->settings->start_timeout_ns + s->all->settings->session_limit_ns);
    session_save(s);
    session_save_targets(s, STATE_STARTING, STATE_STARTING, true);
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        if (t->record.state != STATE_STARTING)
            continue;
        t->record.stop_pending = target_is_remote(t) || target_engine(t)->stop_path != NULL;
        if (!t->record.stop_pending)
            target_save(t);
    }
    catalog_then(s->all->jobs.catalog, true, on_durable, s);
}

static void commit_counted(struct session *s)
{
    s->durable_until = mono_ns() + LOCK_PATIENCE_NS;
    commit_again(s);
}

static void commit_to_start(struct session *s)
{
    session_count_steps(s, commit_counted);
}

void session_give_up(struct session *s)
{
    session_timer_off(s);
    for (size_t i = 0; i < s->n_targets; i++)
        on_demand_free(&s->targets[i]); /* nobody fetches a text any more */
    session_end_unstarted(s, STATE_CANCELLED);
}

/* -- A start time that all targets share, with processes that need to know it beforehand -- */

static void on_start_agreed(int err, void *arg)
{
    struct session *s = arg;

    if (err < 0) {
        session_refuse_start(s, err);
    } else if (s->stop_wanted) {
        session_end_unstarted(s, STATE_CANCELLED);
    } else if (session_has_remote(s)) {
        session_arm_targets(s);
        if (s->record.state == STATE_STARTING)
            commit_to_start(s); /* other hosts learn the start time after the commit */
    } else {
        session_timer(s, mono_ns() + MAX(s->record.start_at - wall_ns(), INT64_C(0)), commit_to_start);
        session_arm_targets(s);
    }
}

/* The start time is committed before a process learns it, so that a later profd knows when it records. */
static void agree_on_start(struct session *s)
{
    int64_t earliest = wall_ns() + sessions_lead_ns(s->all), asked = s->record.start_at;
    char text[UNIT_TEXT_MAX], lead[UNIT_TEXT_MAX];

    s->record.start_at = MAX(asked == RECORD_NONE ? 0 : asked, earliest);
    s->record.start_at -= s->record.start_at % NS_PER_MS; /* Kineto's unit */
    if (asked != RECORD_NONE && earliest > asked + START_MOVED_NS)
        session_remark(
            s, NULL, NULL, "starts at %s: processes on demand need %s from the request to the start",
            format_time(text, s->record.start_at), format_duration(lead, sessions_lead_ns(s->all)));
    session_save(s);
    s->durable_until = mono_ns() + LOCK_PATIENCE_NS;
    catalog_then(s->all->jobs.catalog, true, on_start_agreed, s);
}

void session_resume_start(struct session *s)
{
    s->prepared = true;
    s->starts_left = false;
    session_timer(s, mono_ns() + MAX(s->record.start_at - wall_ns(), INT64_C(0)), commit_to_start);
}

void session_prepared(struct session *s)
{
    int64_t early = s->request.start_at - wall_ns();

    if (s->prepared || s->record.state != STATE_STARTING)
        return; /* it was given up meanwhile */
    s->prepared = true;
    session_timer_off(s);
    if (s->stop_wanted) {
        session_end_unstarted(s, STATE_CANCELLED);
    } else if (s->request.require_all && session_first_failed(s)) {
        session_explain(s, NULL, "all workers are required, and not all can be started; none was");
        session_end_unstarted(s, STATE_CANCELLED);
    } else if (session_has_on_demand(s) && session_count_state(s, STATE_STARTING) > 0) {
        agree_on_start(s);
    } else if (s->request.start_at > 0 && early > 0 && !session_has_remote(s)) {
        session_timer(s, mono_ns() + early, commit_to_start);
    } else {
        commit_to_start(s);
    }
}

static void target_fail_start(struct target *t, const struct call_result *r, const char *refusal)
{
    const struct engine_ops *ops = target_engine(t);
    const struct recording recording = target_recording(t);
    /* Who else records is no session of this profd: sessions_holder() lets one at a time have a worker. */
    bool elsewhere =
        r->err == 0 && engine_is_recorded_elsewhere(&recording, &t->worker, r->status, r->body, refusal);
    _cleanup_(problem_done) struct problem p = {0};
    char text[FAILURE_TEXT_MAX];

    call_result_text(r, text, sizeof(text));
    _cleanup_(freep) char *failure =
        xasprintf("%s %s: %s", engine_method(ops), target_start_path(t), refusal ? refusal : text);
    if (elsewhere)
        p.remedy = xasprintf(
            "Another user or tool records it, or an earlier session whose stop failed: wait for the end, "
            "or end that recording with %s %s%s. profd does not stop what it did not start.",
            engine_method(ops), t->worker.url, target_stop_path(t));
    else if (r->err == 0)
        engine_explain_start(ops, &t->worker, r->status, r->body, &p);
    else
        p.remedy = unanswered_remedy(r, "start");
    target_fail(t, failure, p.remedy);
    /* It may have started something all the same. */
    t->record.stop_pending =
        ops->stop_path && !elsewhere &&
        (r->err == 0 ? r->status >= 500 || (refusal && !ops->refused_start_is_none) : r->sent_at_ns > 0);
    t->start_unanswered = r->err < 0 && r->sent_at_ns > 0;
}

void target_settle_start(struct target *t, bool ok)
{
    struct session *s = t->session;

    t->start_settled = true;
    if (ok) {
        target_change_state(t, STATE_RECORDING);
        if (!target_is_remote(t))
            s->all->collector_ops->recording(t, s->all->collector);
    } else if (t->record.stop_pending || t->start_unanswered) {
        target_stop(t);
    } else {
        target_change_state(t, STATE_FAILED);
    }
    s->n_outstanding--;
    if (s->record.state == STATE_STOPPING) {
        session_stop_late(t);
    } else {
        session_check_started(s, t);
        if (t->stop_asked)
            session_stop_late(t);
    }
}

static void on_recorder_started(struct target *t, bool ok)
{
    t->record.stop_pending = ok;
    target_settle_start(t, ok);
}

static void target_on_started(const struct call_result *r, void *arg)
{
    struct target *t = arg;
    const struct session *s = t->session;
    _cleanup_(freep) char *refusal = target_refusal(t, r);
    bool ok = r->err == 0 && r->status / 100 == 2 && !refusal;

    t->call = NULL;
    sessions_count_call(t, SESSION_CALL_START, r, refusal != NULL);
    if (target_goes_older(t, r)) {
        target_send_start(t);
        return;
    }
    if (target_drops_newer_keys(t, r)) {
        session_remark(
            t->session, t, NULL,
            "its engine is too old to name its traces by the session; their directory tells whose they are");
        target_send_start(t);
        return;
    }
    /* All relative to one reading of the wall clock: setting the clock does not change the differences. */
    if (r->sent_at_ns > 0)
        t->record.start_sent_at = s->record.begun_at + r->sent_mono_ns - s->begun_ns;
    t->record.start_answered_at = r->answered_at_ns;
    if (r->err == 0)
        t->record.start_status = r->status;
    if (!ok)
        target_fail_start(t, r, refusal);
    const struct answer_recorder *recorder = target_recorder(t);
    if (ok && recorder)
        recorder->start(t, r, on_recorder_started);
    else
        target_settle_start(t, ok);
}

void target_send_start(struct target *t)
{
    struct recording recording = target_recording(t);

    target_keep_credentials(t);
    const struct engine_ops *ops = target_engine(t);
    _cleanup_json_ body = ops->start_body ? ops->start_body(&recording, &t->worker) : NULL;
    for (const char *const *key = t->older_keys ? ops->newer_keys : NULL; key && *key; key++)
        json_object_del(body, *key);
    t->call = target_call(t, target_start_path(t), body, t->session->all->settings->start_timeout_ns,
                          target_on_started);
}

void session_send_starts(struct session *s)
{
    if (!session_drop_unfetched(s))
        return;
    s->armed = false;
    s->starts_left = true;
    session_arm_hard_limit(s);
    /* All are outstanding before the first one starts: one over Kineto starts at once. */
    s->n_outstanding = (unsigned)session_count_state(s, STATE_STARTING);
    for (size_t i = 0; i < s->n_targets; i++)
        if (s->targets[i].record.state == STATE_STARTING)
            target_transport(&s->targets[i])->start(&s->targets[i]);
    session_check_started(s, NULL);
}

/* Of other hosts by the measured offset of their clocks, of which the error is known as well. */
static int64_t clock_error_ns(const struct target *t)
{
    return t->record.clock_error_ns == RECORD_NONE ? 0 : t->record.clock_error_ns;
}

static void record_skew(struct session *s)
{
    const struct target *first = NULL, *last = NULL;
    int64_t earliest = INT64_MAX, latest = INT64_MIN; /* that they can have been */

    for (size_t i = 0; i < s->n_targets; i++) {
        const struct target *t = &s->targets[i];
        if (t->record.start_sent_at == RECORD_NONE)
            continue;
        if (!first || t->record.start_sent_at < first->record.start_sent_at)
            first = t;
        if (!last || t->record.start_sent_at > last->record.start_sent_at)
            last = t;
        earliest = MIN(earliest, t->record.start_sent_at - clock_error_ns(t));
        latest = MAX(latest, t->record.start_sent_at + clock_error_ns(t));
    }
    if (!first)
        return;
    s->record.starts_sent_at = last->record.start_sent_at;
    s->record.skew_ns = last->record.start_sent_at - first->record.start_sent_at;
    if (session_has_remote(s))
        s->record.skew_error_ns = first == last ? 0 : latest - earliest - s->record.skew_ns;
}

static void roll_back(struct session *s, const struct target *cause)
{
    s->rolled_back = true;
    session_explain(s, cause->record.remedy,
                    "all workers are required, and %s: %s; the others were rolled back", cause->worker.url,
                    cause->record.failure);
    session_stop_all(s);
}

static void on_grace_over(struct session *s)
{
    if (s->record.state != STATE_STARTING)
        return;
    record_skew(s);
    session_record(s);
}

/* Ranks record nothing whose server has failed. */
static bool session_records(const struct session *s)
{
    for (size_t i = 0; i < s->n_targets; i++) {
        const struct target *t = &s->targets[i];
        if (t->record.state == STATE_RECORDING && (!target_server(t) || target_server_records(t)))
            return true;
    }
    return false;
}

void session_check_started(struct session *s, const struct target *answered)
{
    bool may_fail = s->request.require_all && (!answered || answered->record.failure);
    const struct target *cause = may_fail ? session_first_failed(s) : NULL;
    bool is_starting = s->record.state == STATE_STARTING;

    /* Of thousands of answers, not each looks at all targets. */
    if (cause || s->n_outstanding == 0 || !is_starting)
        record_skew(s);
    if (cause) {
        roll_back(s, cause);
        return;
    }
    if (!is_starting)
        return;
    if (s->n_outstanding > 0) {
        if (answered && answered->record.state == STATE_RECORDING && !s->timer)
            session_timer(s, mono_ns() + START_GRACE_NS, on_grace_over);
        return;
    }
    session_timer_off(s);
    if (s->stop_wanted) {
        session_stop_all(s);
    } else if (session_records(s)) {
        session_record(s);
    } else {
        session_check_finished(s);
        session_stop_all(s); /* some may have a stop pending */
    }
}

void session_begin(struct session *s)
{
    session_timer_off(s);
    session_change_state(s, STATE_STARTING);
    session_change_targets(s, STATE_REQUESTED, STATE_STARTING);
    catalog_then(s->all->jobs.catalog, false, send_cleaning_stops, s);
}
