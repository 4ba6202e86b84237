/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/reading.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

struct source_tap {
    struct trace_reading *r;
    uint64_t size; /* of the source */
    uint8_t *step; /* SOURCE_STEP */
    pthread_t thread;
    bool runs;
    _Atomic bool stop;
    _Atomic int error;
};

static void *tap_main(void *arg)
{
    struct source_tap *t = arg;
    const struct read_options *o = t->r->options;
    ssize_t n = 1;
    int err = 0;

    for (uint64_t at = 0; err == 0 && n > 0 && at < t->size && !atomic_load(&t->stop); at += (uint64_t)n) {
        n = reading_pread(t->r, t->step, (size_t)MIN((uint64_t)SOURCE_STEP, t->size - at), at);
        err = n > 0 ? o->tap(t->step, (size_t)n, o->arg) : reading_end_error(n);
    }
    atomic_store(&t->error, err);
    return NULL;
}

int tap_start(struct trace_reading *r, struct source_tap **ret)
{
    struct source_tap *t = calloc(1, sizeof(*t));
    int err;

    if (!t)
        return -ENOMEM;
    t->r = r;
    t->size = r->sum->source_bytes;
    t->step = malloc(SOURCE_STEP);
    err = t->step ? pthread_create(&t->thread, NULL, tap_main, t) : ENOMEM;
    t->runs = err == 0;
    if (err != 0) {
        tap_free(t);
        return -err;
    }
    *ret = t;
    return 0;
}

int tap_error(const struct source_tap *t)
{
    return t ? atomic_load(&t->error) : 0;
}

int tap_wait(struct source_tap *t)
{
    if (t && t->runs)
        pthread_join(t->thread, NULL);
    if (t)
        t->runs = false;
    return tap_error(t);
}

struct source_tap *tap_free(struct source_tap *t)
{
    if (!t)
        return NULL;
    atomic_store(&t->stop, true);
    tap_wait(t);
    free(t->step);
    free(t);
    return NULL;
}
