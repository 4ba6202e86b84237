/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A requested session before it begins: waits for its time (--start-at), for its workers to be free
 * (--queue), for load
 * (--when-running). session_proceed() is called whenever one of these may have changed.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/session/internal.h"
#include <inttypes.h>

/* Stops that clean up, and the look at directories, are done ahead of a planned start; so much is set aside
 * for them. */
#define START_LEAD_NS        (2 * NS_PER_S)
#define WHEN_INTERVAL_NS     (500 * NS_PER_MS)
#define WHEN_CALL_TIMEOUT_NS (5 * NS_PER_S)

static bool holds_worker(const struct target *t)
{
    return t->record.state >= STATE_STARTING && t->record.state <= STATE_STOPPING;
}

struct session *sessions_holder(struct sessions *all, const char *worker_url, const struct session *except)
{
    struct session *s;

    TAILQ_FOREACH(s, &all->list, next)
    {
        if (s == except)
            continue;
        for (size_t i = 0; i < s->n_targets; i++)
            if (holds_worker(&s->targets[i]) && streq(s->targets[i].worker.url, worker_url))
                return s;
    }
    return NULL;
}

/* The session before this one in the queue, or recording, that has one of its workers. */
static struct session *blocker(struct session *s, const char **ret_url)
{
    for (size_t i = 0; i < s->n_targets; i++) {
        struct session *holder = sessions_holder(s->all, s->targets[i].worker.url, s);
        if (holder) {
            *ret_url = s->targets[i].worker.url;
            return holder;
        }
    }
    return NULL;
}

static void wait_for(struct session *s, char *take_text)
{
    free(s->waiting_for);
    s->waiting_for = take_text;
}

static void give_up_waiting(struct session *s, const char *remedy, const char *what)
{
    session_explain(s, remedy, "%s", what);
    for (size_t i = 0; i < s->n_targets; i++)
        target_edge(&s->targets[i], STATE_CANCELLED);
    session_check_finished(s);
}

static void poll_load(struct session *s);

static void on_load(const struct probe_answer *answers, void *arg)
{
    struct session *s = arg;
    size_t n_ready = 0, lowest = 0;

    s->probe = NULL;
    for (size_t i = 0; i < s->n_targets; i++) {
        n_ready += answers[i].running >= (double)s->request.when_running;
        if (answers[i].running < answers[lowest].running)
            lowest = i;
    }
    if (n_ready == s->n_targets) {
        wait_for(s, NULL);
        session_begin(s);
        return;
    }
    const char *url = s->targets[lowest].worker.url;
    wait_for(s, answers[lowest].running < 0
                    ? xasprintf("%s does not tell how many requests it runs (/metrics)", url)
                    : xasprintf("%" PRId64 " running requests; %s has %.0f", s->request.when_running, url,
                                answers[lowest].running));
    if (mono_ns() >= s->when_deadline_ns) {
        _cleanup_(freep)
        char *text = xasprintf("gave up waiting for %s", s->waiting_for);
        give_up_waiting(s, "Send more requests, lower --when-running, or raise --timeout.", text);
        return;
    }
    session_timer(s, mono_ns() + WHEN_INTERVAL_NS, poll_load);
}

static void poll_load(struct session *s)
{
    _cleanup_(freep)
    const struct worker **workers = xcalloc(s->n_targets, sizeof(*workers));

    for (size_t i = 0; i < s->n_targets; i++)
        workers[i] = &s->targets[i].worker;
    s->probe = probe_start(s->all, s->record.fleet, workers, s->n_targets, WHEN_CALL_TIMEOUT_NS, on_load, s);
}

void session_proceed(struct session *s)
{
    const char *url;
    char text[UNIT_TEXT_MAX];

    if (s->record.state != STATE_REQUESTED || s->probe)
        return;
    int64_t lead = s->request.start_at - START_LEAD_NS - wall_ns();
    if (s->request.start_at > 0 && lead > 0) {
        wait_for(s, xasprintf("%s", format_time(text, s->request.start_at)));
        /* A wall clock may be set meanwhile: looked at again at least once a minute. */
        session_timer(s, mono_ns() + MIN(lead, 60 * NS_PER_S), session_proceed);
        return;
    }
    struct session *holder = blocker(s, &url);
    if (holder) {
        wait_for(s, xasprintf("%s, held by s%" PRId64, url, holder->record.session_id));
        return;
    }
    if (s->request.when_running > 0) {
        if (s->when_deadline_ns == 0)
            s->when_deadline_ns = mono_ns() + s->request.when_timeout_ns;
        poll_load(s);
        return;
    }
    wait_for(s, NULL);
    session_begin(s);
}
