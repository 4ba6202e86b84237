/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/worker.h"

#include "base/alloc.h"

/* More ranks than any worker has: keeps nonsense sizes from overflowing. */
#define RANKS_MAX 65536

static void setup_init(struct profiler_setup *s)
{
    *s = (struct profiler_setup){
        .with_stack = -1,
        .record_shapes = -1,
        .use_gzip = -1,
        .ignore_frontend = -1,
        .each_request = -1,
        .delay_iterations = -1,
        .max_iterations = -1,
        .wait_iterations = -1,
        .warmup_iterations = -1,
        .active_iterations = -1,
    };
}

void worker_init(struct worker *w)
{
    *w = (struct worker){.load = -1, .sleeping = -1};
    setup_init(&w->setup);
}

void worker_done(struct worker *w)
{
    free(w->url);
    free(w->listed_url);
    free(w->model);
    free(w->connection);
    free(w->version);
    free(w->reason);
    free(w->remedy);
    free(w->note);
    free(w->setup.kind);
    free(w->place.dir);
    free(w->place.local_dir);
    free(w->place.found_by);
    free(w->place.note);
    free(w->place.remedy);
    free(w->place.temp_dir);
    worker_init(w);
}

void worker_add_note(struct worker *w, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *text = xvasprintf(format, ap);
    va_end(ap);
    if (w->note && strstr(w->note, text)) {
        free(text);
        return;
    }
    if (w->note) {
        char *both = xasprintf("%s; %s", w->note, text);
        free(text);
        text = both;
    }
    free(w->note);
    w->note = text;
}

struct worker *fleet_add_worker(struct fleet *f)
{
    VEC_GROW(f->workers, f->n_workers, f->cap_workers);
    struct worker *w = &f->workers[f->n_workers++];
    worker_init(w);
    return w;
}

void fleet_add_note(struct fleet *f, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    VEC_GROW(f->notes, f->n_notes, f->cap_notes);
    f->notes[f->n_notes++] = xvasprintf(format, ap);
    va_end(ap);
}

struct fleet *fleet_free(struct fleet *f)
{
    if (!f)
        return NULL;
    for (size_t i = 0; i < f->n_workers; i++)
        worker_done(&f->workers[i]);
    for (size_t i = 0; i < f->n_notes; i++)
        free(f->notes[i]);
    free(f->workers);
    free(f->notes);
    free(f->name);
    free(f->router);
    free(f->dialect);
    free(f);
    return NULL;
}

enum engine worker_profiler(const struct worker *w)
{
    return w->engine == ENGINE_DYNAMO ? w->backend : w->engine;
}

unsigned worker_ranks_expected(const struct worker *w)
{
    const int sizes[] = {w->sizes.tp, w->sizes.pp, w->sizes.dp};
    uint64_t product = 1;

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        product = MIN(product * (uint64_t)MAX(sizes[i], 1), (uint64_t)RANKS_MAX);
    return (unsigned)product;
}
