/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One viewer: its child and descriptors, from the start to the exit, one request at a time, and what the child answers. Which
 * request comes next, and whose turn it is, is decided in viewers.c.
 */
#include "daemon/report/viewer_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Without a request. */
#define VIEWER_IDLE (60 * NS_PER_S)
/* Of one request, from when the viewer got it; the first one opens the trace. */
#define REQUEST_DEADLINE (30 * NS_PER_S)
/* Processor time of a viewer: it ends by itself, between two requests, before it has used it up. */
#define VIEWER_CPU_S 1200
/* How often a request is sent: a viewer that was killed, or ended by itself meanwhile, is no reason to fail it. */
#define ATTEMPTS_MAX 2
/* Values of a problem. */
#define PROBLEM_VALUES_MAX 16

/* -- The end of a viewer -------------------------------------------------------------------------------- */

void viewer_free(struct viewer *w)
{
    TAILQ_REMOVE(&w->owner->list, w, next);
    closep(&w->fds[0]);
    closep(&w->fds[1]);
    event_free(w->on_time);
    evbuffer_free(w->in);
    free(w);
}

void viewer_free_unused(struct viewer *w)
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

void viewer_kill(struct viewer *w)
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

void viewer_reap(struct viewer *w)
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

int viewer_start(struct viewer *w)
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
void viewer_send(struct viewer *w, struct view_request *q)
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

struct viewer *viewer_new(struct viewers *viewers, const struct view_job *take)
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
