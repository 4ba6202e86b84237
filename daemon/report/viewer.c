/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/viewer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "daemon/report/child.h"
#include "daemon/report/turns.h"
#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Without a request. */
#define VIEWER_IDLE (60 * NS_PER_S)
/* Of one request, from when the viewer got it; the first one opens the trace. */
#define REQUEST_DEADLINE (30 * NS_PER_S)
/* How long a request waits for its turn while others are computed. */
#define WAITING_DEADLINE (60 * NS_PER_S)
/* How long a viewer may go on with a request that nobody waits for any more. */
#define CANCELLED_PATIENCE (1 * NS_PER_S)
/* Processor time of a viewer: it ends by itself, between two requests, before it has used it up. */
#define VIEWER_CPU_S 1200
/* How often a request is sent: a viewer that was killed, or ended by itself meanwhile, is no reason to fail it. */
#define ATTEMPTS_MAX 2
/* Values of a problem. */
#define PROBLEM_VALUES_MAX 16

struct view_request {
    struct turn turn;
    struct viewer *viewer;
    char *user, *text;
    unsigned attempts;
    struct event *on_late; /* while it waits */
    int64_t begun_ns;
    bool is_cancelled;
    void (*done)(struct view_end *end, void *arg);
    void *arg;
};

/* A trace with requests, or with a child that waits for some. */
struct viewer {
    TAILQ_ENTRY(viewer) next;
    struct viewers *owner;
    int64_t trace_id;
    int fds[2];       /* columns, original */
    size_t n_waiting; /* requests */
    bool is_outdated; /* it gets no more requests */
    bool is_alive;    /* it has a child */
    bool is_ending;   /* which was killed */
    struct report_child child;
    int socket;
    struct event *on_socket, *on_result, *on_exit, *on_time;
    struct evbuffer *in;
    struct view_request *current; /* that the child computes; NULL: none */
};
TAILQ_HEAD(viewer_list, viewer);

struct viewers {
    struct event_base *base;
    char *program;
    const struct reports_settings *settings;
    struct viewer_list list; /* the one that was used last is the last */
    struct turns turns;
    struct event *due;
    int64_t n_busy; /* viewers with a request */
    bool is_closing;
    struct viewers_metrics metrics;
};

static void viewers_schedule(struct viewers *viewers)
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

/* It neither waits nor runs. end has what done() gets; its problem is released. */
static void view_request_end(struct viewers *viewers, struct view_request *q, struct view_end *end)
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

static void view_request_fail(struct viewers *viewers, struct view_request *q, const struct problem *p)
{
    struct view_end end = {0};

    problem_copy(&end.problem, -EIO, p->kind, p);
    viewers->metrics.failed += !q->is_cancelled;
    view_request_end(viewers, q, &end);
}

static void view_request_wait(struct viewers *viewers, struct view_request *q)
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

/* -- The end of a viewer -------------------------------------------------------------------------------- */

static void viewer_free(struct viewer *w)
{
    TAILQ_REMOVE(&w->owner->list, w, next);
    closep(&w->fds[0]);
    closep(&w->fds[1]);
    event_free(w->on_time);
    evbuffer_free(w->in);
    free(w);
}

static void viewer_free_unused(struct viewer *w)
{
    if (!w->is_alive && w->n_waiting == 0 && !w->current)
        viewer_free(w);
}

static struct view_request *viewer_take_current(struct viewer *w)
{
    w->owner->n_busy -= w->current != NULL;
    event_del(w->on_time);
    return TAKE_PTR(w->current);
}

static void viewer_kill(struct viewer *w)
{
    if (w->is_alive && !w->is_ending)
        report_child_kill(&w->child);
    w->is_ending = true;
}

/* Of a child that is gone. */
static void viewer_close_child(struct viewer *w)
{
    struct event *events[] = {w->on_socket, w->on_result, w->on_exit};

    for (size_t i = 0; i < ARRAY_SIZE(events); i++)
        if (events[i])
            event_free(events[i]);
    w->on_socket = w->on_result = w->on_exit = NULL;
    event_del(w->on_time);
    closep(&w->socket);
    w->socket = -1;
    report_child_done(&w->child);
    evbuffer_drain(w->in, evbuffer_get_length(w->in));
    w->owner->metrics.alive--;
    w->is_alive = w->is_ending = false;
}

/* Whether the request that the child had is sent to another one: not where it explains why it cannot be answered. */
static bool viewer_tries_again(const struct viewer *w, const struct view_request *q, const siginfo_t *end,
                               const struct problem *p)
{
    bool is_explained = end->si_code == CLD_EXITED && end->si_status == 0 && p->kind != PROBLEM_NONE;

    return q->attempts < ATTEMPTS_MAX && !q->is_cancelled && !is_explained && !w->owner->is_closing;
}

static void viewer_reap(struct viewer *w)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct view_request *q = viewer_take_current(w);
    struct viewers *viewers = w->owner;
    siginfo_t end;

    report_child_reap(&w->child, &end);
    if (q)
        report_child_explain(&w->child, &end, &p);
    viewer_close_child(w);
    if (q && viewer_tries_again(w, q, &end, &p)) {
        view_request_wait(viewers, q);
    } else if (q) {
        problem_set(&p, -EIO, PROBLEM_INTERNAL, "profd-report ended without an answer");
        view_request_fail(viewers, q, &p);
    }
    viewer_free_unused(w);
    viewers_schedule(viewers);
}

static void viewer_on_exit(evutil_socket_t fd, short what, void *arg)
{
    viewer_reap(arg);
}

static void viewer_on_result(evutil_socket_t fd, short what, void *arg)
{
    struct viewer *w = arg;

    if (!report_child_read(&w->child))
        return;
    event_del(w->on_result);
    if (report_child_is_full(&w->child))
        viewer_kill(w);
}

/* The request fails at once: the child may be one that does not end. */
static void viewer_give_up(struct viewer *w, enum problem_kind kind, const char *what, const char *remedy)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct view_request *q = viewer_take_current(w);

    viewer_kill(w);
    if (!q)
        return;
    if (remedy)
        problem_remedy(&p, "%s", remedy);
    problem_set(&p, -EIO, kind, "%s", what);
    view_request_fail(w->owner, q, &p);
}

static void viewer_on_time(evutil_socket_t fd, short what, void *arg)
{
    viewer_give_up(arg, PROBLEM_TOO_LARGE, "the work on the trace reached its time limit of 30 s",
                   "Select a part of the trace.");
}

/* -- Answers -------------------------------------------------------------------------------------------- */

static void viewer_rest(struct viewer *w)
{
    const struct timeval idle = timeval_of(VIEWER_IDLE);

    if (w->is_outdated)
        viewer_kill(w);
    else
        event_add(w->on_time, &idle);
    viewers_schedule(w->owner);
}

static void viewer_read_problem(struct evbuffer *body, size_t size, struct problem *p)
{
    char error[200];
    const char *text = (const char *)evbuffer_pullup(body, (ssize_t)size);
    _cleanup_json_ result = text ? json_parse_bounded(text, size, PROBLEM_VALUES_MAX, error) : NULL;

    report_child_read_problem(result, p);
    problem_set(p, -EIO, PROBLEM_INTERNAL, "profd-report refused without a reason");
}

static void viewer_answer(struct viewer *w, const struct view_frame *frame)
{
    struct view_request *q = viewer_take_current(w);
    struct view_end end = {
        .body = evbuffer_new(), .is_json = frame->kind == VIEW_FRAME_JSON, .is_gzip = frame->is_gzip};
    struct viewers *viewers = w->owner;
    struct evbuffer *body = end.body;

    evbuffer_drain(w->in, sizeof(*frame));
    evbuffer_remove_buffer(w->in, body, frame->size);
    if (frame->kind == VIEW_FRAME_PROBLEM) {
        viewer_read_problem(body, frame->size, &end.problem);
        viewers->metrics.refused += !q->is_cancelled;
    }
    /* done() may ask again. */
    viewer_rest(w);
    view_request_end(viewers, q, &end);
    evbuffer_free(body);
}

static bool view_frame_is_sound(const struct view_frame *frame)
{
    size_t max = frame->kind == VIEW_FRAME_PROBLEM ? REPORT_RESULT_MAX : VIEW_ANSWER_MAX;

    return frame->kind < _VIEW_FRAME_KIND_MAX && frame->size <= max && frame->is_gzip <= 1 &&
           frame->zero == 0 && !(frame->kind == VIEW_FRAME_PROBLEM && frame->is_gzip);
}

/* Never more than one answer is in the buffer. */
static void viewer_on_socket(evutil_socket_t fd, short what, void *arg)
{
    struct viewer *w = arg;
    struct view_frame frame;

    int n = evbuffer_read(w->in, fd, -1);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        /* Its exit comes next. */
        event_del(w->on_socket);
        return;
    }
    size_t size = evbuffer_get_length(w->in);
    bool has_frame = evbuffer_copyout(w->in, &frame, sizeof(frame)) == (ssize_t)sizeof(frame);
    if (!w->current || (has_frame && (!view_frame_is_sound(&frame) || size > sizeof(frame) + frame.size))) {
        event_del(w->on_socket);
        viewer_give_up(w, PROBLEM_INTERNAL, "profd-report sent no sound answer", NULL);
        return;
    }
    if (has_frame && size == sizeof(frame) + frame.size)
        viewer_answer(w, &frame);
}

/* -- Start ---------------------------------------------------------------------------------------------- */

static int viewer_spawn(struct viewer *w, int *socket)
{
    const struct viewers *viewers = w->owner;
    _cleanup_(closep) int spec_fd =
        report_child_spec("{\"kind\":\"view\",\"traces\":[{\"name\":\"trace\"}]}");
    struct stat columns, source = {0};

    if (spec_fd < 0)
        return spec_fd;
    if (fstat(w->fds[0], &columns) < 0 || (w->fds[1] >= 0 && fstat(w->fds[1], &source) < 0))
        return -errno;
    const struct report_child_start start = {.program = viewers->program,
                                             .trace_fds = w->fds,
                                             .n = 1,
                                             .spec_fd = &spec_fd,
                                             .answer_fd = socket,
                                             .memory_max = viewers->settings->memory_max,
                                             .cpu_s = VIEWER_CPU_S,
                                             .mapped = columns.st_size + source.st_size,
                                             .answer_max = VIEW_ANSWER_MAX};
    return report_child_start(&w->child, &start);
}

static int viewer_start(struct viewer *w)
{
    struct event_base *base = w->owner->base;
    int sockets[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
        return -errno;
    _cleanup_(closep) int theirs = sockets[1];
    w->socket = sockets[0];
    int r = evutil_make_socket_nonblocking(w->socket) < 0 ? -errno : viewer_spawn(w, &theirs);
    if (r < 0) {
        closep(&w->socket);
        w->socket = -1;
        report_child_done(&w->child);
        return r;
    }
    w->is_alive = true;
    w->owner->metrics.alive++;
    w->owner->metrics.started++;
    w->on_socket = event_new(base, w->socket, EV_READ | EV_PERSIST, viewer_on_socket, w);
    w->on_result = event_new(base, w->child.result_fd, EV_READ | EV_PERSIST, viewer_on_result, w);
    w->on_exit = event_new(base, w->child.pid_fd, EV_READ, viewer_on_exit, w);
    event_add(w->on_socket, NULL);
    event_add(w->on_result, NULL);
    event_add(w->on_exit, NULL);
    return 0;
}

/* The line is smaller than the buffer of a socket, which is empty. A child that is gone shows by its exit. */
static void viewer_send(struct viewer *w, struct view_request *q)
{
    const struct timeval deadline = timeval_of(REQUEST_DEADLINE);

    TAILQ_REMOVE(&w->owner->list, w, next);
    TAILQ_INSERT_TAIL(&w->owner->list, w, next);
    q->attempts++;
    q->begun_ns = mono_ns();
    w->current = q;
    w->owner->n_busy++;
    event_add(w->on_time, &deadline);
    size_t size = strlen(q->text);
    if (send(w->socket, q->text, size, MSG_NOSIGNAL) != (ssize_t)size)
        viewer_kill(w);
}

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

static struct viewer *viewer_new(struct viewers *viewers, const struct view_job *take)
{
    struct viewer *w = xcalloc(1, sizeof(*w));

    w->owner = viewers;
    w->trace_id = take->trace_id;
    w->fds[0] = take->columns_fd;
    w->fds[1] = take->source_fd;
    w->socket = -1;
    report_child_init(&w->child);
    w->on_time = evtimer_new(viewers->base, viewer_on_time, w);
    w->in = evbuffer_new();
    TAILQ_INSERT_TAIL(&viewers->list, w, next);
    return w;
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
