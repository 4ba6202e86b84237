/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/by_prompt.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/load/sample.h"
#include "daemon/load/series.h"
#include "daemon/load/timeline.h"

static const enum figure figures[] = {FIGURE_TTFT, FIGURE_TPOT, FIGURE_E2E};

struct prompt {
    struct series figures[ARRAY_SIZE(figures)], input_tokens, output_tokens, rss, gpu;
};

/* The first moment at or after one. */
static size_t first_from(const struct moment *moments, size_t n, int64_t at_ns)
{
    size_t from = 0;

    while (n > 0) {
        size_t half = n / 2;
        if (moments[from + half].at_ns < at_ns) {
            from += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return from;
}

static void add_memory(struct prompt *p, const struct request_record *r, const struct moment *moments,
                       size_t n, int64_t started_ns)
{
    for (size_t i = first_from(moments, n, started_ns + r->sent_ns);
         i < n && moments[i].at_ns <= started_ns + r->end_ns; i++) {
        series_add(&p->rss, moments[i].rss_bytes);
        series_add(&p->gpu, moments[i].gpu_bytes);
    }
}

static void add_figures(struct prompt *p, const struct request_record *r)
{
    int64_t value;

    for (size_t f = 0; f < ARRAY_SIZE(figures); f++)
        if (figure_of(figures[f], r, &value))
            series_add(&p->figures[f], value);
    series_add(&p->input_tokens, r->input_tokens);
    series_add(&p->output_tokens, r->output_tokens);
}

static json_t *times_json(const struct series *s)
{
    if (s->n == 0)
        return json_null();
    return json_pack("{s: f, s: f, s: f}", "mean", s->sum / (double)s->n / NS_PER_MS, "min",
                     (double)s->low / NS_PER_MS, "max", (double)s->peak / NS_PER_MS);
}

static json_t *mean_json(const struct series *s)
{
    return s->n > 0 ? json_real(s->sum / (double)s->n) : json_null();
}

static json_t *peak_json(const struct series *s, int64_t baseline)
{
    if (s->n == 0)
        return json_null();
    return json_pack("{s: I, s: I}", "peak", (json_int_t)s->peak, "difference",
                     (json_int_t)(s->peak - baseline));
}

static json_t *prompt_json(const struct prompt *p, size_t index, const struct moment *baseline)
{
    json_t *j = json_pack("{s: I, s: I}", "prompt", (json_int_t)index, "requests",
                          (json_int_t)p->figures[ARRAY_SIZE(figures) - 1].n);

    for (size_t f = 0; f < ARRAY_SIZE(figures); f++)
        json_object_set_new(j, figure_name(figures[f]), times_json(&p->figures[f]));
    json_object_set_new(j, "input_tokens", mean_json(&p->input_tokens));
    json_object_set_new(j, "output_tokens", mean_json(&p->output_tokens));
    json_object_set_new(j, "rss_bytes", peak_json(&p->rss, baseline->rss_bytes));
    json_object_set_new(j, "gpu_bytes", peak_json(&p->gpu, baseline->gpu_bytes));
    return j;
}

json_t *by_prompt_json(const struct request_record *records, size_t n, size_t n_prompts, const json_t *memory,
                       int64_t started_ns)
{
    static const struct moment nothing = {0};
    size_t n_listed = MIN(n_prompts, BY_PROMPT_MAX);
    _cleanup_(freep) struct prompt *prompts = xcalloc(n_listed, sizeof(*prompts));
    _cleanup_(freep) struct moment *moments = NULL;
    size_t n_moments = timeline_read(memory, &moments);
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        const struct request_record *r = &records[i];
        if (r->outcome != OUTCOME_SUCCESS || r->cold || r->prompt < 0 || (size_t)r->prompt >= n_listed)
            continue;
        add_figures(&prompts[r->prompt], r);
        add_memory(&prompts[r->prompt], r, moments, n_moments, started_ns);
    }
    for (size_t i = 0; i < n_listed; i++)
        json_array_append_new(list, prompt_json(&prompts[i], i, n_moments > 0 ? moments : &nothing));
    return list;
}
