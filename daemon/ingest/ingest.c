/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/ingest.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/ingest/protocol.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* A slow disk under a busy host, and a child that shares its processor with the engine. */
#define INGEST_DEADLINE        (120 * NS_PER_S)
#define INGEST_BYTES_PER_S     (INT64_C(1) << 20)
#define INGEST_CPU_S           30
#define INGEST_BYTES_PER_CPU_S (INT64_C(2) << 20)
/* Descriptors are moved out of the way of those that the child gets. */
#define FD_ASIDE 10

struct ingest_job {
    TAILQ_ENTRY(ingest_job) next;
    struct ingest *ingest;
    int source_fd, dest_fd;
    int64_t size_max;
    void (*done)(const struct ingest_result *result, void *arg);
    void *arg;

    bool running;
    pid_t pid;
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
    struct job_list waiting, running;
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
    close_fd(&job->source_fd);
    close_fd(&job->dest_fd);
    close_fd(&job->answer_fd);
    close_fd(&job->pid_fd);
    free(job->answer);
    free(job->fate);
    free(job);
}

/* end is NULL where there was no child. */
static void finish(struct ingest_job *job, const siginfo_t *end)
{
    struct ingest *ingest = job->ingest;
    struct ingest_result result = {.err = job->err, .state = TRACE_UNREADABLE, .facts = json_object()};

    result.reason = job->fate ? xstrdup(job->fate) : end ? describe_end(end) : NULL;
    if (!result.reason && result.err == 0)
        result.reason = read_answer(job, &result);
    if (job->running) {
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

static int64_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_size : 0;
}

static int move_aside(int *fd)
{
    if (*fd < 0 || *fd >= FD_ASIDE)
        return 0;
    int aside = fcntl(*fd, F_DUPFD_CLOEXEC, FD_ASIDE);
    if (aside < 0)
        return -errno;
    close(*fd);
    *fd = aside;
    return 0;
}

static void add_descriptors(posix_spawn_file_actions_t *actions, const struct ingest_job *job, int result_fd)
{
    posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(actions, result_fd, INGEST_FD_RESULT);
    posix_spawn_file_actions_adddup2(actions, job->source_fd, INGEST_FD_SOURCE);
    if (job->dest_fd >= 0)
        posix_spawn_file_actions_adddup2(actions, job->dest_fd, INGEST_FD_DEST);
    posix_spawn_file_actions_addclosefrom_np(actions,
                                             job->dest_fd >= 0 ? INGEST_FD_DEST + 1 : INGEST_FD_DEST);
}

static int spawn(struct ingest_job *job, int result_fd)
{
    char size_max[24], cpu_s[24];
    char *argv[] = {"profd-ingest", size_max, cpu_s, NULL};
    char *environment[] = {"LC_ALL=C", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;

    snprintf(size_max, sizeof(size_max), "%" PRId64, job->size_max);
    snprintf(cpu_s, sizeof(cpu_s), "%" PRId64,
             INGEST_CPU_S + size_of(job->source_fd) / INGEST_BYTES_PER_CPU_S);
    posix_spawn_file_actions_init(&actions);
    add_descriptors(&actions, job, result_fd);
    posix_spawnattr_init(&attributes);
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    int r = posix_spawn(&job->pid, job->ingest->program, &actions, &attributes, argv, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

static int start_child(struct ingest_job *job)
{
    _cleanup_(closep) int result_fd = -1;
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    job->answer_fd = fds[0];
    result_fd = fds[1];
    if (fcntl(job->answer_fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    int r = move_aside(&result_fd);
    if (r >= 0)
        r = move_aside(&job->source_fd);
    if (r >= 0)
        r = move_aside(&job->dest_fd);
    if (r >= 0)
        r = spawn(job, result_fd);
    if (r < 0)
        return r;
    job->pid_fd = pidfd_open(job->pid, 0);
    if (job->pid_fd >= 0)
        return 0;
    r = -errno;
    kill(job->pid, SIGKILL);
    waitpid(job->pid, NULL, 0);
    return r;
}

static void watch_child(struct ingest_job *job)
{
    struct ingest *ingest = job->ingest;
    int64_t more_ns = size_of(job->source_fd) / INGEST_BYTES_PER_S * NS_PER_S;
    struct timeval deadline = timeval_of(ingest->deadline_ns + more_ns);

    job->answer = xcalloc(INGEST_RESULT_MAX, 1);
    job->on_answer = event_new(ingest->base, job->answer_fd, EV_READ | EV_PERSIST, on_answer, job);
    job->on_exit = event_new(ingest->base, job->pid_fd, EV_READ, on_exit_of_child, job);
    job->on_time = evtimer_new(ingest->base, on_time, job);
    event_add(job->on_answer, NULL);
    event_add(job->on_exit, NULL);
    event_add(job->on_time, &deadline);
}

static void start(struct ingest_job *job)
{
    struct ingest *ingest = job->ingest;

    int r = start_child(job);
    if (r < 0) {
        give_up(job, r, xasprintf("cannot start %s: %s", ingest->program, strerror(-r)));
        end_without_child(job);
        return;
    }
    TAILQ_REMOVE(&ingest->waiting, job, next);
    ingest->n_waiting--;
    TAILQ_INSERT_TAIL(&ingest->running, job, next);
    ingest->n_running++;
    job->running = true;
    close_fd(&job->dest_fd);
    watch_child(job);
}

static struct ingest_job *next_to_start(struct ingest *ingest)
{
    struct ingest_job *job;

    TAILQ_FOREACH(job, &ingest->waiting, next)
    if (!job->err)
        return job;
    return NULL;
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
        .waiting = TAILQ_HEAD_INITIALIZER(ingest->waiting),
        .running = TAILQ_HEAD_INITIALIZER(ingest->running),
    };
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
    free(ingest->program);
    free(ingest);
    return NULL;
}

bool ingest_is_full(const struct ingest *ingest)
{
    return ingest->n_waiting >= INGEST_WAITING_MAX;
}

void ingest_set_deadline(struct ingest *ingest, int64_t duration_ns)
{
    ingest->deadline_ns = duration_ns;
}

struct ingest_job *ingest_run(struct ingest *ingest, int source_fd, int dest_fd, int64_t size_max,
                              void (*done)(const struct ingest_result *result, void *arg), void *arg)
{
    struct ingest_job *job = xcalloc(1, sizeof(*job));
    bool full = ingest_is_full(ingest);

    *job = (struct ingest_job){.ingest = ingest,
                               .source_fd = source_fd,
                               .dest_fd = dest_fd,
                               .size_max = size_max,
                               .done = done,
                               .arg = arg,
                               .pid_fd = -1,
                               .answer_fd = -1};
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
