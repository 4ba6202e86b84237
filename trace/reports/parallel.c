/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

struct loop {
    int (*body)(void *arg, size_t i);
    void *arg;
    size_t n;
    _Atomic size_t next;
    _Atomic int error;
};

static void *parallel_run(void *arg)
{
    struct loop *loop = arg;
    size_t i;

    while (atomic_load(&loop->error) == 0 && (i = atomic_fetch_add(&loop->next, 1)) < loop->n) {
        int r = loop->body(loop->arg, i), none = 0;
        if (r < 0)
            atomic_compare_exchange_strong(&loop->error, &none, r);
    }
    return NULL;
}

static size_t parallel_processors(void)
{
    cpu_set_t cpus;

    return sched_getaffinity(0, sizeof(cpus), &cpus) < 0 ? 1 : (size_t)CPU_COUNT(&cpus);
}

int parallel_each(size_t n, int (*body)(void *arg, size_t i), void *arg)
{
    struct loop loop = {.body = body, .arg = arg, .n = n};
    pthread_t threads[PARALLEL_THREADS_MAX - 1];
    size_t wanted = MIN(MIN(n, parallel_processors()), (size_t)PARALLEL_THREADS_MAX), started = 0;

    while (started + 1 < wanted && pthread_create(&threads[started], NULL, parallel_run, &loop) == 0)
        started++;
    parallel_run(&loop);
    while (started > 0)
        pthread_join(threads[--started], NULL);
    return atomic_load(&loop.error);
}
