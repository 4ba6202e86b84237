/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load that a session is recorded under: its workers are warmed up before their profilers are started,
 * the load goes when they are, and the recording ends with it where its own time is not over before.
 *
 * A load that fails ends the recording; a recording that does not begin gives up the load. One that ends by
 * itself, by its time or steps, lets the load come to its end: its figures are of the whole.
 */
#include "base/alloc.h"
#include "daemon/catalog/records.h"
#include "daemon/session/internal.h"
#include <inttypes.h>

void session_warm_up(struct session *s)
{
    s->warming = true;
    free(s->waiting_for);
    s->waiting_for = xasprintf("the warm-up of r%" PRId64, s->run_id);
    s->all->loader_ops->warm_up(s, s->all->loader);
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

static void fail_requested(struct session *s, const char *failure, const char *remedy)
{
    for (size_t i = 0; i < s->n_targets; i++) {
        target_fail(&s->targets[i], failure, remedy);
        target_edge(&s->targets[i], STATE_FAILED);
    }
    session_check_finished(s);
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
    if (s->record.state == STATE_REQUESTED && failure)
        fail_requested(s, failure, remedy);
    else if (s->record.state <= STATE_RECORDING)
        session_stop(s);
}

void target_check_empty(struct target *t)
{
    struct session *s = t->session;
    int64_t n_traces, n_work;

    if (!session_has_load(s) ||
        catalog_count_work(s->all->catalog, t->record.target_id, &n_traces, &n_work) < 0 || n_traces == 0 ||
        n_work > 0)
        return;
    session_remark(s, t,
                   "Did its load reach it, and last until the start was answered? profctl show has the run.",
                   "recorded no work of its model, although r%" PRId64 " was sent", s->run_id);
    session_save(s);
}
