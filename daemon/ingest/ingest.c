/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/ingest.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/ingest/child.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/queue.h>
#include <sys/wait.h>

/* A slow disk under a busy host, and a child that shares its processor with the engine. */
#define INGEST_DEADLINE    (120 * NS_PER_S)
#define INGEST_BYTES_PER_S (INT64_C(1) << 20)
/* Kept open for the start of a child: files that wait may have taken all others. */
#define RESERVE_FDS 8

struct ingest_job {
    TAILQ_ENTRY(ingest_job) next;
    struct ingest *ingest;
    struct child_order child;
    void (*open_columns)(struct ingest_columns *ret, void *arg);
    void (*done)(const struct ingest_result *result, void *arg);
    void *arg;

    bool running;
    int64_t begun_ns;
    int pid_fd, answer_fd;
    struct event *on_answer, *on_exit, *on_time;
    char *answer;
    size_t answer_size;

    int err;    /* what ends the job, whatever the child says */
    char *fate; /* why profd itself gave up on the child */
};
TAILQ_HEAD(job_list, ingest_job);

struct ingest {
    struct event_base *base;
    char *program;
    unsigned children_max, n_running, n_waiting;
    int64_t deadline_ns;
    int reserve[RESERVE_FDS];
    int group_fd; /* -1: children stay where profd is */
    struct job_list waiting, running;
    struct ingest_metrics metrics;
};

static void start_waiting(struct ingest *ingest);

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void free_event(struct event **event)
{
    if (*event)
        event_free(*event);
    *event = NULL;
}

static void kill_child(struct ingest_job *job)
{
    if (job->pid_fd >= 0)
        pidfd_send_signal(job->pid_fd, SIGKILL, NULL, 0);
}

static void give_up(struct ingest_job *job, int err, char *fate)
{
    if (job->fate || job->err) {
        free(fate);
        return;
    }
    job->err = err;
    job->fate = fate;
    kill_child(job);
}

/* What a child's end says, where it is not a good one. */
static char *describe_end(const siginfo_t *end)
{
    if (end->si_code != CLD_EXITED) {
        const char *name = sigabbrev_np(end->si_status);
        return end->si_status == SIGXCPU ? xstrdup("profd-ingest used up its processor time")
                                         : xasprintf("profd-ingest was killed by SIG%s", name ? name : "?");
    }
    return end->si_status != 0 ? xasprintf("profd-ingest ended with status %d", end->si_status) : NULL;
}

/* The kernel kills where memory or the last of the processor time is gone, profd where the deadline is. */
static bool is_used_up(const siginfo_t *end)
{
    return end->si_code != CLD_EXITED && (end->si_status == SIGXCPU || end->si_status == SIGKILL);
}

/* Reads the child's object into the result; the reason of a bad one. */
static char *read_answer(const struct ingest_job *job, struct ingest_result *result)
{
    char error[200];
    json_t *facts = json_parse(job->answer, job->answer_size, error);

    if (!json_is_object(facts)) {
        json_decref(facts);
        return xasprintf("profd-ingest answered no JSON object: %s", facts ? "another value" : error);
    }
    json_decref(result->facts);
    result->facts = facts;
    int64_t destination_error = json_get_int(facts, "error", 0);
    int state = trace_state_from_name(json_get_str(facts, "state"));
    const char *reason = json_get_str(facts, "reason");
    if (destination_error > 0)
        result->err = -(int)destination_error;
    else if (state < 0)
        return xstrdup("profd-ingest named no state");
    else
        result->state = (enum trace_state)state;
    return reason ? xstrdup(reason) : NULL;
}

static void free_job(struct ingest_job *job)
{
    free_event(&job->on_answer);
    free_event(&job->on_exit);
    free_event(&job->on_time);
    child_order_done(&job->child);
    close_fd(&job->answer_fd);
    close_fd(&job->pid_fd);
    free(job->answer);
    free(job->fate);
    free(job);
}

static void count(struct ingest_metrics *m, const struct ingest_job *job, const struct ingest_result *result)
{
    if (result->used_up || job->fate)
        m->killed++;
    else if (result->err < 0 || result->state == TRACE_UNREADABLE)
        m->failed++;
    else
        m->read++;
    m->bytes += (uint64_t)job->child.source_size;
    histogram_add(&m->durations, mono_ns() - job->begun_ns);
}

/* end is NULL where there was no child. */
static void finish(struct ingest_job *job, const siginfo_t *end)
{
    struct ingest *ingest = job->ingest;
    struct ingest_result result = {.err = job->err,
                                   .state = TRACE_UNREADABLE,
                                   .facts = json_object(),
                                   .source_fd = job->child.fds[INGEST_FD_SOURCE],
                                   .dest_fd = job->child.fds[INGEST_FD_DEST]};

    result.reason = job->fate ? xstrdup(job->fate) : end ? describe_end(end) : NULL;
    result.used_up = result.err == 0 && end && is_used_up(end);
    if (!result.reason && result.err == 0)
        result.reason = read_answer(job, &result);
    if (job->running) {
        count(&ingest->metrics, job, &result);
        TAILQ_REMOVE(&ingest->running, job, next);
        ingest->n_running--;
    } else {
        TAILQ_REMOVE(&ingest->waiting, job, next);
        ingest->n_waiting--;
    }
    job->done(&result, job->arg);
    json_decref(result.facts);
    free(result.reason);
    free_job(job);
}

/* Takes what the pipe holds; true at its end. */
static bool take_answer(struct ingest_job *job)
{
    for (;;) {
        ssize_t n =
            read(job->answer_fd, job->answer + job->answer_size, INGEST_RESULT_MAX - job->answer_size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 || errno != EAGAIN;
        job->answer_size += (size_t)n;
        if (job->answer_size == INGEST_RESULT_MAX) {
            give_up(job, 0, xasprintf("profd-ingest answered %d bytes or more", INGEST_RESULT_MAX));
            return true;
        }
    }
}

static void on_answer(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct ingest_job *job = arg;
    if (take_answer(job))
        event_del(job->on_answer);
}

static void reap(struct ingest_job *job)
{
    siginfo_t end = {0};

    while (waitid(P_PIDFD, (id_t)job->pid_fd, &end, WEXITED) < 0 && errno == EINTR)
        ;
    if (!job->fate)
        take_answer(job);
    finish(job, &end);
}

static void on_exit_of_child(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct ingest_job *job = arg;
    struct ingest *ingest = job->ingest;

    reap(job);
    start_waiting(ingest);
}

static void on_time(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct ingest_job *job = arg;
    give_up(job, 0, xstrdup("profd-ingest did not end in the time that a file of this size may take"));
}

/* A job that has no child ends here, on the loop. */
static void on_end_without_child(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct ingest_job *job = arg;
    struct ingest *ingest = job->ingest;

    finish(job, NULL);
    start_waiting(ingest);
}

static void end_without_child(struct ingest_job *job)
{
    if (!job->on_time)
        job->on_time = evtimer_new(job->ingest->base, on_end_without_child, job);
    event_add(job->on_time, &(struct timeval){0, 0});
}

static int start_child(struct ingest_job *job)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    job->answer_fd = fds[0];
    job->child.fds[INGEST_FD_RESULT] = fds[1];
    if (fcntl(job->answer_fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    /* One that cannot join is bounded by its own limits all the same. */
    job->child.fds[INGEST_FD_GROUP] =
        job->ingest->group_fd >= 0 ? fcntl(job->ingest->group_fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (job->open_columns) {
        struct ingest_columns columns = {.fd = -1, .spill_fd = -1, .room = INT64_MAX};
        job->open_columns(&columns, job->arg);
        job->child.fds[INGEST_FD_COLUMNS] = columns.fd;
        job->child.fds[INGEST_FD_SPILL] = columns.spill_fd;
        job->child.columns_room = columns.room;
    }
    return child_start(job->ingest->program, &job->child, &job->pid_fd);
}

static void fill_reserve(struct ingest *ingest)
{
    for (size_t i = 0; i < RESERVE_FDS; i++)
        ingest->reserve[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void use_reserve(struct ingest *ingest)
{
    for (size_t i = 0; i < RESERVE_FDS; i++)
        close_fd(&ingest->reserve[i]);
}

static void watch_child(struct ingest_job *job)
{
    struct ingest *ingest = job->ingest;
    job->begun_ns = mono_ns();
    int64_t more_ns = job->child.source_size / INGEST_BYTES_PER_S * NS_PER_S;
    struct timeval deadline = timeval_of(ingest->deadline_ns + more_ns);

    job->answer = xcalloc(INGEST_RESULT_MAX, 1);
    job->on_answer = event_new(ingest->base, job->answer_fd, EV_READ | EV_PERSIST, on_answer, job);
    job->on_exit = event_new(ingest->base, job->pid_fd, EV_READ, on_exit_of_child, job);
    job->on_time = evtimer_new(ingest->base, on_time, job);
    event_add(job->on_answer, NULL);
    event_add(job->on_exit, NULL);
    event_add(job->on_time, &deadline);
}

/* What the child has by now. Its files stay open: who ordered it may want them again. */
static void close_given(struct ingest_job *job)
{
    for (int i = 0; i < (int)ARRAY_SIZE(job->child.fds); i++)
        if (i != INGEST_FD_SOURCE && i != INGEST_FD_DEST)
            close_fd(&job->child.fds[i]);
}

static void start(struct ingest_job *job)
{
    struct ingest *ingest = job->ingest;

    use_reserve(ingest);
    int r = start_child(job);
    if (r == 0)
        watch_child(job);
    close_given(job);
    fill_reserve(ingest);
    if (r < 0) {
        ingest->metrics.failed++;
        give_up(job, r, xasprintf("cannot start %s: %s", ingest->program, strerror(-r)));
        end_without_child(job);
        return;
    }
    TAILQ_REMOVE(&ingest->waiting, job, next);
    ingest->n_waiting--;
    TAILQ_INSERT_TAIL(&ingest->running, job, next);
    ingest->n_running++;
    job->running = true;
}

static struct ingest_job *next_to_start(struct ingest *ingest)
{
    struct ingest_job *job, *background = NULL;

    TAILQ_FOREACH(job, &ingest->waiting, next)
    {
        if (!job->err && !job->child.background)
            return job;
        if (!job->err && !background)
            background = job;
    }
    return background;
}

static void start_waiting(struct ingest *ingest)
{
    struct ingest_job *job;

    while (ingest->n_running < ingest->children_max && (job = next_to_start(ingest)))
        start(job);
}

int ingest_new(struct event_base *base, const char *program_path, unsigned children_max, struct ingest **ret)
{
    if (children_max == 0)
        return -EINVAL;
    struct ingest *ingest = xcalloc(1, sizeof(*ingest));
    *ingest = (struct ingest){
        .base = base,
        .program = xstrdup(program_path),
        .children_max = children_max,
        .deadline_ns = INGEST_DEADLINE,
        .group_fd = -1,
        .waiting = TAILQ_HEAD_INITIALIZER(ingest->waiting),
        .running = TAILQ_HEAD_INITIALIZER(ingest->running),
    };
    fill_reserve(ingest);
    *ret = ingest;
    return 0;
}

struct ingest *ingest_free(struct ingest *ingest)
{
    struct ingest_job *job;

    if (!ingest)
        return NULL;
    while ((job = TAILQ_FIRST(&ingest->waiting))) {
        give_up(job, -ECANCELED, xstrdup("cancelled"));
        finish(job, NULL);
    }
    TAILQ_FOREACH(job, &ingest->running, next)
    give_up(job, -ECANCELED, xstrdup("cancelled"));
    while ((job = TAILQ_FIRST(&ingest->running)))
        reap(job);
    use_reserve(ingest);
    close_fd(&ingest->group_fd);
    free(ingest->program);
    free(ingest);
    return NULL;
}

void ingest_set_children_max(struct ingest *ingest, unsigned children_max)
{
    ingest->children_max = children_max;
    start_waiting(ingest);
}

void ingest_set_group(struct ingest *ingest, int take_procs_fd)
{
    close_fd(&ingest->group_fd);
    ingest->group_fd = take_procs_fd;
}

unsigned ingest_children_max(const struct ingest *ingest)
{
    return ingest->children_max;
}

void ingest_metrics(const struct ingest *ingest, struct ingest_metrics *ret)
{
    *ret = ingest->metrics;
    ret->running = ingest->n_running;
    ret->waiting = ingest->n_waiting;
}

int ingest_check(const struct ingest *ingest)
{
    return access(ingest->program, X_OK) < 0 ? -errno : 0;
}

bool ingest_is_full(const struct ingest *ingest)
{
    return ingest->n_waiting >= INGEST_WAITING_MAX;
}

void ingest_set_deadline(struct ingest *ingest, int64_t duration_ns)
{
    ingest->deadline_ns = duration_ns;
}

struct ingest_job *ingest_run(struct ingest *ingest, const struct ingest_order *order,
                              void (*done)(const struct ingest_result *result, void *arg), void *arg)
{
    struct ingest_job *job = xcalloc(1, sizeof(*job));
    bool full = ingest_is_full(ingest);

    *job = (struct ingest_job){.ingest = ingest,
                               .child = {.fds = {[0 ... INGEST_FD_GROUP] = -1},
                                         .source_size = order->source_size,
                                         .size_max = order->size_max,
                                         .memory_max = order->memory_max,
                                         .background = order->background},
                               .open_columns = order->open_columns,
                               .done = done,
                               .arg = arg,
                               .pid_fd = -1,
                               .answer_fd = -1};
    job->child.fds[INGEST_FD_SOURCE] = order->source_fd;
    job->child.fds[INGEST_FD_DEST] = order->dest_fd;
    TAILQ_INSERT_TAIL(&ingest->waiting, job, next);
    ingest->n_waiting++;
    if (full) {
        give_up(job, -EAGAIN, xasprintf("more than %d files wait to be read", INGEST_WAITING_MAX));
        end_without_child(job);
        return job;
    }
    start_waiting(ingest);
    return job;
}

void ingest_cancel(struct ingest_job *job)
{
    give_up(job, -ECANCELED, xstrdup("cancelled"));
    if (!job->running)
        end_without_child(job);
}
