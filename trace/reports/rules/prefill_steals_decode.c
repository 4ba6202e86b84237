/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that generate wait while others are prefilled: in steps between theirs, or in the same step. */
#include "base/statistics.h"
#include "base/units.h"
#include "trace/reports/rules/rules.h"

#include <errno.h>

/* Some of it is how continuous batching works; beyond a tenth users see tokens stall. */
#define STEAL_SHARE_MIN 0.10
/* Fewer decode steps do not tell how long one is by itself. */
#define DECODE_MIN 3

struct stolen {
    int64_t sum, longest;
    size_t prefills, mixed, decodes;
    struct interval at;
    const struct scene_rank *rank;
    struct text name;
};

static int median_decode(const struct scene_rank *rank, struct stolen *ret, int64_t *ret_median)
{
    _cleanup_(freep) int64_t *durs = calloc(rank->steps->n + 1, sizeof(*durs));
    size_t n = 0;

    if (!durs)
        return -ENOMEM;
    for (size_t i = 0; i < rank->steps->n; i++)
        if (rank->steps->items[i].phase == PHASE_DECODE)
            durs[n++] = rank->steps->items[i].end - rank->steps->items[i].ts;
    sort_ns(durs, n);
    *ret_median = n >= DECODE_MIN ? percentile(durs, n, 50) : 0;
    ret->decodes += n;
    return n >= DECODE_MIN;
}

static void count(const struct scene_rank *rank, const struct step *step, int64_t cost, struct stolen *ret)
{
    if (cost <= 0 || !scene_has(rank, step->ts))
        return;
    ret->sum = add_time(ret->sum, cost);
    if (step->phase == PHASE_MIXED)
        ret->mixed++;
    else
        ret->prefills++;
    if (cost > ret->longest) {
        ret->longest = cost;
        ret->rank = rank;
        ret->at = (struct interval){step->ts, step->end};
        ret->name = columns_text(rank->columns, step->name);
    }
}

/* Only between the first and the last step that decodes is there anybody who waits. */
static int add_rank(const struct scene_rank *rank, struct stolen *ret)
{
    const struct steps *steps = rank->steps;
    size_t first = steps->n, last = 0;
    int64_t median;
    int r = median_decode(rank, ret, &median);

    if (r <= 0)
        return r;
    for (size_t i = 0; i < steps->n; i++) {
        bool decodes = steps->items[i].phase == PHASE_DECODE || steps->items[i].phase == PHASE_MIXED;
        first = decodes ? MIN(first, i) : first;
        last = decodes ? i : last;
    }
    for (size_t i = first; i <= last && i < steps->n; i++) {
        const struct step *step = &steps->items[i];
        int64_t dur = step->end - step->ts;
        if (step->phase == PHASE_PREFILL)
            count(rank, step, dur, ret);
        else if (step->phase == PHASE_MIXED)
            count(rank, step, dur - median, ret);
    }
    return 0;
}

static int look(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    struct stolen s = {0};
    struct finding f = {.confidence = CONFIDENCE_INFERRED};
    char figures[FIGURES_MAX], place[PLACE_MAX], longest[UNIT_TEXT_MAX], name[NAME_MAX_SHOWN + 1];
    int r = 0;

    for (size_t i = 0; i < scene->n && r >= 0; i++)
        r = add_rank(&scene->ranks[i], &s);
    if (r < 0 || s.sum == 0)
        return r;
    f.cost = s.sum;
    snprintf(f.what, sizeof(f.what), "Prefill steals time from decode: %s, one token stalls for %s",
             finding_figures(figures, scene, s.sum), format_duration(longest, s.longest));
    snprintf(f.where, sizeof(f.where), "the longest at %s, %s",
             finding_place(place, scene, s.rank->rank, s.at.from, s.at.to), finding_text(name, s.name));
    snprintf(f.evidence, sizeof(f.evidence),
             "%zu prefill steps between decode steps, and %zu mixed steps longer than "
             "the median of %zu that only decode",
             s.prefills, s.mixed, s.decodes);
    finding_put(scene, rule, &f, ret);
    return 0;
}

const struct rule rule_prefill_steals_decode = {
    .name = "prefill_steals_decode",
    .report = "steps",
    .share_min = STEAL_SHARE_MIN,
    .ground = "a mixed step is taken to be longer than the median decode step because of its prefill alone",
    .advice = "prefill in smaller chunks, or on other workers (disaggregated prefill)",
    .vllm =
        "a smaller --max-num-batched-tokens, --long-prefill-token-threshold; --kv-transfer-config for other "
        "workers",
    .sglang =
        "a smaller --chunked-prefill-size, --enable-mixed-chunk; --disaggregation-mode prefill and decode",
    .look = look,
};
