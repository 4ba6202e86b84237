/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/summary.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/statistics.h"

/* A cause that explains at least this share of the time above the median is the reason. */
#define REASON_SHARE 0.5
/* Lengths and concurrency are large from this multiple of the median. */
#define LARGE 1.5

struct outlier {
    const struct request_record *r;
    enum figure figure;
    int64_t value, median;
};

/* Medians of the run, which reasons compare with. */
struct outlier_context {
    const struct concurrency *concurrency;
    int64_t input_tokens, output_tokens, in_flight;
    int64_t first_wave_ns; /* requests due earlier started simultaneously; -1 where none did */
};

static bool outlier_was_late(const struct outlier *o, const struct outlier_context *s, char **ret)
{
    int64_t late = o->r->sent_ns - o->r->intended_ns;

    if (o->figure == FIGURE_TPOT || (double)late < REASON_SHARE * (double)(o->value - o->median))
        return false;
    *ret = xasprintf("sent %.1f ms late", (double)late / NS_PER_MS);
    return true;
}

static bool outlier_was_retried(const struct outlier *o, const struct outlier_context *s, char **ret)
{
    if (!o->r->error)
        return false;
    *ret = xasprintf("retried after: %s", o->r->error);
    return true;
}

static bool outlier_was_stalled(const struct outlier *o, const struct outlier_context *s, char **ret)
{
    uint32_t longest = 0;
    double excess = (double)(o->value - o->median);

    for (uint32_t g = 0; g < o->r->n_gaps; g++)
        longest = MAX(longest, o->r->gaps_us[g]);
    if (o->figure == FIGURE_TPOT)
        excess *= (double)(o->r->output_tokens - 1);
    if (o->figure == FIGURE_TTFT || (double)longest * NS_PER_US < REASON_SHARE * excess)
        return false;
    *ret = xasprintf("one gap of %.1f ms between two tokens", (double)longest / 1000);
    return true;
}

static bool tokens_are_large(const char *what, int64_t tokens, int64_t median, char **ret)
{
    if (median <= 0 || (double)tokens < LARGE * (double)median)
        return false;
    *ret = xasprintf("long %s: %lld tokens, the median is %lld", what, (long long)tokens, (long long)median);
    return true;
}

static bool outlier_had_long_input(const struct outlier *o, const struct outlier_context *s, char **ret)
{
    return o->figure != FIGURE_TPOT && tokens_are_large("input", o->r->input_tokens, s->input_tokens, ret);
}

static bool outlier_had_long_output(const struct outlier *o, const struct outlier_context *s, char **ret)
{
    return o->figure == FIGURE_E2E && tokens_are_large("output", o->r->output_tokens, s->output_tokens, ret);
}

static bool outlier_was_in_first_wave(const struct outlier *o, const struct outlier_context *s, char **ret)
{
    if (o->figure == FIGURE_TPOT || o->r->intended_ns >= s->first_wave_ns)
        return false;
    *ret = xstrdup("queued at the start: the first requests were sent simultaneously");
    return true;
}

static bool outlier_was_crowded(const struct outlier *o, const struct outlier_context *s, char **ret)
{
    size_t others = concurrency_at(s->concurrency, o->r->sent_ns) - 1;

    if ((double)others < LARGE * (double)s->in_flight || s->in_flight <= 0)
        return false;
    *ret =
        xasprintf("%zu other requests were in flight, the median is %lld", others, (long long)s->in_flight);
    return true;
}

/* The first that applies. */
static bool (*const reasons[])(const struct outlier *, const struct outlier_context *, char **) = {
    outlier_was_late,        outlier_was_retried,       outlier_was_stalled, outlier_had_long_input,
    outlier_had_long_output, outlier_was_in_first_wave, outlier_was_crowded,
};

static char *outlier_reason(const struct outlier *o, const struct outlier_context *s)
{
    char *text;

    for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
        if (reasons[i](o, s, &text))
            return text;
    return xstrdup("not visible to the client: record the worker to see what it did");
}

static int64_t median_of_requests(int64_t *values, size_t n)
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
        .input_tokens = median_of_requests(input, n),
        .output_tokens = median_of_requests(output, n),
        .in_flight = median_of_requests(in_flight, n),
        .first_wave_ns = c->n > 0 && concurrency_at(c, c->ends[0] - 1) > 1 ? c->ends[0] : -1,
    };
}

static double outlier_multiple(const struct outlier *o)
{
    return (double)o->value / (double)MAX(o->median, 1);
}

/* Keeps the worst OUTLIERS_MAX in order. */
static void outliers_keep(struct outlier *worst, size_t *n, struct outlier o)
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

static void outliers_find(const struct sample *s, struct outlier *worst, size_t *n)
{
    int64_t median = percentile(s->sorted, s->n, 50);
    int64_t distance_min = (int64_t)(OUTLIER_SHARE * (double)median);
    /* All values from some rank on are outliers: search it once in the sorted values. */
    size_t from = s->n;

    while (from > 0 && s->sorted[from - 1] > median &&
           is_outlier(s->sorted, s->n, s->sorted[from - 1], distance_min) && s->n - from < OUTLIERS_MAX)
        from--;
    for (size_t i = 0; from < s->n && i < s->n_requests; i++)
        if (s->values[i] >= s->sorted[from])
            outliers_keep(worst, n, (struct outlier){s->requests[i], s->figure, s->values[i], median});
}

static json_t *outlier_json(const struct outlier *o, const struct outlier_context *s)
{
    _cleanup_(freep) char *reason = outlier_reason(o, s);
    json_t *j = json_pack("{s: I, s: i, s: s, s: f, s: f}", "index", (json_int_t)o->r->index, "target",
                          o->r->target, "figure", figure_name(o->figure), "value",
                          (double)o->value / NS_PER_MS, "median", (double)o->median / NS_PER_MS);

    json_object_set_new(j, "reason", json_text(reason));
    return j;
}

json_t *outliers_json(const struct sample samples[static _FIGURE_MAX], const struct concurrency *c)
{
    static const enum figure figures[] = {FIGURE_TTFT, FIGURE_TPOT, FIGURE_E2E};
    struct outlier_context s = outlier_context_of(&samples[FIGURE_E2E], c);
    struct outlier worst[OUTLIERS_MAX];
    json_t *list = json_array();
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
        outliers_find(&samples[figures[i]], worst, &n);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, outlier_json(&worst[i], &s));
    return list;
}
