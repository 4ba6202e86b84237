/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted of sessions, and how they stand when somebody asks. */
#include "base/clock.h"
#include "daemon/session/internal.h"

void sessions_count_call(struct target *t, enum session_call call, const struct call_result *r)
{
    struct session_metrics *m = &t->session->all->metrics;
    bool answered_well = r->err == 0 && r->status / 100 == 2;

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

static void look_at(const struct target *t, struct session_gauges *g)
{
    g->targets[t->record.state]++;
    if (!t->record.stop_pending || t->record.state != STATE_STOPPING)
        return;
    g->stops_owed++;
    if (t->stop_sent_ns != 0)
        g->oldest_stop_sent_ns = MIN(g->oldest_stop_sent_ns, t->stop_sent_ns);
}

void sessions_gauges(const struct sessions *all, struct session_gauges *ret)
{
    struct session_gauges g = {.oldest_stop_sent_ns = INT64_MAX};
    const struct session *s;

    TAILQ_FOREACH(s, &all->list, next) {
        if (!state_is_final(s->record.state))
            g.sessions[s->record.state]++;
        for (size_t i = 0; i < s->n_targets; i++)
            look_at(&s->targets[i], &g);
    }
    *ret = g;
}
