/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/conveyor.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

/* The worker is woken for so many at a time: waking costs more than packing a block. */
#define WAKE_BLOCKS 128

struct load {
    unsigned column;
    size_t n;
    int64_t values[BLOCK_ROWS];
};

struct conveyor {
    void (*work)(void *arg, unsigned column, const int64_t *values, size_t n);
    void *arg;
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t to_do, done;
    atomic_size_t put, worked; /* loads so far; put is the caller's, worked the worker's */
    bool ends;
    struct load loads[CONVEYOR_BLOCKS];
};

/* How many there are; no more than were worked off at the end. */
static size_t wait_for_loads(struct conveyor *c, size_t worked)
{
    if (c->put > worked)
        return c->put;
    pthread_mutex_lock(&c->lock);
    while (c->put == worked && !c->ends)
        pthread_cond_wait(&c->to_do, &c->lock);
    pthread_mutex_unlock(&c->lock);
    return c->put;
}

static void wake(struct conveyor *c)
{
    pthread_mutex_lock(&c->lock);
    pthread_cond_signal(&c->to_do);
    pthread_mutex_unlock(&c->lock);
}

/* Waits until no more than so many are under way. */
static void wait_for_worker(struct conveyor *c, size_t under_way)
{
    pthread_mutex_lock(&c->lock);
    pthread_cond_signal(&c->to_do);
    while (c->put - c->worked > under_way)
        pthread_cond_wait(&c->done, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

static void *run(void *arg)
{
    struct conveyor *c = arg;

    for (size_t first = 0, behind; (behind = wait_for_loads(c, first)) > first; first = behind) {
        behind = MIN(behind, first + WAKE_BLOCKS);
        for (size_t i = first; i < behind; i++) {
            const struct load *l = &c->loads[i % CONVEYOR_BLOCKS];
            c->work(c->arg, l->column, l->values, l->n);
        }
        pthread_mutex_lock(&c->lock);
        c->worked = behind;
        pthread_cond_signal(&c->done);
        pthread_mutex_unlock(&c->lock);
    }
    return NULL;
}

int conveyor_new(void (*work)(void *arg, unsigned column, const int64_t *values, size_t n), void *arg,
                 struct conveyor **ret)
{
    struct conveyor *c = malloc(sizeof(*c));

    if (!c)
        return -ENOMEM;
    c->work = work;
    c->arg = arg;
    atomic_init(&c->put, 0);
    atomic_init(&c->worked, 0);
    c->ends = false;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->to_do, NULL);
    pthread_cond_init(&c->done, NULL);
    c->has_thread = pthread_create(&c->thread, NULL, run, c) == 0;
    *ret = c;
    return 0;
}

struct conveyor *conveyor_free(struct conveyor *c)
{
    if (!c)
        return NULL;
    if (c->has_thread) {
        pthread_mutex_lock(&c->lock);
        c->ends = true;
        pthread_cond_signal(&c->to_do);
        pthread_mutex_unlock(&c->lock);
        pthread_join(c->thread, NULL);
    }
    pthread_cond_destroy(&c->done);
    pthread_cond_destroy(&c->to_do);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}

void conveyor_put(struct conveyor *c, unsigned column, const int64_t *values, size_t n)
{
    if (!c->has_thread)
        return c->work(c->arg, column, values, n);

    if (c->put - c->worked == CONVEYOR_BLOCKS)
        wait_for_worker(c, CONVEYOR_BLOCKS - 1);

    /* The worker does not look at it before it is counted. */
    struct load *l = &c->loads[c->put % CONVEYOR_BLOCKS];
    l->column = column;
    l->n = n;
    memcpy(l->values, values, n * sizeof(*values));

    if (++c->put % WAKE_BLOCKS == 0)
        wake(c);
}

void conveyor_drain(struct conveyor *c)
{
    if (c->has_thread)
        wait_for_worker(c, 0);
}
