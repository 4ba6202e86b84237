/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session that records: until its time is over, until its steps are done, or until somebody stops it.
 *
 * Steps are counted by the engine where it can (SGLang and RTP-LLM stop by themselves, their files show it),
 * else by watching the worker's own count in /metrics, which is approximate.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/session/internal.h"

#define STEPS_INTERVAL_NS     (200 * NS_PER_MS)
#define STEPS_CALL_TIMEOUT_NS (5 * NS_PER_S)
#define IDLE_TIMEOUT_NS       (1500 * NS_PER_MS)
/* Timers do not count the time that a host is suspended, and the limit does: it is looked at again this often. */
#define LIMIT_LOOK_NS (10 * NS_PER_S)

static void on_time_over(struct session *s)
{
    session_stop_all(s);
}

/* By the wall clock only where the moment by the other clock is of another kernel's life. */
static int64_t left_until(int64_t at, int64_t at_boot_ns)
{
    return at_boot_ns != RECORD_NONE ? at_boot_ns - boot_ns() : at - wall_ns();
}

int64_t session_left_ns(const struct session *s)
{
    return left_until(s->record.stop_at, s->record.stop_boot_ns);
}

static void watch_steps(struct session *s);

static void watch_steps_later(struct session *s)
{
    int64_t deadline = mono_ns() + STEPS_INTERVAL_NS;
    if (s->record.stop_at != RECORD_NONE)
        deadline = MIN(deadline, mono_ns() + MAX(session_left_ns(s), 0));
    session_timer(s, deadline, watch_steps);
}

static void on_steps(const struct probe_answer *answers, void *arg)
{
    struct session *s = arg;
    size_t k = 0;

    s->probe = NULL;
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        if (!t->probed)
            continue;
        double steps = answers[k++].steps;
        t->probed = false;
        if (t->steps_before < 0)
            t->steps_before = steps;
        else if (steps >= 0 && steps - t->steps_before >= (double)target_recording(t).steps)
            target_stop(t);
    }
    session_check_stopped(s);
    if (s->record.state == STATE_RECORDING)
        watch_steps_later(s);
}

static void watch_steps(struct session *s)
{
    _cleanup_(freep) const struct worker **workers = xcalloc(s->n_targets, sizeof(*workers));
    size_t n = 0;
    int64_t left = s->record.stop_at != RECORD_NONE ? session_left_ns(s) : STEPS_CALL_TIMEOUT_NS;

    if (left <= 0) {
        session_stop_all(s);
        return;
    }
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        /* Those of another host are counted there. */
        if (t->record.state != STATE_RECORDING || target_engine(t)->stops_after_steps || target_is_remote(t))
            continue;
        t->probed = true;
        workers[n++] = &t->worker;
    }
    if (n > 0)
        s->probe =
            probe_start(s->all, s->record.fleet, workers, n, MIN(left, STEPS_CALL_TIMEOUT_NS), on_steps, s);
    else if (s->record.stop_at != RECORD_NONE)
        watch_steps_later(s);
}

/* Reported within two seconds of the start: a trace of an idle worker is nearly empty. */
static void on_idle_known(const struct probe_answer *answers, void *arg)
{
    struct session *s = arg;

    s->probe = NULL;
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        t->steps_before = answers[i].steps;
        if (t->record.state == STATE_RECORDING && answers[i].running == 0 && answers[i].waiting <= 0 &&
            !session_has_load(s))
            session_remark(s, t, "Record while it serves: --when-running waits for that.",
                           "runs no request: its trace will be almost empty");
    }
    session_save(s);
    if (s->record.state == STATE_RECORDING && s->request.recording.steps > 0)
        watch_steps(s);
}

void session_resume_recording(struct session *s)
{
    if (s->request.recording.steps > 0)
        watch_steps(s);
    else
        session_timer(s, mono_ns() + session_left_ns(s), on_time_over);
}

/* The limit of a leased session is that of its lease, where that is earlier. */
static void explain_limit(struct session *s)
{
    const char *from = s->record.coordinator_name ? s->record.coordinator_name : s->record.coordinator;

    if (session_is_leased(s) && s->deadline_boot_ns <= s->limit_boot_ns)
        session_explain(
            s, "Its coordinator did not extend it: is profd running there, and is this host reached?",
            "its lease to %s ended", from);
    else
        session_explain(s, "[timeouts] session= in profd.conf sets the limit.",
                        "profd stopped it at the limit of a session's length");
}

static void on_hard_limit(evutil_socket_t fd, short what, void *arg)
{
    struct session *s = arg;

    if (s->record.state > STATE_RECORDING)
        return;
    if (s->record.hard_stop_boot_ns != RECORD_NONE && s->record.hard_stop_boot_ns > boot_ns()) {
        session_arm_hard_limit(s);
        return;
    }
    explain_limit(s);
    session_stop_load(s);
    if (s->starts_left)
        session_stop_all(s);
    else
        session_stop(s); /* the lease of a session that was never started */
}

void session_limit_length(struct session *s, int64_t at, int64_t limit_ns)
{
    int64_t now = boot_ns();

    s->limit_boot_ns = now + limit_ns;
    if (session_is_leased(s))
        limit_ns = MIN(limit_ns, s->deadline_boot_ns - now);
    s->record.hard_stop_at = at + limit_ns;
    s->record.hard_stop_boot_ns = now + limit_ns;
}

void session_extend(struct session *s, int64_t deadline_boot_ns)
{
    int64_t now = boot_ns();

    if (s->record.state > STATE_RECORDING)
        return;
    s->deadline_boot_ns = deadline_boot_ns;
    s->record.hard_stop_boot_ns = MIN(deadline_boot_ns, s->limit_boot_ns);
    s->record.hard_stop_at = wall_ns() + s->record.hard_stop_boot_ns - now;
    session_arm_hard_limit(s);
    session_save(s);
}

/* Also used by recovery: the limit holds in any case. */
void session_arm_hard_limit(struct session *s)
{
    int64_t left_ns = left_until(s->record.hard_stop_at, s->record.hard_stop_boot_ns);
    struct timeval tv =
        timeval_of(s->record.hard_stop_boot_ns != RECORD_NONE ? MIN(left_ns, LIMIT_LOOK_NS) : left_ns);

    if (s->hard_timer)
        event_free(s->hard_timer);
    s->hard_timer = event_new(s->all->jobs.base, -1, 0, on_hard_limit, s);
    event_add(s->hard_timer, &tv);
}

/* Of processes on demand nobody can ask whether they are idle. */
static bool session_has_servers(const struct session *s)
{
    for (size_t i = 0; i < s->n_targets; i++)
        if (!target_is_on_demand(&s->targets[i]))
            return true;
    return false;
}

/* With --stagger, the coordinator stops one target of all hosts at a time. */
static int64_t session_duration_ns(const struct session *s)
{
    return session_is_leased(s) && s->request.stagger ? 0 : s->request.recording.duration_ns;
}

void session_record(struct session *s)
{
    int64_t duration_ns = session_duration_ns(s);

    s->record.recording_at = wall_ns();
    session_limit_length(s, s->record.recording_at, s->all->settings->session_limit_ns);
    session_arm_hard_limit(s);
    if (duration_ns > 0) {
        s->record.stop_at = s->record.recording_at + duration_ns;
        s->record.stop_boot_ns = boot_ns() + duration_ns;
    }
    session_change_state(s, STATE_RECORDING);
    if (s->request.recording.steps == 0 && duration_ns > 0)
        session_timer(s, mono_ns() + duration_ns, on_time_over);
    session_load(s);
    if (session_has_servers(s))
        session_probe(s, IDLE_TIMEOUT_NS, on_idle_known);
}

void target_files_complete(struct target *t)
{
    struct session *s = t->session;

    t->files_complete = true;
    if (t->record.state != STATE_RECORDING || !target_ends_by_itself(t))
        return;
    target_stop(t);
    session_check_stopped(s);
}
