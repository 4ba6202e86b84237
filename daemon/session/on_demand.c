/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets that are processes: they registered for Kineto's on-demand recording and poll profd (daemon/kineto).
 *
 * A process fetches one text before the start time of the session, which is the same for all targets, and records for
 * the duration in it. Nothing calls it back: neither a stop, nor an end of profd. Its recording is over when its
 * profiler would take another text, which is after its trace has its final name.
 *
 * What is owned here hangs at target->on_demand and is freed with the target.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/process_info.h"
#include "base/units.h"
#include "daemon/kineto/config_text.h"
#include "daemon/kineto/kineto.h"
#include "daemon/session/internal.h"
#include <errno.h>

#define LOOK_INTERVAL_NS (500 * NS_PER_MS)
/* Kineto's thread looks once a second whether a recording is over: a poll before that proves nothing. */
#define END_SLACK_NS NS_PER_S
/* Longer than that after its end, a process that does not poll is not waited for. */
#define END_PATIENCE_NS (15 * NS_PER_S)
/* A poll, and a tick of Kineto's thread before and after the warm-up. */
#define LEAD_TICKS_NS  (2 * NS_PER_S)
#define TRACE_FILE_EXT ".pt.trace.json"

struct on_demand {
    struct kineto_config_slot *slot; /* not fetched yet; NULL: it was, or there is none */
    struct kineto_watch *watch;
    struct event *timer; /* the end of the recording; then looks whether it is over */
    bool fetched;
    bool was_active;    /* its profiler was seen to record or write */
    bool is_gone;       /* the process ended, or polls no more */
    bool remarked_stop; /* that it cannot be stopped */
};

static struct on_demand *on_demand_get(struct target *t)
{
    if (!t->on_demand)
        t->on_demand = xcalloc(1, sizeof(*t->on_demand));
    return t->on_demand;
}

void on_demand_free(struct target *t)
{
    struct on_demand *od = t->on_demand;

    if (!od)
        return;
    t->on_demand = NULL;
    if (od->slot)
        kineto_cancel(od->slot); /* done() finds no on_demand */
    if (od->watch)
        kineto_unwatch(od->watch);
    if (od->timer)
        event_free(od->timer);
    free(od);
}

bool target_is_on_demand(const struct target *t)
{
    return worker_is_on_demand(&t->worker);
}

bool session_has_on_demand(const struct session *s)
{
    for (size_t i = 0; i < s->n_targets; i++)
        if (target_is_on_demand(&s->targets[i]))
            return true;
    return false;
}

int64_t sessions_lead_ns(const struct sessions *all)
{
    return all->kineto_settings->warmup_ns + all->kineto_settings->poll_ns + LEAD_TICKS_NS;
}

static const struct kineto_process *target_process(const struct target *t)
{
    return t->session->all->kineto
               ? kineto_find(t->session->all->kineto, t->worker.pid, (uint64_t)t->worker.process.start_ticks)
               : NULL;
}

static int64_t target_end_at(const struct target *t)
{
    return t->session->record.start_at + t->session->request.recording.duration_ns;
}

int64_t on_demand_left_ns(const struct target *t)
{
    return target_is_on_demand(t) ? target_end_at(t) - wall_ns() : 0;
}

/* -- The text ------------------------------------------------------------------------------------------- */

/* Kineto's activities by ours; NULL: those that Kineto takes by default. The caller frees it. */
static char *activity_types(const struct recording *rec)
{
    static const struct {
        unsigned bit;
        const char *types;
    } lists[] = {
        {ACTIVITY_CPU, "cpu_op,user_annotation,cpu_instant_event"},
        {ACTIVITY_CUDA, "gpu_user_annotation,gpu_memcpy,gpu_memset,kernel,cuda_runtime,cuda_driver,overhead"},
    };
    unsigned asked = rec->activities & (ACTIVITY_CPU | ACTIVITY_CUDA);
    char *types = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(lists) && asked != 0 && asked != (ACTIVITY_CPU | ACTIVITY_CUDA); i++)
        if (asked & lists[i].bit)
            append_str(&types, "%s%s", types ? "," : "", lists[i].types);
    if (types && rec->with_stack)
        append_str(&types, ",python_function");
    return types;
}

/* A file of its own, directly in the directory that its environment allows: Kineto makes no directories. */
static char *trace_file(const struct target *t)
{
    const struct worker_process *p = &t->worker.process;
    const char *dir = p->trace_root            ? p->trace_root
                      : t->worker.location.dir ? t->worker.location.dir
                                               : KINETO_TRACE_DIR_DEFAULT;
    size_t n = strlen(dir);

    while (n > 0 && dir[n - 1] == '/')
        n--;
    return xasprintf("%.*s/%s" TRACE_FILE_EXT, (int)n, dir, t->record.profile_id);
}

/* NULL with the problem. The caller frees it. */
static char *target_text(const struct target *t, struct problem *p)
{
    const struct session *s = t->session;
    const struct recording rec = target_recording(t);
    _cleanup_(freep) char *file = trace_file(t), *types = activity_types(&rec);
    const struct kineto_recording r = {
        .trace_file = file,
        .trace_root = t->worker.process.trace_root,
        .trace_id = t->record.profile_id,
        .start_ms = s->record.start_at / NS_PER_MS,
        .duration_ms = rec.duration_ns / NS_PER_MS,
        .warmup_s = s->all->kineto_settings->warmup_ns / NS_PER_S,
        .types = types,
        .with_stack = rec.with_stack,
        .with_shapes = rec.record_shapes,
        .with_memory = rec.activities & ACTIVITY_MEM,
    };

    return kineto_config_text(&r, p);
}

/* -- Before the start time ------------------------------------------------------------------------------ */

static const struct {
    int result;
    const char *failure, *remedy;
} fetch_failures[] = {
    {-ETIMEDOUT, "did not fetch its configuration: no poll of the process came in time",
     "Is the process stopped, or too busy to poll each 5 s?"},
    {-ESRCH, "the process ended before it fetched its configuration", "See its log for why it ended."},
    {-EBUSY, "its profiler is active: started in the process, or by another request",
     "Wait until that recording is over; profctl list-workers --kineto shows it."},
};

static void target_fail_fetch(struct target *t, int result)
{
    const char *failure = "its configuration could not be handed over", *remedy = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(fetch_failures); i++)
        if (fetch_failures[i].result == result) {
            failure = fetch_failures[i].failure;
            remedy = fetch_failures[i].remedy;
        }
    target_fail(t, failure, remedy);
    target_change_state(t, STATE_FAILED);
}

/* The remaining targets start, unless all were required or none is left. False: the session ended. */
static bool session_goes_on(struct session *s)
{
    if (s->request.require_all && session_first_failed(s)) {
        session_explain(s, NULL, "all workers are required, and not all can be started; none was");
        session_give_up(s);
        return false;
    }
    if (session_count_state(s, STATE_STARTING) == 0) {
        session_give_up(s);
        return false;
    }
    return true;
}

static void on_fetched(int result, void *arg)
{
    struct target *t = arg;
    struct on_demand *od = t->on_demand;

    if (!od)
        return; /* given up */
    od->slot = NULL;
    if (result == -ECANCELED || t->record.state != STATE_STARTING)
        return;
    if (result == 0) {
        /* What a later profd knows it by: it was fetched, and records from then on. */
        od->fetched = true;
        t->record.start_sent_at = t->session->record.start_at;
        target_save(t);
        return;
    }
    target_fail_fetch(t, result);
    session_goes_on(t->session);
}

static void on_demand_arm(struct target *t)
{
    struct sessions *all = t->session->all;
    struct on_demand *od = on_demand_get(t);
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *text = target_text(t, &p);

    if (!text) {
        target_fail(t, p.what, p.remedy);
        target_change_state(t, STATE_FAILED);
        return;
    }
    int r = all->kineto ? kineto_schedule(all->kineto, t->worker.pid, (uint64_t)t->worker.process.start_ticks,
                                          text, on_fetched, t, &od->slot)
                        : -ESRCH;
    if (r < 0)
        target_fail_fetch(t, r);
}

void session_arm_targets(struct session *s)
{
    for (size_t i = 0; i < s->n_targets; i++)
        if (target_is_on_demand(&s->targets[i]) && s->targets[i].record.state == STATE_STARTING)
            on_demand_arm(&s->targets[i]);
    session_goes_on(s);
}

bool session_drop_unfetched(struct session *s)
{
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        if (!target_is_on_demand(t) || t->record.state != STATE_STARTING ||
            (t->on_demand && t->on_demand->fetched))
            continue;
        target_fail_fetch(t, -ETIMEDOUT);
        on_demand_free(t);
    }
    return session_goes_on(s);
}

static void remark_no_stop(struct target *t)
{
    struct on_demand *od = on_demand_get(t);
    char end[UNIT_TEXT_MAX];

    if (od->remarked_stop)
        return;
    od->remarked_stop = true;
    session_remark(
        t->session, t, NULL,
        "cannot be stopped: Kineto has no stop, and the process has its request; it records until %s",
        format_time(end, target_end_at(t)));
    session_save(t->session);
}

bool session_stop_unfetched(struct session *s)
{
    bool goes_on = false;

    for (size_t i = 0; i < s->n_targets; i++)
        goes_on = goes_on || (s->targets[i].on_demand && s->targets[i].on_demand->fetched);
    for (size_t i = 0; i < s->n_targets && goes_on; i++) {
        struct target *t = &s->targets[i];
        if (t->record.state != STATE_STARTING)
            continue;
        if (t->on_demand && t->on_demand->fetched) {
            remark_no_stop(t);
            continue;
        }
        target_change_state(t, STATE_CANCELLED);
        on_demand_free(t);
    }
    return goes_on;
}

/* -- The recording -------------------------------------------------------------------------------------- */

static void on_changed(const struct kineto_process *p, bool is_active, void *arg)
{
    struct target *t = arg;

    t->on_demand->was_active |= is_active;
    t->on_demand->is_gone = !p;
    if (!p && t->record.state == STATE_RECORDING) {
        target_fail(t, "the process ended while it was recorded", "See its log for why it ended.");
        target_stop(t);
    }
}

static void on_demand_watch(struct target *t)
{
    struct on_demand *od = on_demand_get(t);
    const struct kineto_process *p = target_process(t);

    if (od->watch || !p)
        return;
    od->was_active |= kineto_is_active(p);
    od->watch = kineto_watch(t->session->all->kineto, p->pid, p->start_ticks, on_changed, t);
}

static void on_demand_arm_timer(struct target *t, int64_t in_ns, event_callback_fn fn)
{
    struct on_demand *od = on_demand_get(t);
    struct timeval tv = timeval_of(MAX(in_ns, INT64_C(0)));

    if (od->timer)
        event_free(od->timer);
    od->timer = event_new(t->session->all->jobs.base, -1, 0, fn, t);
    event_add(od->timer, &tv);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
    struct target *t = arg;

    (void)fd, (void)what;
    if (on_demand_left_ns(t) > 0) /* the wall clock was set */
        on_demand_arm_timer(t, on_demand_left_ns(t), on_end);
    else
        target_stop(t);
}

static void on_demand_start(struct target *t)
{
    on_demand_watch(t);
    on_demand_arm_timer(t, on_demand_left_ns(t), on_end);
    target_settle_start(t, true);
}

bool target_may_stop(struct target *t)
{
    const struct on_demand *od = t->on_demand;
    int64_t left_ns = on_demand_left_ns(t);

    if (left_ns <= 0 || (od && od->is_gone))
        return true;
    if (left_ns > END_SLACK_NS && t->session->record.state >= STATE_STOPPING)
        remark_no_stop(t);
    return false;
}

/* -- Its end -------------------------------------------------------------------------------------------- */

/* Whether its profiler was idle in a poll that came after the end. */
static bool is_over(const struct target *t, int64_t now_ns)
{
    const struct kineto_process *p = target_process(t);
    int64_t ended_ns = now_ns + on_demand_left_ns(t); /* monotonic */

    if (t->on_demand->is_gone)
        return true;
    if (!p) /* it ended, or has not polled since a restart of profd */
        return process_has_ended(t->worker.pid, (uint64_t)t->worker.process.start_ticks);
    return !kineto_is_active(p) && p->last_poll_mono_ns >= ended_ns + END_SLACK_NS;
}

/* One that still writes is waited for as long as an engine that writes before it answers its stop. */
static bool is_late(const struct target *t)
{
    const struct kineto_process *p = target_process(t);
    bool is_writing = p && kineto_is_active(p);
    int64_t patience_ns = is_writing ? MAX(t->session->all->settings->stop_timeout_ns, END_PATIENCE_NS)
                                     : END_PATIENCE_NS + t->session->all->kineto_settings->poll_ns;

    return -on_demand_left_ns(t) >= patience_ns;
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    struct target *t = arg;

    (void)fd, (void)what;
    on_demand_watch(t);
    if (!is_over(t, mono_ns()) && !is_late(t)) {
        on_demand_arm_timer(t, LOOK_INTERVAL_NS, on_look);
        return;
    }
    t->record.stop_answered_at = wall_ns();
    target_stopped(t);
}

static void on_demand_stop(struct target *t)
{
    if (t->record.stop_sent_at == RECORD_NONE) {
        t->record.stop_sent_at = MIN(target_end_at(t), wall_ns());
        t->stop_sent_ns = mono_ns();
        target_save(t);
    }
    on_demand_arm_timer(t, 0, on_look);
}

/* -- After a restart of profd --------------------------------------------------------------------------- */

void on_demand_rebuild(struct target *t)
{
    if (!target_is_on_demand(t))
        return;
    on_demand_get(t)->fetched = t->record.start_sent_at != RECORD_NONE;
    t->recorded = t->on_demand->fetched;
    t->start_unanswered = false;
}

void on_demand_resume(struct target *t)
{
    if (!target_is_on_demand(t) || t->record.state != STATE_RECORDING)
        return;
    on_demand_watch(t);
    on_demand_arm_timer(t, on_demand_left_ns(t), on_end);
}

const struct target_transport transport_kineto = {.start = on_demand_start, .stop = on_demand_stop};
