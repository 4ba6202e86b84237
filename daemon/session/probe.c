/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the metrics of several workers at once: the numbers of running requests and of executed steps. For a
 * worker that does not answer in time, or has no such metric, the number is unknown.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/names.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/fleet/url.h"
#include "daemon/session/internal.h"

#define METRICS_MAX (4 << 20)

struct probe_call {
    struct probe *probe;
    const struct worker *worker;
    const struct engine_ops *ops;
    struct call *call;
};

struct probe {
    struct probe_call *calls;
    struct probe_answer *answers;
    size_t n, n_left;
    void (*done)(const struct probe_answer *answers, void *arg);
    void *arg;
};

static void probe_free(struct probe *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->calls[i].call)
            call_cancel(p->calls[i].call);
    free(p->calls);
    free(p->answers);
    free(p);
}

static void on_metrics(const struct call_result *r, void *arg)
{
    struct probe_call *c = arg;
    struct probe *p = c->probe;
    struct probe_answer *a = &p->answers[c - p->calls];

    c->call = NULL;
    if (r->err == 0 && r->status == 200 && !r->cut) {
        const struct {
            const char *name;
            double *value;
        } wanted[] = {{c->ops->running_metric, &a->running},
                      {c->ops->waiting_metric, &a->waiting},
                      {c->ops->steps_metric, &a->steps}};
        for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
            if (wanted[i].name && !metrics_sum(r->body, r->body_size, wanted[i].name, wanted[i].value))
                *wanted[i].value = -1;
        if (c->ops->steps_since_launch)
            a->since_launch = c->ops->steps_since_launch(r->body, r->body_size, c->worker);
    }
    if (--p->n_left > 0)
        return;
    p->done(p->answers, p->arg);
    probe_free(p);
}

struct probe *probe_start(struct sessions *all, const char *fleet_name, const struct worker *const *workers,
                          size_t n, int64_t timeout_ns,
                          void (*done)(const struct probe_answer *answers, void *arg), void *arg)
{
    struct probe *p = xcalloc(1, sizeof(*p));

    const uint64_t account = n > 0 ? names_origin(fleet_name ? fleet_name : workers[0]->url) : 0;
    *p = (struct probe){.calls = xcalloc(n, sizeof(*p->calls)),
                        .answers = xcalloc(n, sizeof(*p->answers)),
                        .n = n,
                        .n_left = n,
                        .done = done,
                        .arg = arg};
    for (size_t i = 0; i < n; i++) {
        const struct engine_ops *ops = worker_ops(workers[i]);
        _cleanup_(freep) char *url =
            url_join(workers[i]->url, ops->metrics_path ? ops->metrics_path : "/metrics");
        struct call_request request = {
            .method = "GET",
            .url = url,
            .credentials = settings_credentials(all->fleet_settings, fleet_name, workers[i]->url),
            .connect_timeout_ns = all->settings->connect_timeout_ns,
            .deadline_ns = mono_ns() + timeout_ns,
            .answer_max = METRICS_MAX,
            .account = account,
        };
        p->answers[i] = (struct probe_answer){-1, -1, -1, -1};
        if (worker_is_on_demand(workers[i]) || worker_is_watched(workers[i])) {
            p->n_left--;
            continue;
        }
        p->calls[i] = (struct probe_call){.probe = p, .worker = workers[i], .ops = ops};
        p->calls[i].call = call_start(all->caller, &request, on_metrics, &p->calls[i]);
    }
    return p;
}

void session_probe(struct session *s, int64_t timeout_ns,
                   void (*done)(const struct probe_answer *answers, void *arg))
{
    _cleanup_(freep) const struct worker **workers = xcalloc(s->n_targets, sizeof(*workers));

    for (size_t i = 0; i < s->n_targets; i++)
        workers[i] = &s->targets[i].worker;
    s->probe = probe_start(s->all, s->record.fleet, workers, s->n_targets, timeout_ns, done, s);
}

void probe_cancel(struct probe *p)
{
    if (p)
        probe_free(p);
}
