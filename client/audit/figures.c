/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/audit/audit.h"
#include <math.h>

/* Of the chord's length: what is nearer to it is no knee, but noise. */
#define KNEE_DISTANCE_MIN 0.05

static double number_of(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

double run_figure(const json_t *run, const char *metric, const char *statistic)
{
    return number_of(json_object_get(json_object_get(run, "metrics"), metric), statistic);
}

double run_throughput(const json_t *run, const char *name)
{
    return number_of(json_object_get(run, "throughput"), name);
}

int64_t run_requests(const json_t *run, const char *outcome)
{
    return json_get_int(json_object_get(run, "requests"), outcome, 0);
}

int64_t run_requests_all(const json_t *run)
{
    return run_requests(run, "success") + run_requests(run, "incomplete") + run_requests(run, "error");
}

void sweep_read(const json_t *facts, struct sweep *ret)
{
    const json_t *list = json_object_get(facts, "sweep");
    size_t n = json_array_size(list);
    struct sweep s = {.concurrency = xcalloc(n + 1, sizeof(double)),
                      .tokens_per_s = xcalloc(n + 1, sizeof(double)),
                      .e2e_p50_ms = xcalloc(n + 1, sizeof(double)),
                      .runs = xcalloc(n + 1, sizeof(json_t *))};

    for (size_t i = 0; i < n; i++) {
        const json_t *point = json_array_get(list, i), *run = json_object_get(point, "run");
        double concurrency = number_of(point, "concurrency"),
               tokens = run_throughput(run, "output_tokens_per_s");
        if (!isfinite(concurrency) || !isfinite(tokens))
            continue;
        s.concurrency[s.n] = concurrency;
        s.tokens_per_s[s.n] = tokens;
        s.e2e_p50_ms[s.n] = run_figure(run, "e2e_ms", "p50");
        s.runs[s.n++] = run;
    }
    *ret = s;
}

void sweep_done(struct sweep *s)
{
    free(s->concurrency);
    free(s->tokens_per_s);
    free(s->e2e_p50_ms);
    free(s->runs);
    *s = (struct sweep){0};
}

ssize_t sweep_knee(const struct sweep *s)
{
    double best = KNEE_DISTANCE_MIN;
    ssize_t knee = -1;
    size_t top = 0;

    for (size_t i = 1; i < s->n; i++)
        if (s->tokens_per_s[i] > s->tokens_per_s[top])
            top = i;
    if (s->n < 3)
        return -1;
    double x0 = s->concurrency[0], y0 = s->tokens_per_s[0], width = s->concurrency[s->n - 1] - x0,
           height = s->tokens_per_s[top] - y0;
    if (width <= 0 || height <= 0)
        return -1;
    for (size_t i = 1; i < s->n; i++) {
        double above = (s->tokens_per_s[i] - y0) / height - (s->concurrency[i] - x0) / width;
        if (above > best) {
            best = above;
            knee = (ssize_t)i;
        }
    }
    return knee;
}
