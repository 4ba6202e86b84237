/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/reading.h"

#include "base/array.h"
#include <errno.h>
#include <pthread.h>

/* One is filled, one is packed, one waits between them. */
#define PACKER_BATCHES 3

struct packer {
    struct intake *in;
    struct spill *spill;
    struct event_run **runs;
    size_t n_runs, runs_cap;
    int error; /* of packing */

    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct batch *full[PACKER_BATCHES], *empty[PACKER_BATCHES];
    size_t n_full, n_empty, n_batches;
    bool ending;
};

/* After an error, batches are only emptied. */
static int packer_pack(struct packer *p, struct batch *b, int error)
{
    struct event_run *r = NULL;

    if (error == 0 && b->n > 0) {
        error = run_pack(b, p->spill, &r);
        if (error == 0 && !ARRAY_RESERVE(p->runs, p->runs_cap, p->n_runs + 1)) {
            run_free(r);
            error = -ENOMEM;
        }
        if (error == 0)
            p->runs[p->n_runs++] = r;
    }
    batch_reset(b);
    return error;
}

static struct batch *packer_take_full(struct packer *p)
{
    struct batch *b;

    while (p->n_full == 0 && !p->ending)
        pthread_cond_wait(&p->changed, &p->lock);
    if (p->n_full == 0)
        return NULL;
    b = p->full[0];
    p->n_full--;
    memmove(p->full, p->full + 1, p->n_full * sizeof(p->full[0]));
    return b;
}

static void *packer_main(void *arg)
{
    struct packer *p = arg;
    struct batch *b;

    pthread_mutex_lock(&p->lock);
    while ((b = packer_take_full(p))) {
        int error = p->error;
        pthread_mutex_unlock(&p->lock);
        error = packer_pack(p, b, error);
        pthread_mutex_lock(&p->lock);
        p->error = error;
        p->empty[p->n_empty++] = b;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Returns another batch if the limit permits one, else the next empty batch. */
static struct batch *packer_take_empty(struct packer *p)
{
    if (p->n_empty == 0 && p->n_batches < PACKER_BATCHES) {
        struct batch *b = batch_new();
        if (b) {
            p->n_batches++;
            return b;
        }
    }
    while (p->n_empty == 0)
        pthread_cond_wait(&p->changed, &p->lock);
    return p->empty[--p->n_empty];
}

static struct batch *packer_swap_batches(struct packer *p, struct batch *full)
{
    struct batch *empty;

    pthread_mutex_lock(&p->lock);
    p->full[p->n_full++] = full;
    pthread_cond_broadcast(&p->changed);
    empty = packer_take_empty(p);
    if (p->error && !p->in->error)
        p->in->error = p->error;
    pthread_mutex_unlock(&p->lock);
    return empty;
}

static struct batch *packer_take_batch(struct intake *in, struct batch *full, void *arg)
{
    struct packer *p = arg;

    if (p->threaded)
        return packer_swap_batches(p, full);
    p->error = packer_pack(p, full, p->error);
    if (p->error && !in->error)
        in->error = p->error;
    return full;
}

int packer_new(struct intake *in, struct spill *spill, bool threaded, struct packer **ret)
{
    struct packer *p = calloc(1, sizeof(*p));

    if (!p)
        return -ENOMEM;
    p->in = in;
    p->spill = spill;
    p->n_batches = 1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    if (threaded) {
        int r = pthread_create(&p->thread, NULL, packer_main, p);
        if (r != 0) {
            packer_free(p);
            return -r;
        }
    }
    p->threaded = threaded;
    in->flush = packer_take_batch;
    in->flush_arg = p;
    *ret = p;
    return 0;
}

static void packer_stop_thread(struct packer *p)
{
    if (!p->threaded)
        return;
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    p->threaded = false;
}

struct packer *packer_free(struct packer *p)
{
    if (!p)
        return NULL;
    packer_stop_thread(p);
    for (size_t i = 0; i < p->n_empty; i++)
        batch_free(p->empty[i]);
    for (size_t i = 0; i < p->n_runs; i++)
        run_free(p->runs[i]);
    free(p->runs);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return NULL;
}

int packer_finish(struct packer *p)
{
    packer_stop_thread(p);
    p->error = packer_pack(p, p->in->batch, p->error);
    for (; p->n_empty > 0; p->n_empty--)
        batch_free(p->empty[p->n_empty - 1]);
    return p->in->error ? p->in->error : p->error;
}

struct event_run **packer_runs(struct packer *p, size_t *ret_n)
{
    *ret_n = p->n_runs;
    return p->runs;
}
