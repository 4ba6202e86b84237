/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/outliers.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/statistics.h"

/* What explains at least so much of the time above the median is the reason. */
#define REASON_SHARE 0.5
/* Lengths and numbers under way count as large from so many times the usual. */
#define LARGE 1.5

struct outlier {
    const struct request_record *r;
    enum figure figure;
    int64_t value, median;
};

/* What is usual in the run. */
struct scene {
    const struct concurrency *concurrency;
    int64_t input_tokens, output_tokens, under_way;
    int64_t first_wave_ns; /* who was to leave before came together with others; -1 where none did */
};

static bool was_late(const struct outlier *o, const struct scene *s, char **ret)
{
    int64_t late = o->r->sent_ns - o->r->intended_ns;

    if (o->figure == FIGURE_TPOT || (double)late < REASON_SHARE * (double)(o->value - o->median))
        return false;
    *ret = xasprintf("sent %.1f ms late", (double)late / NS_PER_MS);
    return true;
}

static bool was_retried(const struct outlier *o, const struct scene *s, char **ret)
{
    if (!o->r->error)
        return false;
    *ret = xasprintf("retried after: %s", o->r->error);
    return true;
}

static bool was_stalled(const struct outlier *o, const struct scene *s, char **ret)
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

static bool had_long_input(const struct outlier *o, const struct scene *s, char **ret)
{
    if (o->figure == FIGURE_TPOT || s->input_tokens <= 0 ||
        (double)o->r->input_tokens < LARGE * (double)s->input_tokens)
        return false;
    *ret = xasprintf("long input: %lld tokens, %lld are usual", (long long)o->r->input_tokens,
                     (long long)s->input_tokens);
    return true;
}

static bool had_long_output(const struct outlier *o, const struct scene *s, char **ret)
{
    if (o->figure != FIGURE_E2E || s->output_tokens <= 0 ||
        (double)o->r->output_tokens < LARGE * (double)s->output_tokens)
        return false;
    *ret = xasprintf("long output: %lld tokens, %lld are usual", (long long)o->r->output_tokens,
                     (long long)s->output_tokens);
    return true;
}

static bool was_in_first_wave(const struct outlier *o, const struct scene *s, char **ret)
{
    if (o->figure == FIGURE_TPOT || o->r->intended_ns >= s->first_wave_ns)
        return false;
    *ret = xstrdup("queued at the start: the first requests came all at once");
    return true;
}

static bool was_crowded(const struct outlier *o, const struct scene *s, char **ret)
{
    size_t others = concurrency_at(s->concurrency, o->r->sent_ns) - 1;

    if ((double)others < LARGE * (double)s->under_way || s->under_way <= 0)
        return false;
    *ret = xasprintf("%zu others were under way, %lld are usual", others, (long long)s->under_way);
    return true;
}

/* The first that holds. */
static bool (*const reasons[])(const struct outlier *, const struct scene *, char **) = {
    was_late, was_retried, was_stalled, had_long_input, had_long_output, was_in_first_wave, was_crowded,
};

static char *reason_of(const struct outlier *o, const struct scene *s)
{
    char *text;

    for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
        if (reasons[i](o, s, &text))
            return text;
    return xstrdup("not seen from outside: a recording of the worker shows what it did");
}

static int64_t input_tokens_of(const struct scene *s, const struct request_record *r)
{
    return r->input_tokens;
}

static int64_t output_tokens_of(const struct scene *s, const struct request_record *r)
{
    return r->output_tokens;
}

static int64_t under_way_of(const struct scene *s, const struct request_record *r)
{
    return (int64_t)concurrency_at(s->concurrency, r->sent_ns) - 1;
}

static int64_t usual(const struct scene *s, const struct sample *of,
                     int64_t (*value)(const struct scene *, const struct request_record *))
{
    _cleanup_(freep) int64_t *values = xcalloc(of->n_requests, sizeof(*values));

    for (size_t i = 0; i < of->n_requests; i++)
        values[i] = value(s, of->requests[i]);
    sort_ns(values, of->n_requests);
    return percentile(values, of->n_requests, 50);
}

static struct scene scene_of(const struct sample *e2e, const struct concurrency *c)
{
    struct scene s = {.concurrency = c};

    s.input_tokens = usual(&s, e2e, input_tokens_of);
    s.output_tokens = usual(&s, e2e, output_tokens_of);
    s.under_way = usual(&s, e2e, under_way_of);
    s.first_wave_ns = c->n > 0 && concurrency_at(c, c->ends[0] - 1) > 1 ? c->ends[0] : -1;
    return s;
}

static double farness(const struct outlier *o)
{
    return (double)o->value / (double)MAX(o->median, 1);
}

/* The worst so far, in order; what does not fit falls off at the end. */
static void keep(struct outlier *worst, size_t *n, struct outlier o)
{
    size_t at = *n;

    while (at > 0 && farness(&o) > farness(&worst[at - 1]))
        at--;
    if (at == OUTLIERS_MAX)
        return;
    *n = MIN(*n + 1, OUTLIERS_MAX);
    memmove(&worst[at + 1], &worst[at], (*n - at - 1) * sizeof(*worst));
    worst[at] = o;
}

static void look(const struct sample *s, struct outlier *worst, size_t *n)
{
    int64_t median = percentile(s->sorted, s->n, 50);
    int64_t matters = (int64_t)(OUTLIER_SHARE * (double)median);
    /* Values from some point on lie apart: where that is, is found once in the sorted ones. */
    size_t from = s->n;

    while (from > 0 && s->sorted[from - 1] > median &&
           is_outlier(s->sorted, s->n, s->sorted[from - 1], matters) && s->n - from < OUTLIERS_MAX)
        from--;
    for (size_t i = 0; from < s->n && i < s->n_requests; i++)
        if (s->values[i] >= s->sorted[from])
            keep(worst, n, (struct outlier){s->requests[i], s->figure, s->values[i], median});
}

static json_t *outlier_json(const struct outlier *o, const struct scene *s)
{
    _cleanup_(freep) char *reason = reason_of(o, s);
    json_t *j = json_pack("{s: I, s: i, s: s, s: f, s: f}", "index", (json_int_t)o->r->index, "target",
                          o->r->target, "figure", figure_name(o->figure), "value",
                          (double)o->value / NS_PER_MS, "median", (double)o->median / NS_PER_MS);

    json_object_set_new(j, "reason", json_text(reason));
    return j;
}

json_t *outliers_json(const struct sample samples[static _FIGURE_MAX], const struct concurrency *c)
{
    static const enum figure looked_at[] = {FIGURE_TTFT, FIGURE_TPOT, FIGURE_E2E};
    struct scene s = scene_of(&samples[FIGURE_E2E], c);
    struct outlier worst[OUTLIERS_MAX];
    json_t *list = json_array();
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(looked_at); i++)
        look(&samples[looked_at[i]], worst, &n);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, outlier_json(&worst[i], &s));
    return list;
}
