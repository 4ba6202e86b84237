/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load that a session is recorded under: its workers are warmed up before their profilers are started,
 * the load goes when they are, and the recording ends with it where its own time is not over before.
 *
 * A load that fails ends the recording; a recording that does not begin cancels the load. After a recording
 * that ends by itself, by its time or steps, the load continues to its end: its figures cover the entire run.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/catalog/records.h"
#include "daemon/session/internal.h"
#include <inttypes.h>

#define STEPS_TIMEOUT_NS (5 * NS_PER_S)

void session_warm_up(struct session *s)
{
    s->warming = true;
    free(s->waiting_for);
    s->waiting_for = xasprintf("the warm-up of r%" PRId64, s->run_id);
    s->all->loader_ops->warm_up(s, s->all->loader);
}

/* -- Steps counted from the load's beginning ----------------------------------------------------------- */

static bool counts_from_load(const struct target *t)
{
    const struct recording recording = target_recording(t);
    return t->record.state == STATE_STARTING && target_engine(t)->steps_since_launch && recording.from_load &&
           (recording.start_step > 0 || t->session->request.job.folder);
}

static void remark_steps(struct session *s, struct target *t)
{
    const struct recording asked = job_request_recording(&s->request, t->worker.role),
                           sent = target_recording(t);
    int64_t first = MAX(asked.start_step, (int64_t)1);

    if (t->steps_before_load < 0 && asked.start_step == 0)
        return; /* it is started before the load, at once */
    if (t->steps_before_load < 0)
        session_remark(s, t,
                       "Start SGLang with --enable-metrics. Workers that prefill need a version that counts "
                       "prefill passes in sglang:cuda_graph_passes_total.",
                       "does not report how many steps it has done: step %" PRId64
                       " is counted from its launch, not from the beginning of the load",
                       asked.start_step);
    else if (asked.steps > 0)
        session_remark(s, t,
                       t->worker.sizes.dp > 1 ? "Idle steps of data-parallel ranks are not counted: the "
                                                "recording may begin earlier by their number."
                                              : NULL,
                       "engine steps %" PRId64 " to %" PRId64 " requested: steps %" PRId64 " to %" PRId64
                       " of the load, which began after engine step %.0f",
                       sent.start_step, sent.start_step + asked.steps - 1, first, first + asked.steps - 1,
                       t->steps_before_load);
    else
        session_remark(s, t, NULL,
                       "engine step %" PRId64 " requested: step %" PRId64
                       " of the load, which began after engine step %.0f",
                       sent.start_step, first, t->steps_before_load);
}

static void on_steps_counted(const struct probe_answer *answers, void *arg)
{
    struct session *s = arg;

    s->probe = NULL;
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        if (!counts_from_load(t))
            continue;
        t->steps_before_load = answers[i].since_launch;
        remark_steps(s, t);
    }
    s->counted(s);
}

void session_count_steps(struct session *s, void (*then)(struct session *s))
{
    bool matters = false;

    for (size_t i = 0; i < s->n_targets; i++)
        matters = matters || counts_from_load(&s->targets[i]);
    s->counted = then;
    if (matters)
        session_probe(s, STEPS_TIMEOUT_NS, on_steps_counted);
    else
        then(s);
}

void session_warmed(struct session *s)
{
    if (s->record.state != STATE_REQUESTED || !s->warming)
        return;
    s->warming = false;
    s->warmed = true;
    replace_str(&s->waiting_for, NULL);
    session_begin(s);
}

void session_load(struct session *s)
{
    if (!session_has_load(s) || s->load_over)
        return;
    s->loads = true;
    s->all->loader_ops->go(s, s->all->loader);
}

void session_stop_load(struct session *s)
{
    if (session_has_load(s) && !s->load_over && s->all->loader_ops)
        s->all->loader_ops->stop(s, s->all->loader);
}

void session_load_ended(struct session *s, const char *failure, const char *remedy)
{
    s->load_over = true;
    if (state_is_final(s->record.state))
        return;
    if (failure)
        session_explain(s, remedy, "its load r%" PRId64 " failed: %s", s->run_id, failure);
    else if (!s->loads)
        session_explain(s, NULL, "its load r%" PRId64 " was stopped before it began", s->run_id);
    if (s->record.state == STATE_REQUESTED && failure) {
        for (size_t i = 0; i < s->n_targets; i++)
            target_fail(&s->targets[i], failure, remedy);
        session_end_unstarted(s, STATE_FAILED);
    } else if (s->record.state <= STATE_RECORDING) {
        session_stop(s);
    }
}

void target_check_empty(struct target *t)
{
    struct session *s = t->session;
    int64_t n_traces, n_work;

    if (!session_has_load(s) ||
        catalog_count_work(s->all->jobs.catalog, t->record.target_id, &n_traces, &n_work) < 0 ||
        n_traces == 0 || n_work > 0)
        return;
    session_remark(s, t,
                   "Did its load reach it, and last until the start was answered? profctl show has the run.",
                   "recorded no work of its model, although r%" PRId64 " was sent", s->run_id);
    session_save(s);
}
