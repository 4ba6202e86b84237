/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/warm.h"

#include "base/alloc.h"
#include "base/clock.h"

struct worker {
    struct warm *warm;
    struct target *target;
    int64_t sent, failed, sum_ns;
};

struct warm {
    struct warm_setup setup;
    struct worker *workers;
    size_t busy;
    int64_t succeeded;
    char *error;
};

static void next(struct worker *k);

static void tell(const struct worker *k)
{
    int64_t ok = k->sent - k->failed;
    json_t *line = json_object();

    json_put_str(line, "t", "warmed");
    json_put_str(line, "url", k->target->url);
    json_put_int(line, "sent", k->sent);
    json_put_int(line, "failed", k->failed);
    json_object_set_new(line, "mean_ms",
                        ok > 0 ? json_real((double)k->sum_ns / (double)ok / (double)NS_PER_MS) : json_null());
    if (ok == 0)
        json_put_str(line, "error", k->warm->error);
    emit_line(k->warm->setup.emit, line);
}

static void worker_ends(struct worker *k)
{
    struct warm *w = k->warm;

    if (k->sent > 0)
        tell(k);
    if (--w->busy == 0)
        w->setup.done(w->setup.arg);
}

static void on_done(struct request *r, void *arg)
{
    struct worker *k = arg;
    bool ok = r->record.outcome == OUTCOME_SUCCESS;

    k->failed += !ok;
    k->warm->succeeded += ok;
    k->sum_ns += ok ? r->record.end_ns - r->record.sent_ns : 0;
    if (!ok)
        replace_str(&k->warm->error, r->record.error);
    request_free(r);
    next(k);
}

static void next(struct worker *k)
{
    const struct warm_setup *s = &k->warm->setup;
    const struct workload *w = s->prompts->workload;
    int64_t of_worker = k - k->warm->workers;

    if (k->sent >= w->warmup) {
        worker_ends(k);
        return;
    }
    struct request_order o = {.target = k->target,
                              .prompts = s->prompts,
                              .model = s->model,
                              .index = -1 - (of_worker * w->warmup + k->sent),
                              .intended_ns = mono_ns(),
                              .done = on_done,
                              .arg = k};
    k->sent++;
    int r = request_send(s->wires, &o);
    if (r < 0) {
        k->failed++;
        replace_str(&k->warm->error, strerror(-r));
        worker_ends(k);
    }
}

struct warm *warm_start(const struct warm_setup *setup)
{
    struct warm *w = xcalloc(1, sizeof(*w));

    w->setup = *setup;
    w->workers = xcalloc(setup->n_targets, sizeof(*w->workers));
    w->busy = setup->n_targets;
    for (size_t i = 0; i < setup->n_targets; i++)
        w->workers[i] = (struct worker){.warm = w, .target = &setup->targets[i]};
    for (size_t i = 0; i < setup->n_targets; i++)
        next(&w->workers[i]);
    return w;
}

struct warm *warm_free(struct warm *w)
{
    if (!w)
        return NULL;
    free(w->workers);
    free(w->error);
    free(w);
    return NULL;
}

int64_t warm_succeeded(const struct warm *w)
{
    return w->succeeded;
}

const char *warm_error(const struct warm *w)
{
    return w->error;
}
