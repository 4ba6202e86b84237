/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/summary.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/load/by_prompt.h"
#include "daemon/load/concurrency.h"
#include "daemon/load/correlation.h"
#include "daemon/load/distribution.h"
#include "daemon/load/errors.h"
#include "daemon/load/goodput.h"
#include "daemon/load/outliers.h"
#include "daemon/load/timeline.h"
#include "daemon/load/trend.h"

#include <math.h>

/* A trend that is less improbable than this is none: several figures are looked at in every run. */
#define DRIFT_LEVEL 0.01

struct whole {
    const struct summary_input *in;
    struct sample warm[_FIGURE_MAX];
    struct concurrency concurrency;
    double duration_s;
};

static bool is_warm(const struct request_record *r)
{
    return r->outcome == OUTCOME_SUCCESS && !r->cold;
}

static bool is_cold(const struct request_record *r)
{
    return r->outcome == OUTCOME_SUCCESS && r->cold;
}

static json_t *requests_json(const struct whole *w)
{
    json_int_t count[_OUTCOME_MAX] = {0};

    for (size_t i = 0; i < w->in->n; i++)
        count[w->in->records[i].outcome]++;
    return json_pack("{s: I, s: I, s: I}", "success", count[OUTCOME_SUCCESS], "incomplete",
                     count[OUTCOME_INCOMPLETE], "error", count[OUTCOME_ERROR]);
}

static json_t *distributions_json(const struct sample samples[static _FIGURE_MAX], int64_t seed)
{
    json_t *j = json_object();

    for (enum figure f = 0; f < _FIGURE_MAX; f++)
        json_object_set_new(j, figure_name(f), distribution_json(&samples[f], (uint64_t)seed));
    return j;
}

static json_t *metrics_json(const struct whole *w)
{
    return distributions_json(w->warm, w->in->workload->seed);
}

static json_t *cold_json(const struct whole *w)
{
    struct sample cold[_FIGURE_MAX];

    for (enum figure f = 0; f < _FIGURE_MAX; f++)
        sample_of(f, w->in->records, w->in->n, is_cold, &cold[f]);
    json_t *j = distributions_json(cold, w->in->workload->seed);
    json_object_set_new(j, "requests", json_integer((json_int_t)cold[FIGURE_E2E].n_requests));
    for (enum figure f = 0; f < _FIGURE_MAX; f++)
        sample_done(&cold[f]);
    return j;
}

/* Tokens a second that one user sees once tokens come: the mean of what each request had. */
static double per_user(const struct sample *tpot)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < tpot->n_requests; i++)
        if (tpot->values[i] > 0) {
            sum += NS_PER_S / (double)tpot->values[i];
            n++;
        }
    return n > 0 ? sum / (double)n : NAN;
}

static json_t *throughput_json(const struct whole *w)
{
    double requests = 0, input = 0, output = 0;

    for (size_t i = 0; i < w->in->n; i++) {
        const struct request_record *r = &w->in->records[i];
        if (r->outcome != OUTCOME_SUCCESS)
            continue;
        requests++;
        input += (double)MAX(r->input_tokens, 0);
        output += (double)MAX(r->output_tokens, 0);
    }
    return json_pack("{s: o, s: o, s: o, s: o, s: o}", "requests_per_s",
                     json_number(requests / w->duration_s), "input_tokens_per_s",
                     json_number(input / w->duration_s), "output_tokens_per_s",
                     json_number(output / w->duration_s), "total_tokens_per_s",
                     json_number((input + output) / w->duration_s), "output_tokens_per_s_per_user",
                     json_number(per_user(&w->warm[FIGURE_TPOT])));
}

static json_t *goodput(const struct whole *w)
{
    json_t *j = goodput_json(w->in->records, w->in->n, &w->in->workload->goal, w->duration_s);

    return j ? j : json_null();
}

static json_t *peak_json(const struct whole *w)
{
    return json_integer((json_int_t)concurrency_peak(&w->concurrency));
}

static json_t *trend_json(const struct moment_value *values, size_t n)
{
    struct trend t;

    if (!trend_of(values, n, &t))
        return json_null();
    return json_pack("{s: f, s: f, s: b, s: f, s: f, s: f, s: i}", "tau", t.tau, "p", t.p, "significant",
                     t.p < DRIFT_LEVEL, "per_minute", t.slope_per_s * 60, "first", t.first, "last", t.last,
                     "windows", (int)t.windows);
}

static json_t *latency_trend(const struct sample *s)
{
    _cleanup_(freep) struct moment_value *values = xcalloc(s->n_requests, sizeof(*values));

    for (size_t i = 0; i < s->n_requests; i++)
        values[i] = (struct moment_value){s->requests[i]->intended_ns, (double)s->values[i] / NS_PER_MS};
    return trend_json(values, s->n_requests);
}

static const struct resource {
    const char *name;
    size_t place;
} resources[] = {
    {"rss_bytes", offsetof(struct moment, rss_bytes)},
    {"gpu_bytes", offsetof(struct moment, gpu_bytes)},
    {"sm_clock_mhz", offsetof(struct moment, sm_clock_mhz)},
};

/* While the load lasted: what came before and after moves for other reasons. */
static json_t *resource_trend(const struct whole *w, const struct resource *r, const struct moment *moments,
                              size_t n)
{
    _cleanup_(freep) struct moment_value *values = xcalloc(n, sizeof(*values));
    size_t n_values = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t value = *(const int64_t *)((const char *)&moments[i] + r->place);
        if (value >= 0 && moments[i].at_ns >= w->in->started_ns && moments[i].at_ns <= w->in->ended_ns)
            values[n_values++] = (struct moment_value){moments[i].at_ns, (double)value};
    }
    return trend_json(values, n_values);
}

static json_t *drift_json(const struct whole *w)
{
    static const enum figure looked_at[] = {FIGURE_TTFT, FIGURE_TPOT, FIGURE_E2E};
    _cleanup_(freep) struct moment *moments = NULL;
    size_t n_moments = timeline_read(w->in->memory, &moments);

    /* Under a load that rises all else rises too. */
    if (w->in->workload->rate_to != 0)
        return json_null();
    json_t *j = json_pack("{s: f}", "level", DRIFT_LEVEL);
    for (size_t i = 0; i < ARRAY_SIZE(looked_at); i++)
        json_object_set_new(j, figure_name(looked_at[i]), latency_trend(&w->warm[looked_at[i]]));
    for (size_t i = 0; i < ARRAY_SIZE(resources); i++)
        json_object_set_new(j, resources[i].name, resource_trend(w, &resources[i], moments, n_moments));
    return j;
}

static json_t *outliers(const struct whole *w)
{
    return outliers_json(w->warm, &w->concurrency);
}

static int64_t input_tokens(const struct request_record *r)
{
    return r->input_tokens;
}

static int64_t output_tokens(const struct request_record *r)
{
    return r->output_tokens;
}

static const struct pair {
    const char *name, *name_of_ranks, *name_of_count;
    int64_t (*tokens)(const struct request_record *r);
    enum figure figure;
} pairs[] = {
    {"input_tokens_ttft", "input_tokens_ttft_rank", "input_tokens_ttft_n", input_tokens, FIGURE_TTFT},
    {"input_tokens_e2e", "input_tokens_e2e_rank", "input_tokens_e2e_n", input_tokens, FIGURE_E2E},
    {"output_tokens_e2e", "output_tokens_e2e_rank", "output_tokens_e2e_n", output_tokens, FIGURE_E2E},
};

static json_t *correlation_json(const struct whole *w)
{
    json_t *j = json_object();

    for (size_t k = 0; k < ARRAY_SIZE(pairs); k++) {
        const struct sample *s = &w->warm[pairs[k].figure];
        _cleanup_(freep) double *x = xcalloc(s->n_requests, sizeof(*x));
        _cleanup_(freep) double *y = xcalloc(s->n_requests, sizeof(*y));
        size_t n = 0;
        for (size_t i = 0; i < s->n_requests; i++)
            if (pairs[k].tokens(s->requests[i]) >= 0) {
                x[n] = (double)pairs[k].tokens(s->requests[i]);
                y[n++] = (double)s->values[i];
            }
        json_object_set_new(j, pairs[k].name, json_number(correlation(x, y, n)));
        json_object_set_new(j, pairs[k].name_of_ranks, json_number(rank_correlation(x, y, n)));
        json_put_int(j, pairs[k].name_of_count, (int64_t)n);
    }
    return j;
}

static json_t *errors(const struct whole *w)
{
    return errors_json(w->in->records, w->in->n);
}

static const char *const source_words[] = {
    [TOKENS_UNKNOWN] = "unknown", [TOKENS_USAGE] = "usage",         [TOKENS_TOKENIZED] = "tokenized",
    [TOKENS_CHUNKS] = "chunks",   [TOKENS_ESTIMATED] = "estimated",
};

static json_t *tokens_json(const struct whole *w)
{
    const char *input_source = NULL, *output_source = NULL;
    int64_t input = 0, output = 0;

    for (size_t i = 0; i < w->in->n; i++) {
        const struct request_record *r = &w->in->records[i];
        if (r->outcome != OUTCOME_SUCCESS)
            continue;
        const char *in = source_words[r->input_source], *out = source_words[r->output_source];
        input += MAX(r->input_tokens, 0);
        output += MAX(r->output_tokens, 0);
        input_source = !input_source || streq(input_source, in) ? in : "mixed";
        output_source = !output_source || streq(output_source, out) ? out : "mixed";
    }
    return json_pack("{s: I, s: I, s: s, s: s}", "input", (json_int_t)input, "output", (json_int_t)output,
                     "input_source", input_source ? input_source : "unknown", "output_source",
                     output_source ? output_source : "unknown");
}

static json_t *memory_json(const struct whole *w)
{
    return w->in->memory ? json_incref(w->in->memory) : json_null();
}

static json_t *server_json(const struct whole *w)
{
    return w->in->server ? json_incref(w->in->server) : json_null();
}

static json_t *prompts(const struct whole *w)
{
    return by_prompt_json(w->in->records, w->in->n, w->in->workload->n_prompts, w->in->memory,
                          w->in->started_ns);
}

static json_t *duration_json(const struct whole *w)
{
    return json_real(w->duration_s);
}

static const struct member {
    const char *name;
    json_t *(*make)(const struct whole *w);
} members[] = {
    {"duration_s", duration_json},
    {"requests", requests_json},
    {"metrics", metrics_json},
    {"throughput", throughput_json},
    {"goodput", goodput},
    {"cold", cold_json},
    {"peak_concurrency", peak_json},
    {"drift", drift_json},
    {"outliers", outliers},
    {"correlation", correlation_json},
    {"errors", errors},
    {"tokens", tokens_json},
    {"prompts", prompts},
    {"memory", memory_json},
    {"server", server_json},
};

json_t *summary_make(const struct summary_input *in)
{
    struct whole w = {.in = in, .duration_s = (double)(in->ended_ns - in->started_ns) / NS_PER_S};
    json_t *j = json_object();

    for (enum figure f = 0; f < _FIGURE_MAX; f++)
        sample_of(f, in->records, in->n, is_warm, &w.warm[f]);
    concurrency_of(in->records, in->n, &w.concurrency);
    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        json_object_set_new(j, members[i].name, members[i].make(&w));
    concurrency_done(&w.concurrency);
    for (enum figure f = 0; f < _FIGURE_MAX; f++)
        sample_done(&w.warm[f]);
    return j;
}
