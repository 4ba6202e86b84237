/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on viewers: they wait in turns of users until one of a bounded number of viewers is free for them. Owns requests and
 * the list of viewers; what a viewer does with its request is viewer.c.
 */
#include "daemon/report/viewer_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>
#include <event2/buffer.h>
#include <sys/stat.h>

/* How long a request waits for its turn while others are computed. */
#define WAITING_DEADLINE (60 * NS_PER_S)
/* How long a viewer may go on with a request that nobody waits for any more. */
#define CANCELLED_PATIENCE (1 * NS_PER_S)

void viewers_schedule(struct viewers *viewers)
{
    event_active(viewers->due, 0, 0);
}

/* -- Requests ------------------------------------------------------------------------------------------- */

static void view_request_free(struct view_request *q)
{
    event_free(q->on_late);
    free(q->user);
    free(q->text);
    free(q);
}

void view_request_end(struct viewers *viewers, struct view_request *q, struct view_end *end)
{
    bool has_failed = end->problem.kind != PROBLEM_NONE;

    if (q->begun_ns)
        histogram_add(&viewers->metrics.durations, mono_ns() - q->begun_ns);
    viewers->metrics.cancelled += q->is_cancelled;
    viewers->metrics.answered += !q->is_cancelled && !has_failed;
    if (!q->is_cancelled)
        q->done(end, q->arg);
    problem_done(&end->problem);
    view_request_free(q);
}

void view_request_fail(struct viewers *viewers, struct view_request *q, const struct problem *p)
{
    struct view_end end = {0};

    problem_copy(&end.problem, -EIO, p->kind, p);
    viewers->metrics.failed += !q->is_cancelled;
    view_request_end(viewers, q, &end);
}

void view_request_wait(struct viewers *viewers, struct view_request *q)
{
    const struct timeval deadline = timeval_of(WAITING_DEADLINE);

    event_add(q->on_late, &deadline);
    turns_add(&viewers->turns, &q->turn);
    q->viewer->n_waiting++;
    viewers->metrics.waiting++;
    viewers_schedule(viewers);
}

static void view_request_drop(struct viewers *viewers, struct view_request *q, bool begins)
{
    if (begins)
        turns_take(&viewers->turns, &q->turn);
    else
        turns_drop(&viewers->turns, &q->turn);
    event_del(q->on_late);
    q->viewer->n_waiting--;
    viewers->metrics.waiting--;
}

/* -- Turns --------------------------------------------------------------------------------------------- */

/* Of those that wait for requests, the one that waits longest ends. */
static void viewers_end_oldest(struct viewers *viewers)
{
    struct viewer *w;

    TAILQ_FOREACH(w, &viewers->list, next) {
        if (w->is_alive && w->is_ending)
            return;
        if (w->is_alive && !w->current && w->n_waiting == 0) {
            viewer_kill(w);
            return;
        }
    }
}

/* 1 if the request began, 0 if it waits on; else it has failed, and its asker was answered. */
static int viewers_begin(struct viewers *viewers, struct view_request *q)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct viewer *w = q->viewer;
    int r = 0;

    if (w->current || w->is_ending)
        return 0;
    if (!w->is_alive && viewers->metrics.alive >= VIEWERS_MAX) {
        viewers_end_oldest(viewers);
        return 0;
    }
    if (!w->is_alive)
        r = viewer_start(w);
    view_request_drop(viewers, q, true);
    if (r >= 0) {
        viewer_send(w, q);
        return 1;
    }
    problem_set(&p, r, PROBLEM_INTERNAL, "cannot start %s: %s", viewers->program, strerror(-r));
    view_request_fail(viewers, q, &p);
    viewer_free_unused(w);
    viewers_schedule(viewers);
    return r;
}

static void viewers_on_due(evutil_socket_t fd, short what, void *arg)
{
    struct viewers *viewers = arg;
    struct turn *following;

    for (struct turn *turn = turns_next(&viewers->turns, NULL);
         turn && viewers->n_busy < viewers->settings->children_max; turn = following) {
        following = turns_next(&viewers->turns, turn);
        /* Whoever was answered may have cancelled what follows; the rest has its turn in the next iteration. */
        if (viewers_begin(viewers, container_of(turn, struct view_request, turn)) < 0)
            break;
    }
}

static void view_request_on_late(evutil_socket_t fd, short what, void *arg)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct view_request *q = arg;
    struct viewer *w = q->viewer;
    struct viewers *viewers = w->owner;

    problem_remedy(&p, TURNS_REMEDY_REPORTS);
    problem_set(&p, -ETIME, PROBLEM_TOO_MANY, "other requests took all the time for 60 s");
    view_request_drop(viewers, q, false);
    view_request_fail(viewers, q, &p);
    viewer_free_unused(w);
}

/* ------------------------------------------------------------------------------------------------------- */

int viewers_new(struct event_base *base, const char *program, const struct reports_settings *settings,
                struct viewers **ret)
{
    static const struct turn_limits limits = {.all = VIEWERS_WAITING_MAX,
                                              .user = VIEWERS_WAITING_USER_MAX,
                                              .traces = VIEWERS_WAITING_MAX,
                                              .what = "requests on timelines",
                                              .items = "traces",
                                              .remedy = TURNS_REMEDY_REPORTS};
    struct viewers *viewers = xcalloc(1, sizeof(*viewers));

    viewers->base = base;
    viewers->program = xstrdup(program);
    viewers->settings = settings;
    TAILQ_INIT(&viewers->list);
    turns_init(&viewers->turns, &limits);
    viewers->due = evtimer_new(base, viewers_on_due, viewers);
    *ret = viewers;
    return 0;
}

struct viewers *viewers_free(struct viewers *viewers)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct viewer *w, *following;
    struct turn *turn;

    if (!viewers)
        return NULL;
    viewers->is_closing = true;
    problem_set(&p, -ECANCELED, PROBLEM_INTERNAL, "profd is stopping");
    while ((turn = TAILQ_FIRST(&viewers->turns.waiting))) {
        struct view_request *q = container_of(turn, struct view_request, turn);
        view_request_drop(viewers, q, false);
        view_request_fail(viewers, q, &p);
    }
    TAILQ_FOREACH(w, &viewers->list, next)
        viewer_kill(w);
    for (w = TAILQ_FIRST(&viewers->list); w; w = following) {
        following = TAILQ_NEXT(w, next);
        if (w->is_alive)
            viewer_reap(w);
        else
            viewer_free(w);
    }
    event_free(viewers->due);
    free(viewers->program);
    free(viewers);
    return NULL;
}

void viewers_renew(struct viewers *viewers)
{
    struct viewer *w;

    TAILQ_FOREACH(w, &viewers->list, next) {
        w->is_outdated = w->is_outdated || w->current;
        if (!w->current)
            viewer_kill(w);
    }
    viewers_schedule(viewers);
}

bool viewers_are_idle(const struct viewers *viewers)
{
    return viewers->n_busy == 0 && viewers->metrics.waiting == 0;
}

/* Columns that were made again have taken the name of the old ones, which then have none. */
static bool viewer_is_current(const struct viewer *w)
{
    struct stat st;

    return !w->is_outdated && fstat(w->fds[0], &st) == 0 && st.st_nlink > 0;
}

static struct viewer *viewers_find(struct viewers *viewers, int64_t trace_id)
{
    struct viewer *w;

    TAILQ_FOREACH(w, &viewers->list, next) {
        if (w->trace_id != trace_id || w->is_outdated)
            continue;
        if (viewer_is_current(w))
            return w;
        w->is_outdated = true;
        if (!w->current && w->n_waiting == 0)
            viewer_kill(w);
        return NULL;
    }
    return NULL;
}

bool viewers_know(struct viewers *viewers, int64_t trace_id)
{
    return viewers_find(viewers, trace_id);
}

int viewers_check_room(const struct viewers *viewers, const char *user, struct problem *p)
{
    return turns_check(&viewers->turns, user, 1, p);
}

struct view_request *viewers_ask(struct viewers *viewers, const struct view_job *take,
                                 void (*done)(struct view_end *end, void *arg), void *arg)
{
    struct view_request *q = xcalloc(1, sizeof(*q));
    struct viewer *w = viewers_find(viewers, take->trace_id);

    if (w) {
        int fds[] = {take->columns_fd, take->source_fd};
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
            closep(&fds[i]);
    } else {
        w = viewer_new(viewers, take);
    }
    *q = (struct view_request){.viewer = w,
                               .user = xstrdup(take->user ? take->user : ""),
                               .text = xasprintf("%s\n", take->request),
                               .done = done,
                               .arg = arg};
    q->turn = (struct turn){.user = q->user, .n_traces = 1};
    q->on_late = evtimer_new(viewers->base, view_request_on_late, q);
    view_request_wait(viewers, q);
    return q;
}

void viewers_cancel(struct view_request *q)
{
    const struct timeval patience = timeval_of(CANCELLED_PATIENCE);
    struct viewer *w = q->viewer;
    struct viewers *viewers = w->owner;

    q->is_cancelled = true;
    if (w->current == q) {
        event_add(w->on_time, &patience);
        return;
    }
    struct view_end end = {0};
    view_request_drop(viewers, q, false);
    view_request_end(viewers, q, &end);
    viewer_free_unused(w);
}

void viewers_metrics(const struct viewers *viewers, struct viewers_metrics *ret)
{
    *ret = viewers->metrics;
}
