/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of runs and of the sweep, for the sections. */
#include "base/alloc.h"
#include "client/runs/plan.h"
#include "client/views/run.h"
#include "extras/audit/parts.h"
#include <math.h>

const json_t *audit_run(const json_t *facts)
{
    return json_object_get(facts, "run");
}

char *audit_number_text(const char *format, double value)
{
    return isfinite(value) ? xasprintf(format, value) : NULL;
}

double run_figure(const json_t *run, const char *metric, const char *statistic)
{
    return run_metric_figure(json_object_get(json_object_get(run, "metrics"), metric), statistic);
}

double run_throughput(const json_t *run, const char *name)
{
    return json_get_number(json_object_get(run, "throughput"), name, NAN);
}

int64_t run_requests(const json_t *run, const char *outcome)
{
    return json_get_int(json_object_get(run, "requests"), outcome, 0);
}

int64_t run_requests_all(const json_t *run)
{
    return run_requests(run, "success") + run_requests(run, "incomplete") + run_requests(run, "error");
}

int64_t run_places(const json_t *run)
{
    const json_t *workload = json_object_get(run, "workload");
    return json_get_int(workload, "concurrency", json_is_number(json_object_get(workload, "rate")) ? 0 : 1);
}

void curve_read(const json_t *facts, struct curve *ret)
{
    const json_t *list = json_object_get(facts, "sweep");
    size_t n = json_array_size(list);
    struct curve c = {.concurrency = xcalloc(n + 1, sizeof(double)),
                      .tokens_per_s = xcalloc(n + 1, sizeof(double)),
                      .e2e_p50_ms = xcalloc(n + 1, sizeof(double)),
                      .runs = xcalloc(n + 1, sizeof(json_t *))};

    for (size_t i = 0; i < n; i++) {
        const json_t *point = json_array_get(list, i), *run = json_object_get(point, "run");
        double concurrency = json_get_number(point, "concurrency", NAN),
               tokens = run_throughput(run, "output_tokens_per_s");
        if (!isfinite(concurrency) || !isfinite(tokens))
            continue;
        c.concurrency[c.n] = concurrency;
        c.tokens_per_s[c.n] = tokens;
        c.e2e_p50_ms[c.n] = run_figure(run, "e2e_ms", "p50");
        c.runs[c.n++] = run;
    }
    *ret = c;
}

void curve_done(struct curve *c)
{
    free(c->concurrency);
    free(c->tokens_per_s);
    free(c->e2e_p50_ms);
    free(c->runs);
    *c = (struct curve){0};
}

ssize_t curve_knee(const struct curve *c)
{
    _cleanup_(freep) struct sweep_point *points = xcalloc(c->n + 1, sizeof(*points));

    for (size_t i = 0; i < c->n; i++)
        points[i] = (struct sweep_point){
            .load = c->concurrency[i],
            .throughput = c->tokens_per_s[i],
            .latency = isfinite(c->e2e_p50_ms[i]) ? c->e2e_p50_ms[i] : 0,
        };
    size_t knee = sweep_knee(points, c->n);
    return knee == SWEEP_NO_KNEE ? -1 : (ssize_t)knee;
}
