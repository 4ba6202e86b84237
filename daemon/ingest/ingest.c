/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/ingest.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/ingest/queue.h"
#include "proto/ingest_child.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/queue.h>

/* A slow disk of a busy host, and a child that shares a slow processor with the engine. */
#define INGEST_DEADLINE    (120 * NS_PER_S)
#define INGEST_BYTES_PER_S (INT64_C(1) << 20)
#define CPU_S              30
#define BYTES_PER_CPU_S    (INT64_C(2) << 20)
/* Descriptors kept for the start of a child: files that wait may have taken all others. */
#define RESERVE_FDS 8

struct ingest_job {
    TAILQ_ENTRY(ingest_job) next;
    struct queue_file entry; /* in the queue; unused by a job that ends without a child */
    bool queued;
    struct ingest *ingest;
    struct ingest_child child;
    int64_t source_size;
    void (*open_columns)(struct ingest_columns *ret, void *arg);
    void (*drop_columns)(void *arg);
    void (*done)(const struct ingest_result *result, void *arg);
    void *arg;

    int64_t begun_ns; /* its first slice; 0: it had none */
    struct event *answer_event, *exit_event, *time_event;

    int err;    /* it ends the job, whatever the child answers */
    char *fate; /* why profd itself gave up on the child */
};
TAILQ_HEAD(job_list, ingest_job);

struct ingest {
    struct event_base *base;
    char *program;
    struct ingest_queue queue;
    struct event *due;
    int64_t deadline_ns;
    int reserve[RESERVE_FDS];
    int group_fd; /* -1: children stay where profd is */
    struct job_list jobs;
    struct ingest_metrics metrics;
};

static void ingest_schedule(struct ingest *ingest);

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void job_give_up(struct ingest_job *job, int err, char *fate)
{
    if (job->fate || job->err) {
        free(fate);
        return;
    }
    job->err = err;
    job->fate = fate;
    ingest_child_kill(&job->child);
}

/* Reads the child's object into the result; the reason of a bad one. */
static char *job_read_answer(const struct ingest_job *job, struct ingest_result *result)
{
    char *why = NULL;
    json_t *facts = ingest_child_parse(&job->child, &why);

    if (!facts)
        return why;
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

static void job_free_events(struct ingest_job *job)
{
    struct event **const events[] = {&job->answer_event, &job->exit_event, &job->time_event};

    for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
        if (*events[i])
            event_free(*events[i]);
        *events[i] = NULL;
    }
}

static void job_free(struct ingest_job *job)
{
    job_free_events(job);
    ingest_child_done(&job->child);
    free(job->fate);
    free(job);
}

static void job_leave_queue(struct ingest_job *job)
{
    if (job->queued)
        ingest_queue_remove(&job->ingest->queue, &job->entry);
    job->queued = false;
}

static void job_count(struct ingest_metrics *m, const struct ingest_job *job,
                      const struct ingest_result *result)
{
    if (result->used_up || job->fate)
        m->killed++;
    else if (result->err < 0 || result->state == TRACE_UNREADABLE)
        m->failed++;
    else
        m->read++;
    m->bytes += (uint64_t)job->source_size;
    histogram_add(&m->durations, mono_ns() - job->begun_ns);
}

/* end is NULL where there was no child. */
static void job_finish(struct ingest_job *job, const siginfo_t *end)
{
    struct ingest *ingest = job->ingest;
    struct ingest_result result = {.err = job->err,
                                   .state = TRACE_UNREADABLE,
                                   .facts = json_object(),
                                   .source_fd = job->child.fds[INGEST_FD_SOURCE],
                                   .dest_fd = job->child.fds[INGEST_FD_DEST]};

    result.reason = job->fate ? xstrdup(job->fate) : end ? ingest_child_failure(end) : NULL;
    result.used_up = result.err == 0 && end && ingest_child_hit_limit(end);
    if (!result.reason && result.err == 0)
        result.reason = job_read_answer(job, &result);
    if (job->entry.running)
        job_count(&ingest->metrics, job, &result);
    job_leave_queue(job);
    TAILQ_REMOVE(&ingest->jobs, job, next);
    job->done(&result, job->arg);
    json_decref(result.facts);
    free(result.reason);
    job_free(job);
}

/* True when nothing more comes. */
static bool job_take_answer(struct ingest_job *job)
{
    bool is_complete = ingest_child_take_answer(&job->child);

    if (job->child.answer_size == INGEST_RESULT_MAX)
        job_give_up(job, 0, xasprintf("profd-ingest answered %d bytes or more", INGEST_RESULT_MAX));
    return is_complete;
}

static void job_on_answer(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct ingest_job *job = arg;
    if (job_take_answer(job))
        event_del(job->answer_event);
}

/* Discards the results of a slice. 0, or why there cannot be another one. */
static int job_clear_slice(struct ingest_job *job)
{
    int dest_fd = job->child.fds[INGEST_FD_DEST];

    job_free_events(job);
    ingest_child_clear(&job->child);
    if (job->drop_columns)
        job->drop_columns(job->arg);
    return dest_fd >= 0 && ftruncate(dest_fd, 0) < 0 ? -errno : 0;
}

static void job_end_without_child(struct ingest_job *job);

static void job_put_back(struct ingest_job *job)
{
    struct ingest *ingest = job->ingest;

    ingest->metrics.put_back++;
    ingest_queue_put_back(&ingest->queue, &job->entry, mono_ns());
    int r = job_clear_slice(job);
    if (r < 0) {
        job_give_up(job, r, xasprintf("cannot begin its copy anew: %s", strerror(-r)));
        job_end_without_child(job);
    }
}

/* A child that was about to end by itself when it was killed has ended. */
static void job_reap(struct ingest_job *job)
{
    siginfo_t end = ingest_child_reap(&job->child);

    if (!job->fate)
        job_take_answer(job);
    if (job->entry.yielding && !job->fate && end.si_code != CLD_EXITED && end.si_status == SIGKILL)
        job_put_back(job);
    else
        job_finish(job, &end);
}

static void job_on_exit(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct ingest_job *job = arg;
    struct ingest *ingest = job->ingest;

    job_reap(job);
    ingest_schedule(ingest);
}

static void job_on_deadline(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct ingest_job *job = arg;
    job_give_up(job, 0, xstrdup("profd-ingest did not end in the time that a file of this size may take"));
}

/* A job that has no child ends here, on the loop. */
static void job_on_end(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct ingest_job *job = arg;
    struct ingest *ingest = job->ingest;

    job_finish(job, NULL);
    ingest_schedule(ingest);
}

static void job_end_without_child(struct ingest_job *job)
{
    job_leave_queue(job);
    if (!job->time_event)
        job->time_event = evtimer_new(job->ingest->base, job_on_end, job);
    event_add(job->time_event, &(struct timeval){0, 0});
}

static int job_start_child(struct ingest_job *job)
{
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
    return ingest_child_start(&job->child, job->ingest->program);
}

static void reserve_fill(struct ingest *ingest)
{
    for (size_t i = 0; i < RESERVE_FDS; i++)
        ingest->reserve[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void reserve_release(struct ingest *ingest)
{
    for (size_t i = 0; i < RESERVE_FDS; i++)
        close_fd(&ingest->reserve[i]);
}

static void job_watch_child(struct ingest_job *job)
{
    struct ingest *ingest = job->ingest;
    int64_t more_ns = job->source_size / INGEST_BYTES_PER_S * NS_PER_S;
    struct timeval deadline = timeval_of(ingest->deadline_ns + more_ns);

    job->answer_event =
        event_new(ingest->base, job->child.answer_fd, EV_READ | EV_PERSIST, job_on_answer, job);
    job->exit_event = event_new(ingest->base, job->child.pid_fd, EV_READ, job_on_exit, job);
    job->time_event = evtimer_new(ingest->base, job_on_deadline, job);
    event_add(job->answer_event, NULL);
    event_add(job->exit_event, NULL);
    event_add(job->time_event, &deadline);
}

static void job_start(struct ingest_job *job, int64_t now_ns)
{
    struct ingest *ingest = job->ingest;

    reserve_release(ingest);
    int r = job_start_child(job);
    if (r == 0)
        job_watch_child(job);
    reserve_fill(ingest);
    if (r < 0) {
        ingest->metrics.failed++;
        job_give_up(job, r, xasprintf("cannot start %s: %s", ingest->program, strerror(-r)));
        job_end_without_child(job);
        return;
    }
    job->begun_ns = job->begun_ns ? job->begun_ns : now_ns;
    ingest_queue_begin(&ingest->queue, &job->entry, now_ns);
}

static struct ingest_job *job_of(struct queue_file *entry)
{
    return container_of(entry, struct ingest_job, entry);
}

/* Starts and ends children as the queue decides. */
static void ingest_schedule(struct ingest *ingest)
{
    struct queue_file *entry;
    int64_t now = mono_ns();

    while ((entry = ingest_queue_next(&ingest->queue, now)))
        job_start(job_of(entry), now);
    if ((entry = ingest_queue_yield(&ingest->queue, now)))
        ingest_child_kill(&job_of(entry)->child);
    int64_t due = ingest_queue_due(&ingest->queue, now);
    struct timeval left = timeval_until(due);
    if (due == INT64_MAX)
        event_del(ingest->due);
    else
        event_add(ingest->due, &left);
}

static void ingest_on_due(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    ingest_schedule(arg);
}

int ingest_new(struct event_base *base, const char *program_path, unsigned children_max, struct ingest **ret)
{
    if (children_max == 0)
        return -EINVAL;
    struct ingest *ingest = xcalloc(1, sizeof(*ingest));
    *ingest = (struct ingest){
        .base = base,
        .program = xstrdup(program_path),
        .deadline_ns = INGEST_DEADLINE,
        .group_fd = -1,
        .jobs = TAILQ_HEAD_INITIALIZER(ingest->jobs),
    };
    ingest_queue_init(&ingest->queue, children_max);
    ingest->due = evtimer_new(base, ingest_on_due, ingest);
    reserve_fill(ingest);
    *ret = ingest;
    return 0;
}

struct ingest *ingest_free(struct ingest *ingest)
{
    struct ingest_job *job;

    if (!ingest)
        return NULL;
    TAILQ_FOREACH(job, &ingest->jobs, next)
        job_give_up(job, -ECANCELED, xstrdup("cancelled"));
    while ((job = TAILQ_FIRST(&ingest->jobs)))
        if (job->entry.running)
            job_reap(job);
        else
            job_finish(job, NULL);
    event_free(ingest->due);
    reserve_release(ingest);
    close_fd(&ingest->group_fd);
    free(ingest->program);
    free(ingest);
    return NULL;
}

void ingest_set_children_max(struct ingest *ingest, unsigned children_max)
{
    ingest->queue.slots = children_max;
    ingest_schedule(ingest);
}

void ingest_set_group(struct ingest *ingest, int take_procs_fd)
{
    close_fd(&ingest->group_fd);
    ingest->group_fd = take_procs_fd;
}

unsigned ingest_children_max(const struct ingest *ingest)
{
    return ingest_queue_running_max(ingest->queue.slots);
}

void ingest_metrics(const struct ingest *ingest, struct ingest_metrics *ret)
{
    *ret = ingest->metrics;
    ret->running = ingest->queue.n_running;
    ret->waiting = ingest->queue.n_waiting;
}

int ingest_check(const struct ingest *ingest)
{
    return access(ingest->program, X_OK) < 0 ? -errno : 0;
}

bool ingest_is_full(const struct ingest *ingest)
{
    return ingest->queue.n_waiting >= INGEST_WAITING_MAX;
}

bool ingest_has_room(const struct ingest *ingest, const char *user, const char *source)
{
    return ingest_queue_has_room(&ingest->queue, user, source, INGEST_WAITING_MAX);
}

void ingest_set_deadline(struct ingest *ingest, int64_t duration_ns)
{
    ingest->deadline_ns = duration_ns;
}

void ingest_set_slice(struct ingest *ingest, int64_t duration_ns)
{
    ingest->queue.slice_ns = duration_ns;
}

struct ingest_job *ingest_run(struct ingest *ingest, const struct ingest_request *request,
                              void (*done)(const struct ingest_result *result, void *arg), void *arg)
{
    struct ingest_job *job = xcalloc(1, sizeof(*job));
    bool full = ingest_is_full(ingest);

    *job = (struct ingest_job){.ingest = ingest,
                               .source_size = request->source_size,
                               .open_columns = request->open_columns,
                               .drop_columns = request->drop_columns,
                               .entry = {.background = request->background},
                               .done = done,
                               .arg = arg};
    ingest_child_init(&job->child);
    job->child.size_max = request->size_max;
    job->child.memory_max = request->memory_max;
    job->child.cpu_s = CPU_S + request->source_size / BYTES_PER_CPU_S;
    job->child.background = request->background;
    job->child.fds[INGEST_FD_SOURCE] = request->source_fd;
    job->child.fds[INGEST_FD_DEST] = request->dest_fd;
    TAILQ_INSERT_TAIL(&ingest->jobs, job, next);
    if (full) {
        job_give_up(job, -EAGAIN, xasprintf("more than %d files wait to be read", INGEST_WAITING_MAX));
        job_end_without_child(job);
        return job;
    }
    job->queued = true;
    ingest_queue_add(&ingest->queue, &job->entry, request->user, request->source, request->source_size);
    ingest_schedule(ingest);
    return job;
}

void ingest_cancel(struct ingest_job *job)
{
    job_give_up(job, -ECANCELED, xstrdup("cancelled"));
    if (!job->entry.running)
        job_end_without_child(job);
}
