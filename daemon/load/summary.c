/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/summary.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/statistics.h"
#include "daemon/load/sampler.h"
#include <math.h>

/* Significance level: stricter than usual, because every run tests several figures. */
#define DRIFT_LEVEL 0.01

static const enum load_figure latencies[] = {FIGURE_TTFT, FIGURE_TPOT, FIGURE_E2E};

struct summary {
    const struct summary_input *in;
    struct sample warm[_FIGURE_MAX];
    struct moment *moments; /* of workers and GPUs */
    size_t n_moments;
    struct concurrency concurrency;
    double duration_s;
};

static bool record_is_warm(const struct request_record *r)
{
    return r->outcome == OUTCOME_SUCCESS && !r->cold;
}

static bool record_is_cold(const struct request_record *r)
{
    return r->outcome == OUTCOME_SUCCESS && r->cold;
}

static json_t *requests_json(const struct summary *w)
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

    for (enum load_figure f = 0; f < _FIGURE_MAX; f++)
        json_object_set_new(j, load_figure_name(f), distribution_json(&samples[f], (uint64_t)seed));
    return j;
}

static json_t *metrics_json(const struct summary *w)
{
    return distributions_json(w->warm, w->in->workload->seed);
}

static json_t *cold_json(const struct summary *w)
{
    struct sample cold[_FIGURE_MAX];

    for (enum load_figure f = 0; f < _FIGURE_MAX; f++)
        sample_of(f, w->in->records, w->in->n, record_is_cold, &cold[f]);
    json_t *j = distributions_json(cold, w->in->workload->seed);
    json_object_set_new(j, "requests", json_integer((json_int_t)cold[FIGURE_E2E].n_requests));
    for (enum load_figure f = 0; f < _FIGURE_MAX; f++)
        sample_done(&cold[f]);
    return j;
}

/* Tokens a second that one user sees after the first token: the mean over requests. */
static double output_rate_per_user(const struct sample *tpot)
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

static json_t *throughput_json(const struct summary *w)
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
                     json_number(output_rate_per_user(&w->warm[FIGURE_TPOT])));
}

/* -- Goodput ------------------------------------------------------------------------------------------ */

struct goodput_goal {
    enum load_figure figure;
    int64_t ns; /* 0: none */
    uint64_t met;
};

/* A response of one token has no TPOT, and meets any goal; a request without another figure misses its goal. */
static bool goodput_goal_is_met(const struct goodput_goal *g, const struct request_record *r)
{
    int64_t value;

    if (g->ns == 0)
        return true;
    if (r->outcome != OUTCOME_SUCCESS)
        return false;
    if (g->figure == FIGURE_TPOT && r->output_tokens >= 0 && r->output_tokens < 2)
        return true;
    return load_figure_of(g->figure, r, &value) && value <= g->ns;
}

/* Requests that met every goal of the workload (DistServe, 2024; vLLM's bench computes the same):
 * {"requests_per_s", "share", "good", "goals": {"ttft_ms": {"goal", "share"}}}. Shares are of all requests, because
 * a failed one served nobody. */
static json_t *goodput_json(const struct summary *w)
{
    const struct workload_goal *goal = &w->in->workload->goal;
    struct goodput_goal goals[] = {
        {FIGURE_TTFT, goal->ttft_ns, 0}, {FIGURE_TPOT, goal->tpot_ns, 0}, {FIGURE_E2E, goal->e2e_ns, 0}};
    double n = (double)MAX(w->in->n, (size_t)1);
    uint64_t good = 0;

    if (goal->ttft_ns == 0 && goal->tpot_ns == 0 && goal->e2e_ns == 0)
        return json_null();
    for (size_t i = 0; i < w->in->n; i++) {
        const struct request_record *r = &w->in->records[i];
        bool all = r->outcome == OUTCOME_SUCCESS;
        for (size_t g = 0; g < ARRAY_SIZE(goals); g++) {
            bool met = goodput_goal_is_met(&goals[g], r);
            goals[g].met += met;
            all = all && met;
        }
        good += all;
    }
    json_t *by_goal = json_object();
    for (size_t g = 0; g < ARRAY_SIZE(goals); g++)
        if (goals[g].ns != 0)
            json_object_set_new(by_goal, load_figure_name(goals[g].figure),
                                json_pack("{s: f, s: f}", "goal", (double)goals[g].ns / NS_PER_MS, "share",
                                          (double)goals[g].met / n));
    return json_pack("{s: f, s: f, s: I, s: o}", "requests_per_s",
                     w->duration_s > 0 ? (double)good / w->duration_s : 0.0, "share", (double)good / n,
                     "good", (json_int_t)good, "goals", by_goal);
}

/* -- Drift -------------------------------------------------------------------------------------------- */

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

/* During the load only: before and after it resources change for other reasons. */
static json_t *resource_trend(const struct summary *w, size_t offset)
{
    _cleanup_(freep) struct moment_value *values = xcalloc(w->n_moments, sizeof(*values));
    size_t n = 0;

    for (size_t i = 0; i < w->n_moments; i++) {
        const struct moment *m = &w->moments[i];
        int64_t value = *(const int64_t *)((const char *)m + offset);
        if (value >= 0 && m->at_ns >= w->in->started_ns && m->at_ns <= w->in->ended_ns)
            values[n++] = (struct moment_value){m->at_ns, (double)value};
    }
    return trend_json(values, n);
}

static json_t *drift_json(const struct summary *w)
{
    static const struct {
        const char *name;
        size_t offset;
    } resources[] = {
        {"rss_bytes", offsetof(struct moment, rss_bytes)},
        {"gpu_bytes", offsetof(struct moment, gpu_bytes)},
        {"sm_clock_mhz", offsetof(struct moment, sm_clock_mhz)},
    };

    /* Under a rising load everything else rises too. */
    if (w->in->workload->rate_to != 0)
        return json_null();
    json_t *j = json_pack("{s: f}", "level", DRIFT_LEVEL);
    for (size_t i = 0; i < ARRAY_SIZE(latencies); i++)
        json_object_set_new(j, load_figure_name(latencies[i]), latency_trend(&w->warm[latencies[i]]));
    for (size_t i = 0; i < ARRAY_SIZE(resources); i++)
        json_object_set_new(j, resources[i].name, resource_trend(w, resources[i].offset));
    return j;
}

/* -- Correlation, errors, tokens ---------------------------------------------------------------------- */

static json_t *correlation_json(const struct summary *w)
{
    static const struct {
        const char *name, *name_of_ranks, *name_of_count;
        size_t tokens;
        enum load_figure figure;
    } pairs[] = {
#define TOKENS(member) offsetof(struct request_record, member)
        {"input_tokens_ttft", "input_tokens_ttft_rank", "input_tokens_ttft_n", TOKENS(input_tokens),
         FIGURE_TTFT},
        {"input_tokens_e2e", "input_tokens_e2e_rank", "input_tokens_e2e_n", TOKENS(input_tokens), FIGURE_E2E},
        {"output_tokens_e2e", "output_tokens_e2e_rank", "output_tokens_e2e_n", TOKENS(output_tokens),
         FIGURE_E2E},
    };
    json_t *j = json_object();

    for (size_t k = 0; k < ARRAY_SIZE(pairs); k++) {
        const struct sample *s = &w->warm[pairs[k].figure];
        _cleanup_(freep) double *x = xcalloc(s->n_requests, sizeof(*x));
        _cleanup_(freep) double *y = xcalloc(s->n_requests, sizeof(*y));
        size_t n = 0;
        for (size_t i = 0; i < s->n_requests; i++) {
            int64_t tokens = *(const int64_t *)((const char *)s->requests[i] + pairs[k].tokens);
            if (tokens < 0)
                continue;
            x[n] = (double)tokens;
            y[n++] = (double)s->values[i];
        }
        json_object_set_new(j, pairs[k].name, json_number(correlation(x, y, n)));
        json_object_set_new(j, pairs[k].name_of_ranks, json_number(rank_correlation(x, y, n)));
        json_put_int(j, pairs[k].name_of_count, (int64_t)n);
    }
    return j;
}

struct error_kind {
    const char *text;
    int status;
    enum outcome outcome;
    uint64_t count;
};

static int compare_error_kinds(const void *x, const void *y)
{
    const struct error_kind *a = x, *b = y;

    return (a->count < b->count) - (a->count > b->count);
}

/* NULL where the table is full. */
static struct error_kind *error_kind_of(struct error_kind *kinds, size_t *n, const struct request_record *r)
{
    const char *text = r->error ? r->error : "no reason given";

    for (size_t i = 0; i < *n; i++)
        if (kinds[i].status == r->status && kinds[i].outcome == r->outcome && streq(kinds[i].text, text))
            return &kinds[i];
    if (*n == SUMMARY_ERROR_KINDS_MAX)
        return NULL;
    kinds[*n] = (struct error_kind){text, r->status, r->outcome, 0};
    return &kinds[(*n)++];
}

json_t *errors_json(const struct request_record *records, size_t n)
{
    struct error_kind kinds[SUMMARY_ERROR_KINDS_MAX] = {0};
    uint64_t others = 0;
    size_t n_kinds = 0;
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        if (records[i].outcome == OUTCOME_SUCCESS)
            continue;
        struct error_kind *kind = error_kind_of(kinds, &n_kinds, &records[i]);
        ++*(kind ? &kind->count : &others);
    }
    qsort(kinds, n_kinds, sizeof(*kinds), compare_error_kinds);
    for (size_t i = 0; i < n_kinds; i++) {
        json_t *j = json_pack("{s: o, s: I, s: s}", "text", json_text(kinds[i].text), "count",
                              (json_int_t)kinds[i].count, "outcome", outcome_words[kinds[i].outcome]);
        if (kinds[i].status > 0)
            json_put_int(j, "status", kinds[i].status);
        json_array_append_new(list, j);
    }
    if (others > 0)
        json_array_append_new(list, json_pack("{s: s, s: I}", "text", "others", "count", (json_int_t)others));
    return list;
}

static json_t *tokens_json(const struct summary *w)
{
    const char *input_source = NULL, *output_source = NULL;
    int64_t input = 0, output = 0;

    for (size_t i = 0; i < w->in->n; i++) {
        const struct request_record *r = &w->in->records[i];
        if (r->outcome != OUTCOME_SUCCESS)
            continue;
        const char *in = token_source_words[r->input_source], *out = token_source_words[r->output_source];
        input += MAX(r->input_tokens, 0);
        output += MAX(r->output_tokens, 0);
        input_source = !input_source || streq(input_source, in) ? in : "mixed";
        output_source = !output_source || streq(output_source, out) ? out : "mixed";
    }
    return json_pack("{s: I, s: I, s: s, s: s}", "input", (json_int_t)input, "output", (json_int_t)output,
                     "input_source", input_source ? input_source : "unknown", "output_source",
                     output_source ? output_source : "unknown");
}

/* -- Outliers -- */

/* An outlier is by Iglewicz and Hoaglin's modified z-score (base/statistics.h) and at least this share of the
 * median above it: where most values are equal, every difference has a high score. */
#define OUTLIER_SHARE 0.25
/* A cause that explains at least this share of the time above the median is the reason. */
#define OUTLIER_REASON_SHARE 0.5
/* Lengths and concurrency are large from this multiple of the median. */
#define OUTLIER_LARGE 1.5

struct request_outlier {
    const struct request_record *r;
    enum load_figure figure;
    int64_t value, median;
};

/* Medians of the run, which reasons compare with. */
struct outlier_context {
    const struct concurrency *concurrency;
    int64_t input_tokens, output_tokens, in_flight;
    int64_t first_wave_ns; /* requests due earlier started simultaneously; -1 where none did */
};

static bool outlier_was_late(const struct request_outlier *o, const struct outlier_context *s, char **ret)
{
    int64_t late = o->r->sent_ns - o->r->intended_ns;

    if (o->figure == FIGURE_TPOT || (double)late < OUTLIER_REASON_SHARE * (double)(o->value - o->median))
        return false;
    *ret = xasprintf("sent %.1f ms late", (double)late / NS_PER_MS);
    return true;
}

static bool outlier_was_retried(const struct request_outlier *o, const struct outlier_context *s, char **ret)
{
    if (!o->r->error)
        return false;
    *ret = xasprintf("retried after: %s", o->r->error);
    return true;
}

static bool outlier_was_stalled(const struct request_outlier *o, const struct outlier_context *s, char **ret)
{
    uint32_t longest = 0;
    double excess = (double)(o->value - o->median);

    for (uint32_t g = 0; g < o->r->n_gaps; g++)
        longest = MAX(longest, o->r->gaps_us[g]);
    if (o->figure == FIGURE_TPOT)
        excess *= (double)(o->r->output_tokens - 1);
    if (o->figure == FIGURE_TTFT || (double)longest * NS_PER_US < OUTLIER_REASON_SHARE * excess)
        return false;
    *ret = xasprintf("one gap of %.1f ms between two tokens", (double)longest / 1000);
    return true;
}

static bool outlier_tokens_are_large(const char *what, int64_t tokens, int64_t median, char **ret)
{
    if (median <= 0 || (double)tokens < OUTLIER_LARGE * (double)median)
        return false;
    *ret = xasprintf("long %s: %lld tokens, the median is %lld", what, (long long)tokens, (long long)median);
    return true;
}

static bool outlier_had_long_input(const struct request_outlier *o, const struct outlier_context *s,
                                   char **ret)
{
    return o->figure != FIGURE_TPOT &&
           outlier_tokens_are_large("input", o->r->input_tokens, s->input_tokens, ret);
}

static bool outlier_had_long_output(const struct request_outlier *o, const struct outlier_context *s,
                                    char **ret)
{
    return o->figure == FIGURE_E2E &&
           outlier_tokens_are_large("output", o->r->output_tokens, s->output_tokens, ret);
}

static bool outlier_was_in_first_wave(const struct request_outlier *o, const struct outlier_context *s,
                                      char **ret)
{
    if (o->figure == FIGURE_TPOT || o->r->intended_ns >= s->first_wave_ns)
        return false;
    *ret = xstrdup("queued at the start: the first requests were sent simultaneously");
    return true;
}

static bool outlier_was_crowded(const struct request_outlier *o, const struct outlier_context *s, char **ret)
{
    size_t others = concurrency_at(s->concurrency, o->r->sent_ns) - 1;

    if ((double)others < OUTLIER_LARGE * (double)s->in_flight || s->in_flight <= 0)
        return false;
    *ret =
        xasprintf("%zu other requests were in flight, the median is %lld", others, (long long)s->in_flight);
    return true;
}

/* The first that applies. */
static bool (*const outlier_reasons[])(const struct request_outlier *, const struct outlier_context *,
                                       char **) = {
    outlier_was_late,        outlier_was_retried,       outlier_was_stalled, outlier_had_long_input,
    outlier_had_long_output, outlier_was_in_first_wave, outlier_was_crowded,
};

static char *outlier_reason(const struct request_outlier *o, const struct outlier_context *s)
{
    char *text;

    for (size_t i = 0; i < ARRAY_SIZE(outlier_reasons); i++)
        if (outlier_reasons[i](o, s, &text))
            return text;
    return xstrdup("not visible to the client: record the worker to see what it did");
}

static int64_t outlier_median(int64_t *values, size_t n)
{
    sort_ns(values, n);
    return percentile(values, n, 50);
}

static struct outlier_context outlier_context_of(const struct sample *e2e, const struct concurrency *c)
{
    size_t n = e2e->n_requests;
    _cleanup_(freep) int64_t *input = xcalloc(n, sizeof(*input));
    _cleanup_(freep) int64_t *output = xcalloc(n, sizeof(*output));
    _cleanup_(freep) int64_t *in_flight = xcalloc(n, sizeof(*in_flight));

    for (size_t i = 0; i < n; i++) {
        const struct request_record *r = e2e->requests[i];
        input[i] = r->input_tokens;
        output[i] = r->output_tokens;
        in_flight[i] = (int64_t)concurrency_at(c, r->sent_ns) - 1;
    }
    return (struct outlier_context){
        .concurrency = c,
        .input_tokens = outlier_median(input, n),
        .output_tokens = outlier_median(output, n),
        .in_flight = outlier_median(in_flight, n),
        .first_wave_ns = c->n > 0 && concurrency_at(c, c->ends[0] - 1) > 1 ? c->ends[0] : -1,
    };
}

static double outlier_multiple(const struct request_outlier *o)
{
    return (double)o->value / (double)MAX(o->median, 1);
}

/* Keeps the worst OUTLIERS_MAX in order. */
static void outliers_keep(struct request_outlier *worst, size_t *n, struct request_outlier o)
{
    size_t at = *n;

    while (at > 0 && outlier_multiple(&o) > outlier_multiple(&worst[at - 1]))
        at--;
    if (at == OUTLIERS_MAX)
        return;
    *n = MIN(*n + 1, OUTLIERS_MAX);
    memmove(&worst[at + 1], &worst[at], (*n - at - 1) * sizeof(*worst));
    worst[at] = o;
}

static void outliers_find(const struct sample *s, struct request_outlier *worst, size_t *n)
{
    struct spread usual = spread_of(s->sorted, s->n);
    int64_t distance_min = (int64_t)(OUTLIER_SHARE * (double)usual.median);
    /* All values from some rank on are outliers: search it once in the sorted values. */
    size_t from = s->n;

    while (from > 0 && s->sorted[from - 1] > usual.median &&
           is_outlier(&usual, s->sorted[from - 1], distance_min) && s->n - from < OUTLIERS_MAX)
        from--;
    for (size_t i = 0; from < s->n && i < s->n_requests; i++)
        if (s->values[i] >= s->sorted[from])
            outliers_keep(worst, n,
                          (struct request_outlier){s->requests[i], s->figure, s->values[i], usual.median});
}

static json_t *outlier_json(const struct request_outlier *o, const struct outlier_context *s)
{
    _cleanup_(freep) char *reason = outlier_reason(o, s);
    json_t *j = json_pack("{s: I, s: i, s: s, s: f, s: f}", "index", (json_int_t)o->r->index, "target",
                          o->r->target, "figure", load_figure_name(o->figure), "value",
                          (double)o->value / NS_PER_MS, "median", (double)o->median / NS_PER_MS);

    json_object_set_new(j, "reason", json_text(reason));
    return j;
}

/* The worst OUTLIERS_MAX of all figures: [{"index", "target", "figure", "value", "median", "reason"}], in
 * milliseconds, the largest multiple of its median first; the reason as far as a client can see it. */
static json_t *outliers_json(const struct sample samples[static _FIGURE_MAX], const struct concurrency *c)
{
    struct outlier_context s = outlier_context_of(&samples[FIGURE_E2E], c);
    struct request_outlier worst[OUTLIERS_MAX];
    json_t *list = json_array();
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(latencies); i++)
        outliers_find(&samples[latencies[i]], worst, &n);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, outlier_json(&worst[i], &s));
    return list;
}

/* -- By prompt: for workloads that name their prompts --------------------------------------------------- */

struct prompt_figures {
    struct series latencies[ARRAY_SIZE(latencies)], input_tokens, output_tokens, rss, gpu;
};

static void prompt_add(struct prompt_figures *p, const struct request_record *r, const struct summary *w)
{
    int64_t value, sent_ns = w->in->started_ns + r->sent_ns, end_ns = w->in->started_ns + r->end_ns;

    for (size_t f = 0; f < ARRAY_SIZE(latencies); f++)
        if (load_figure_of(latencies[f], r, &value))
            series_add(&p->latencies[f], value);
    series_add(&p->input_tokens, r->input_tokens);
    series_add(&p->output_tokens, r->output_tokens);
    for (size_t i = moments_before(&w->moments->at_ns, sizeof(*w->moments), w->n_moments, sent_ns);
         i < w->n_moments && w->moments[i].at_ns <= end_ns; i++) {
        series_add(&p->rss, w->moments[i].rss_bytes);
        series_add(&p->gpu, w->moments[i].gpu_bytes);
    }
}

static json_t *prompt_mean_json(const struct series *s)
{
    return s->n > 0 ? json_real(s->sum / (double)s->n) : json_null();
}

static json_t *prompt_peak_json(const struct series *s, int64_t baseline)
{
    return s->n > 0 ? json_pack("{s: I, s: I}", "peak", (json_int_t)s->peak, "difference",
                                (json_int_t)(s->peak - baseline))
                    : json_null();
}

static json_t *prompt_json(const struct prompt_figures *p, size_t index, const struct moment *baseline)
{
    json_t *j = json_pack("{s: I, s: I}", "prompt", (json_int_t)index, "requests",
                          (json_int_t)p->latencies[ARRAY_SIZE(latencies) - 1].n);

    for (size_t f = 0; f < ARRAY_SIZE(latencies); f++) {
        const struct series *s = &p->latencies[f];
        json_object_set_new(
            j, load_figure_name(latencies[f]),
            s->n == 0 ? json_null()
                      : json_pack("{s: f, s: f, s: f}", "mean", s->sum / (double)s->n / NS_PER_MS, "min",
                                  (double)s->low / NS_PER_MS, "max", (double)s->peak / NS_PER_MS));
    }
    json_object_set_new(j, "input_tokens", prompt_mean_json(&p->input_tokens));
    json_object_set_new(j, "output_tokens", prompt_mean_json(&p->output_tokens));
    json_object_set_new(j, "rss_bytes", prompt_peak_json(&p->rss, baseline->rss_bytes));
    json_object_set_new(j, "gpu_bytes", prompt_peak_json(&p->gpu, baseline->gpu_bytes));
    return j;
}

/*
 * [{"prompt", "requests", "ttft_ms", "tpot_ms", "e2e_ms": {"mean", "min", "max"}, "input_tokens",
 * "output_tokens": means, "rss_bytes", "gpu_bytes": {"peak", "difference"}}] of the first SUMMARY_PROMPTS_MAX
 * prompts; figures are of warm successful requests, null without any.
 *
 * Memory is that of all workers and GPUs while a request of the prompt was in flight, whatever else was: its peak,
 * and the difference from the first sample of the run. Null where no sample was taken meanwhile.
 */
static json_t *prompts_json(const struct summary *w)
{
    static const struct moment nothing = {0};
    const struct moment *baseline = w->n_moments > 0 ? w->moments : &nothing;
    size_t n_listed = MIN(w->in->workload->n_prompts, SUMMARY_PROMPTS_MAX);
    _cleanup_(freep) struct prompt_figures *prompts = xcalloc(n_listed, sizeof(*prompts));
    json_t *list = json_array();

    for (size_t i = 0; i < w->in->n; i++) {
        const struct request_record *r = &w->in->records[i];
        if (record_is_warm(r) && r->prompt >= 0 && (size_t)r->prompt < n_listed)
            prompt_add(&prompts[r->prompt], r, w);
    }
    for (size_t i = 0; i < n_listed; i++)
        json_array_append_new(list, prompt_json(&prompts[i], i, baseline));
    return list;
}

/* -- The summary -------------------------------------------------------------------------------------- */

json_t *summary_make(const struct summary_input *in)
{
    struct summary w = {.in = in, .duration_s = (double)(in->ended_ns - in->started_ns) / NS_PER_S};

    w.n_moments = timeline_read(in->memory, &w.moments);
    for (enum load_figure f = 0; f < _FIGURE_MAX; f++)
        sample_of(f, in->records, in->n, record_is_warm, &w.warm[f]);
    concurrency_of(in->records, in->n, &w.concurrency);
    const struct {
        const char *name;
        json_t *value;
    } members[] = {
        {"duration_s", json_real(w.duration_s)},
        {"requests", requests_json(&w)},
        {"metrics", metrics_json(&w)},
        {"throughput", throughput_json(&w)},
        {"goodput", goodput_json(&w)},
        {"cold", cold_json(&w)},
        {"peak_concurrency", json_integer((json_int_t)concurrency_peak(&w.concurrency))},
        {"drift", drift_json(&w)},
        {"outliers", outliers_json(w.warm, &w.concurrency)},
        {"correlation", correlation_json(&w)},
        {"errors", errors_json(in->records, in->n)},
        {"tokens", tokens_json(&w)},
        {"prompts", prompts_json(&w)},
        {"memory", in->memory ? json_incref(in->memory) : json_null()},
        {"server", in->server ? json_incref(in->server) : json_null()},
    };
    json_t *j = json_object();
    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        json_object_set_new(j, members[i].name, members[i].value);
    concurrency_done(&w.concurrency);
    for (enum load_figure f = 0; f < _FIGURE_MAX; f++)
        sample_done(&w.warm[f]);
    free(w.moments);
    return j;
}
