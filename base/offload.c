/* SPDX-License-Identifier: Apache-2.0 */
#include "base/offload.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/queue.h>

/* A job that runs longer than any disk under load may never end: its thread counts as held. */
#define HELD_NS NS_PER_S
/* Longest time for done() functions in one iteration of the loop: a thousand jobs may end at once. */
#define TURN_NS (5 * NS_PER_MS)

struct offload_job {
    STAILQ_ENTRY(offload_job) next;
    uint64_t queue;
    void (*work)(void *arg);
    void (*done)(void *arg);
    void *arg;
};
STAILQ_HEAD(job_list, offload_job);

struct offload_thread {
    struct offload *offload;
    pthread_t id;
    bool begun, ended;             /* ended: to be joined, then the entry is free */
    const struct offload_job *job; /* NULL: idle */
    int64_t since_ns;
};

struct offload {
    pthread_mutex_t lock;
    pthread_cond_t wake, ended;
    struct job_list waiting, finished;
    bool closing;
    unsigned n_threads, n_running; /* n_threads: wanted, not counting held threads */
    struct offload_thread threads[OFFLOAD_THREADS_MAX];
    int finished_fd;
    struct event *finished_event, *relief;
};

/* -- Threads ------------------------------------------------------------------------------------------ */

static bool offload_queue_is_busy(const struct offload *o, uint64_t queue)
{
    for (size_t i = 0; i < OFFLOAD_THREADS_MAX && queue != OFFLOAD_NO_QUEUE; i++)
        if (o->threads[i].job && o->threads[i].job->queue == queue)
            return true;
    return false;
}

static struct offload_job *offload_next_job(struct offload *o)
{
    struct offload_job *job;

    STAILQ_FOREACH(job, &o->waiting, next)
        if (!offload_queue_is_busy(o, job->queue))
            return job;
    return NULL;
}

/* Number of threads that take jobs now or after a short job. */
static unsigned offload_count_free(const struct offload *o)
{
    int64_t now = mono_ns();
    unsigned n = 0;

    for (size_t i = 0; i < OFFLOAD_THREADS_MAX; i++) {
        const struct offload_thread *t = &o->threads[i];
        n += t->begun && !t->ended && (!t->job || now - t->since_ns < HELD_NS);
    }
    return n;
}

static void offload_run_job(struct offload_thread *t, struct offload_job *job)
{
    struct offload *o = t->offload;

    STAILQ_REMOVE(&o->waiting, job, offload_job, next);
    o->n_running++;
    t->job = job;
    t->since_ns = mono_ns();
    pthread_mutex_unlock(&o->lock);
    job->work(job->arg);
    pthread_mutex_lock(&o->lock);
    t->job = NULL;
    o->n_running--;
    /* With jobs before this one, the loop is awake already: it takes all, or wakes itself for the rest. */
    if (STAILQ_EMPTY(&o->finished))
        eventfd_write(o->finished_fd, 1);
    STAILQ_INSERT_TAIL(&o->finished, job, next);
    pthread_cond_signal(&o->ended);
    /* The queue is free now: another thread may have skipped a job of it. */
    pthread_cond_signal(&o->wake);
}

static void *offload_thread_main(void *arg)
{
    struct offload_thread *t = arg;
    struct offload *o = t->offload;

    pthread_mutex_lock(&o->lock);
    /* A thread that was held and has been replaced ends. */
    while (offload_count_free(o) <= o->n_threads) {
        struct offload_job *job = offload_next_job(o);
        if (job)
            offload_run_job(t, job);
        else if (o->closing && STAILQ_EMPTY(&o->waiting))
            break;
        else
            pthread_cond_wait(&o->wake, &o->lock);
    }
    t->ended = true;
    pthread_cond_signal(&o->wake);
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

static int offload_begin_thread(struct offload *o)
{
    for (size_t i = 0; i < OFFLOAD_THREADS_MAX; i++) {
        struct offload_thread *t = &o->threads[i];
        if (t->begun && t->ended)
            pthread_join(t->id, NULL);
        else if (t->begun)
            continue;
        *t = (struct offload_thread){.offload = o, .begun = true};
        int r = pthread_create(&t->id, NULL, offload_thread_main, t);
        t->begun = r == 0;
        return -r;
    }
    return -EAGAIN;
}

/* Replaces threads that are held. At the limit of threads, waiting jobs keep waiting. */
static void offload_replace_held(struct offload *o)
{
    const struct timeval interval = timeval_of(HELD_NS);

    pthread_mutex_lock(&o->lock);
    while (offload_next_job(o) && offload_count_free(o) < o->n_threads && offload_begin_thread(o) == 0)
        ;
    if (!STAILQ_EMPTY(&o->waiting))
        event_add(o->relief, &interval);
    pthread_mutex_unlock(&o->lock);
}

static void offload_on_relief(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    offload_replace_held(arg);
}

/* -- Finished jobs ------------------------------------------------------------------------------------ */

static struct offload_job *offload_take_finished(struct offload *o)
{
    pthread_mutex_lock(&o->lock);
    struct offload_job *job = STAILQ_FIRST(&o->finished);
    if (job)
        STAILQ_REMOVE_HEAD(&o->finished, next);
    pthread_mutex_unlock(&o->lock);
    return job;
}

/* True if finished jobs are left. */
static bool offload_run_finished(struct offload *o, int64_t until_ns)
{
    struct offload_job *job;

    while ((job = offload_take_finished(o))) {
        job->done(job->arg);
        free(job);
        if (mono_ns() >= until_ns)
            return true;
    }
    return false;
}

static void offload_on_finished(evutil_socket_t fd, short what _unused_, void *arg)
{
    struct offload *o = arg;
    eventfd_t count;

    eventfd_read(fd, &count);
    if (offload_run_finished(o, mono_ns() + TURN_NS))
        eventfd_write(fd, 1);
}

static bool offload_is_idle(const struct offload *o)
{
    return STAILQ_EMPTY(&o->waiting) && o->n_running == 0;
}

/* The timer that replaces held threads does not run during a drain, so the drain replaces them. It wakes four times
 * in HELD_NS, so that a thread that becomes held is replaced well before the deadline. */
static void offload_wait(struct offload *o, int64_t deadline_ns)
{
    int64_t until = MIN(deadline_ns, mono_ns() + HELD_NS / 4);
    struct timespec ts = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};

    pthread_cond_timedwait(&o->ended, &o->lock, &ts);
}

int offload_drain(struct offload *o, int64_t deadline_ns)
{
    for (;;) {
        offload_replace_held(o);
        pthread_mutex_lock(&o->lock);
        if (!offload_is_idle(o) && STAILQ_EMPTY(&o->finished) && mono_ns() < deadline_ns)
            offload_wait(o, deadline_ns);
        bool nothing_finished = STAILQ_EMPTY(&o->finished), idle = offload_is_idle(o);
        pthread_mutex_unlock(&o->lock);
        if (nothing_finished && idle)
            return 0;
        if (nothing_finished && mono_ns() >= deadline_ns)
            return -ETIMEDOUT;
        offload_run_finished(o, INT64_MAX);
    }
}

/* -- The object --------------------------------------------------------------------------------------- */

int offload_new(struct event_base *base, unsigned n_threads, struct offload **ret)
{
    pthread_condattr_t monotonic;
    int r = 0, fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    struct offload *o = xcalloc(1, sizeof(*o));
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->wake, NULL);
    /* Deadlines use the monotonic clock. */
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&o->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    STAILQ_INIT(&o->waiting);
    STAILQ_INIT(&o->finished);
    o->n_threads = MIN(n_threads, (unsigned)OFFLOAD_THREADS_MAX);
    o->relief = event_new(base, -1, 0, offload_on_relief, o);
    o->finished_fd = fd;
    o->finished_event = event_new(base, fd, EV_READ | EV_PERSIST, offload_on_finished, o);
    event_add(o->finished_event, NULL);
    pthread_mutex_lock(&o->lock);
    for (unsigned i = 0; i < o->n_threads && r == 0; i++)
        r = offload_begin_thread(o);
    pthread_mutex_unlock(&o->lock);
    if (r < 0) {
        offload_free(o);
        return r;
    }
    *ret = o;
    return 0;
}

struct offload *offload_free(struct offload *o)
{
    if (!o)
        return NULL;
    pthread_mutex_lock(&o->lock);
    o->closing = true;
    pthread_cond_broadcast(&o->wake);
    pthread_mutex_unlock(&o->lock);
    for (size_t i = 0; i < OFFLOAD_THREADS_MAX; i++)
        if (o->threads[i].begun)
            pthread_join(o->threads[i].id, NULL);
    offload_run_finished(o, INT64_MAX);
    event_free(o->relief);
    event_free(o->finished_event);
    close(o->finished_fd);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->wake);
    pthread_cond_destroy(&o->ended);
    free(o);
    return NULL;
}

void offload_run_in(struct offload *o, uint64_t queue, void (*work)(void *arg), void (*done)(void *arg),
                    void *arg)
{
    const struct timeval interval = timeval_of(HELD_NS);
    struct offload_job *job = xcalloc(1, sizeof(*job));

    *job = (struct offload_job){.queue = queue, .work = work, .done = done, .arg = arg};
    pthread_mutex_lock(&o->lock);
    STAILQ_INSERT_TAIL(&o->waiting, job, next);
    pthread_cond_signal(&o->wake);
    pthread_mutex_unlock(&o->lock);
    if (!evtimer_pending(o->relief, NULL))
        event_add(o->relief, &interval);
}

void offload_run(struct offload *o, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
    offload_run_in(o, OFFLOAD_NO_QUEUE, work, done, arg);
}

/* -- Queues -------------------------------------------------------------------------------------------- */

#define QUEUE_OF_PATH (UINT64_C(1) << 63)

uint64_t offload_queue_of_device(uint64_t device)
{
    return (device & ~QUEUE_OF_PATH) + 1;
}

static uint64_t offload_queue_of_path(const char *path, size_t n)
{
    return hash_bytes(path, n) | QUEUE_OF_PATH;
}

uint64_t offload_queue_of_dir(const char *path)
{
    return offload_queue_of_path(path, strlen(path));
}

uint64_t offload_queue_of_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    return offload_queue_of_path(path, slash ? (size_t)(slash - path) : 0);
}
