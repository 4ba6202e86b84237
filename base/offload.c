/* SPDX-License-Identifier: Apache-2.0 */
#include "base/offload.h"

#include "base/alloc.h"
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/queue.h>

struct job {
    STAILQ_ENTRY(job) next;
    void (*work)(void *arg);
    void (*done)(void *arg);
    void *arg;
};
STAILQ_HEAD(job_list, job);

struct offload {
    pthread_mutex_t lock;
    pthread_cond_t wake, ended;
    struct job_list waiting, finished;
    bool closing;
    unsigned n_running;
    int finished_fd;
    struct event *finished_event;
    unsigned n_threads;
    pthread_t *threads;
};

static void *thread_main(void *arg)
{
    struct offload *o = arg;

    pthread_mutex_lock(&o->lock);
    for (;;) {
        struct job *job = STAILQ_FIRST(&o->waiting);
        if (!job && o->closing)
            break;
        if (!job) {
            pthread_cond_wait(&o->wake, &o->lock);
            continue;
        }
        STAILQ_REMOVE_HEAD(&o->waiting, next);
        o->n_running++;
        pthread_mutex_unlock(&o->lock);
        job->work(job->arg);
        pthread_mutex_lock(&o->lock);
        o->n_running--;
        STAILQ_INSERT_TAIL(&o->finished, job, next);
        eventfd_write(o->finished_fd, 1);
        pthread_cond_signal(&o->ended);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

static void run_finished(struct offload *o)
{
    struct job_list list = STAILQ_HEAD_INITIALIZER(list);
    struct job *job;

    pthread_mutex_lock(&o->lock);
    STAILQ_CONCAT(&list, &o->finished);
    pthread_mutex_unlock(&o->lock);
    while ((job = STAILQ_FIRST(&list))) {
        STAILQ_REMOVE_HEAD(&list, next);
        job->done(job->arg);
        free(job);
    }
}

void offload_drain(struct offload *o)
{
    bool idle;

    do {
        pthread_mutex_lock(&o->lock);
        while (!STAILQ_EMPTY(&o->waiting) || o->n_running > 0)
            pthread_cond_wait(&o->ended, &o->lock);
        idle = STAILQ_EMPTY(&o->finished);
        pthread_mutex_unlock(&o->lock);
        run_finished(o);
    } while (!idle);
}

static void on_finished(evutil_socket_t fd, short what _unused_, void *arg)
{
    eventfd_t count;
    eventfd_read(fd, &count);
    run_finished(arg);
}

int offload_new(struct event_base *base, unsigned n_threads, struct offload **ret)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    struct offload *o = xcalloc(1, sizeof(*o));
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->wake, NULL);
    pthread_cond_init(&o->ended, NULL);
    STAILQ_INIT(&o->waiting);
    STAILQ_INIT(&o->finished);
    o->finished_fd = fd;
    o->finished_event = event_new(base, fd, EV_READ | EV_PERSIST, on_finished, o);
    event_add(o->finished_event, NULL);
    o->threads = xcalloc(n_threads, sizeof(*o->threads));
    for (; o->n_threads < n_threads; o->n_threads++) {
        int r = pthread_create(&o->threads[o->n_threads], NULL, thread_main, o);
        if (r != 0) {
            offload_free(o);
            return -r;
        }
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
    for (unsigned i = 0; i < o->n_threads; i++)
        pthread_join(o->threads[i], NULL);
    run_finished(o);
    event_free(o->finished_event);
    close(o->finished_fd);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->wake);
    pthread_cond_destroy(&o->ended);
    free(o->threads);
    free(o);
    return NULL;
}

void offload_run(struct offload *o, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
    struct job *job = xcalloc(1, sizeof(*job));
    *job = (struct job){.work = work, .done = done, .arg = arg};
    pthread_mutex_lock(&o->lock);
    STAILQ_INSERT_TAIL(&o->waiting, job, next);
    pthread_cond_signal(&o->wake);
    pthread_mutex_unlock(&o->lock);
}
