/* SPDX-License-Identifier: Apache-2.0 */
/* Work that is too small for a GPU: kernels that hardly begin before they end, and chains of element by
 * element that go through memory each time. */
#include "base/array.h"
#include "base/units.h"
#include "trace/reports/gpu.h"
#include "trace/reports/rules/context.h"
#include "trace/reports/rules/rule.h"

#include <errno.h>

/* To start and to end a kernel takes a GPU some microseconds: one that is as short does little else. */
#define TINY_NS 4000
/* A gap before such a kernel goes with it; a longer one has another reason. */
#define TINY_GAP_NS 10000
/* Part of all kernels, and number of them, from which on they are many. */
#define TINY_PART 0.5
#define TINY_MIN  100
/* What fusing them may gain is at most their time, of which a part stays. */
#define TINY_SHARE_MIN 0.15

/* Two may be what a program needs; three in a row are what a compiler fuses. */
#define CHAIN_MIN       3
#define CHAIN_SHARE_MIN 0.03

/* -- Many tiny kernels -------------------------------------------------------------------------------- */

struct tiny {
    size_t n, of;
    int64_t sum; /* of their durations */
    int64_t time, gaps;
    int64_t run; /* the longest run of tiny kernels */
    struct interval run_at;
    const struct rule_rank *rank;
};

/* Gaps before tiny kernels in which the next kernel was launched already: those that nobody else reports. */
static int64_t gaps_before(const struct rule_rank *rank, const struct intervals *tiny)
{
    int64_t sum = 0;

    for (size_t i = 0; i < rank->n_parts; i++) {
        const struct idle_part *part = &rank->parts[i];
        const struct gap *gap = &rank->gaps.items[part->gap];
        if (part->cause == IDLE_DEVICE && gap->idle <= TINY_GAP_NS && intervals_find(tiny, gap->to))
            sum = add_time(sum, part->ns);
    }
    return sum;
}

static int add_tiny(const struct rule_rank *rank, struct tiny *ret)
{
    _cleanup_(intervals_done) struct intervals tiny = {0}, left = {0};
    int64_t run_from = 0, run = 0;
    int r = 0;

    for (size_t i = 0; i < rank->work->n && r >= 0; i++) {
        const struct gpu_event *e = &rank->work->events[i];
        bool is_tiny = e->kind == GPU_COMPUTE && e->end - e->ts <= TINY_NS;
        if (e->kind != GPU_COMPUTE || !rule_context_has(rank, e->ts))
            continue;
        ret->of++;
        run = is_tiny ? run + 1 : 0;
        if (!is_tiny)
            continue;
        if (run == 1)
            run_from = e->ts;
        if (run > ret->run) {
            ret->run = run;
            ret->run_at = (struct interval){run_from, e->end};
            ret->rank = rank;
        }
        ret->n++;
        ret->sum = add_time(ret->sum, e->end - e->ts);
        r = intervals_add(&tiny, e->ts, e->end);
    }
    intervals_unite(&tiny);
    if (r >= 0)
        r = intervals_subtract(&tiny, &rank->chains, &left);
    ret->time = add_time(ret->time, rule_context_within(rank, &left));
    ret->gaps = add_time(ret->gaps, gaps_before(rank, &tiny));
    return r;
}

static int tiny_evaluate(const struct rule_context *context, const struct rule *rule, struct report_rows *ret)
{
    struct tiny t = {0};
    struct finding f = {.confidence = CONFIDENCE_INFERRED};
    char figures[FIGURES_MAX], location[LOCATION_MAX], mean[UNIT_TEXT_MAX];

    int r = 0;

    for (size_t i = 0; i < context->n && r >= 0; i++)
        r = add_tiny(&context->ranks[i], &t);
    if (r < 0 || t.n < TINY_MIN || (double)t.n < TINY_PART * (double)t.of)
        return r;
    f.of[TIME_COMPUTE] = t.time;
    f.of[TIME_IDLE] = t.gaps;
    f.cost = add_time(t.time, t.gaps);
    snprintf(f.what, sizeof(f.what),
             "Many tiny kernels: %.0f %% of the kernels take 4 us or less; they and the gaps "
             "before them take %s",
             100.0 * (double)t.n / (double)t.of, finding_figures(figures, context, f.cost));
    finding_set_place(&f, t.rank, t.run_at.from, t.run_at.to, SLICE_NONE);
    snprintf(f.where, sizeof(f.where), "longest run: %lld kernels, %s", (long long)t.run,
             finding_location(location, context, &f));
    snprintf(f.evidence, sizeof(f.evidence),
             "%zu of %zu kernels, %s on average; an upper bound: the computation of a fused kernel remains",
             t.n, t.of, format_duration(mean, t.sum / (int64_t)t.n));
    finding_emit(context, rule, &f, ret);
    return 0;
}

/* -- Chains of elementwise kernels -------------------------------------------------------------------- */

struct chain {
    int64_t n, sum, from, to;
    struct interval longest;
};

struct chains {
    size_t n, kernels;
    int64_t best;
    struct chain best_chain;
    const struct rule_rank *rank;
    struct intervals saved; /* of the rank that was added last: the kernels but the longest of each chain */
};

static void chains_done(struct chains *c)
{
    intervals_done(&c->saved);
}

static int end_chain(const struct rule_rank *rank, struct chain *c, struct chains *ret)
{
    int64_t saved = c->sum - (c->longest.to - c->longest.from);
    int r = 0;

    if (c->n >= CHAIN_MIN) {
        ret->n++;
        ret->kernels += (size_t)c->n;
        if (saved > ret->best) {
            ret->best = saved;
            ret->best_chain = *c;
            ret->rank = rank;
        }
        /* The gaps between its kernels are no time of theirs: who adds it leaves them out. */
        r = intervals_add(&ret->saved, c->from, c->longest.from);
        if (r >= 0)
            r = intervals_add(&ret->saved, c->longest.to, c->to);
    }
    *c = (struct chain){0};
    return r;
}

/* ret->saved becomes the rank's own. */
static int add_chains(const struct rule_rank *rank, struct chains *ret)
{
    _cleanup_(stream_set_done) struct stream_set streams = {0};
    _cleanup_(intervals_done) struct intervals kernels = {0}, in_chains = {0}, saved = {0};
    _cleanup_(freep) struct chain *open = NULL;
    size_t n_open = 0;
    int r = 0;

    intervals_done(&ret->saved);
    ret->saved = (struct intervals){0};
    for (size_t i = 0; i < rank->work->n && r >= 0; i++) {
        const struct gpu_event *e = &rank->work->events[i];
        int64_t stream = stream_set_number(&streams, e->device, e->stream);
        if (stream < 0)
            return (int)stream;
        if (!ARRAY_RESERVE_ZEROED(open, n_open, streams.n))
            return -ENOMEM;
        struct chain *c = &open[stream];
        if (!e->is_elementwise || !rule_context_has(rank, e->ts)) {
            r = end_chain(rank, c, ret);
            continue;
        }
        if (c->n++ == 0)
            c->from = e->ts;
        c->to = e->end;
        c->sum = add_time(c->sum, e->end - e->ts);
        if (e->end - e->ts > c->longest.to - c->longest.from)
            c->longest = (struct interval){e->ts, e->end};
        r = intervals_add(&kernels, e->ts, e->end);
    }
    for (size_t i = 0; i < n_open && r >= 0; i++)
        r = end_chain(rank, &open[i], ret);
    intervals_unite(&ret->saved);
    intervals_unite(&kernels);
    if (r >= 0)
        r = intervals_intersect(&ret->saved, &kernels, &in_chains);
    if (r >= 0)
        r = intervals_intersect(&in_chains, &rank->scope, &saved);
    intervals_done(&ret->saved);
    ret->saved = saved;
    saved = (struct intervals){0};
    return r;
}

int chains_read(struct rule_context *context)
{
    struct finding f = {0};
    int r = 0;

    for (size_t i = 0; i < context->n && r >= 0; i++) {
        _cleanup_(chains_done) struct chains c = {0};
        r = add_chains(&context->ranks[i], &c);
        f.cost = add_time(f.cost, intervals_length(&c.saved));
        context->ranks[i].chains = c.saved;
        c.saved = (struct intervals){0};
    }
    for (size_t i = 0; i < context->n && !finding_matters(context, &rule_unfused_elementwise, &f); i++) {
        intervals_done(&context->ranks[i].chains);
        context->ranks[i].chains = (struct intervals){0};
    }
    return r;
}

static int chains_evaluate(const struct rule_context *context, const struct rule *rule,
                           struct report_rows *ret)
{
    _cleanup_(chains_done) struct chains c = {0};
    struct finding f = {.confidence = CONFIDENCE_INFERRED};
    char figures[FIGURES_MAX], location[LOCATION_MAX];
    int r = 0;

    for (size_t i = 0; i < context->n && r >= 0; i++) {
        r = add_chains(&context->ranks[i], &c);
        f.of[TIME_COMPUTE] = add_time(f.of[TIME_COMPUTE], intervals_length(&c.saved));
    }
    if (r < 0 || c.n == 0 || !c.rank)
        return r;
    f.cost = f.of[TIME_COMPUTE];
    snprintf(f.what, sizeof(f.what), "Unfused elementwise chains: fusion would save about %s",
             finding_figures(figures, context, f.cost));
    finding_set_place(&f, c.rank, c.best_chain.from, c.best_chain.to, SLICE_NONE);
    snprintf(f.where, sizeof(f.where), "most expensive chain: %lld kernels, %s", (long long)c.best_chain.n,
             finding_location(location, context, &f));
    snprintf(f.evidence, sizeof(f.evidence),
             "%zu chains of %d or more consecutive elementwise kernels of PyTorch on a stream, %zu kernels; "
             "assumes that a fused kernel takes as long as the longest kernel of its chain",
             c.n, CHAIN_MIN, c.kernels);
    finding_emit(context, rule, &f, ret);
    return 0;
}

const struct rule rule_tiny_kernels = {
    .name = "tiny_kernels",
    .report = "kernels",
    .share_min = TINY_SHARE_MIN,
    .idle = IDLE_DEVICE,
    .ground = "the trace does not show how much fusion saves: the cost is an upper bound",
    .advice = "fuse them (torch.compile, foreach optimizers, fused norm, rope and activation kernels), batch "
              "more, or "
              "capture them as a graph; the report sequences lists candidates",
    .vllm = "omit --enforce-eager, so that torch.compile and its fusion passes run",
    .sglang = "--enable-torch-compile",
    .evaluate = tiny_evaluate,
};

const struct rule rule_unfused_elementwise = {
    .name = "unfused_elementwise",
    .report = "sequences",
    .share_min = CHAIN_SHARE_MIN,
    .ground = "names and order of the kernels alone show that a chain can be fused",
    .advice = "torch.compile the module, or call a fused kernel (norm, activation, rope) instead",
    .vllm = "omit --enforce-eager: compilation fuses them; --compilation-config custom_ops chooses its own "
            "kernels",
    .sglang = "--enable-torch-compile",
    .evaluate = chains_evaluate,
};
