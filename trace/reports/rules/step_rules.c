/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that take much longer than the others: warm-up, or a stall. All other findings are of the rest. */
#include "base/statistics.h"
#include "base/units.h"
#include "trace/reports/rules/rule.h"
#include <errno.h>

/* -- Step outlier ---------------------------------------------------------------------------------------- */

/* Of the steps with the outliers. */
#define OUTLIER_SHARE_MIN 0.01

/* A step that is a measure for others, to look at instead. */
static const struct step *steady_step(const struct rule_context *context)
{
    const struct rule_rank *rank = context->outlier.rank;

    for (size_t i = 0; i < rank->steps->n; i++) {
        const struct step *step = &rank->steps->items[i];
        if (step->n_events > 0 && step->phase == context->outlier.step->phase &&
            rule_context_has(rank, step->ts))
            return step;
    }
    return NULL;
}

static int step_outlier_evaluate(const struct rule_context *context, const struct rule *rule,
                                 struct report_rows *ret)
{
    const struct outlier *o = &context->outlier;
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    struct rule_context all = *context;
    char dur[UNIT_TEXT_MAX], median[UNIT_TEXT_MAX], idle_text[UNIT_TEXT_MAX], location[LOCATION_MAX],
        more[64] = "";
    int64_t idle = 0, classes[_HOST_CLASS_MAX] = {0};
    size_t n = 0, most = 0;

    if (!o->step)
        return 0;
    for (size_t i = 0; i < context->n; i++) {
        const struct rule_rank *rank = &context->ranks[i];
        f.cost = add_time(f.cost, rank->outliers_longer);
        all.length = add_time(all.length, intervals_length(&rank->outliers));
        all.units += (int64_t)rank->n_outliers;
        n = MAX(n, rank->n_outliers);
        for (size_t k = 0; k < _HOST_CLASS_MAX; k++) {
            classes[k] = add_time(classes[k], rank->outlier_idle[k]);
            idle = add_time(idle, rank->outlier_idle[k]);
        }
    }
    for (size_t k = 1; k < _HOST_CLASS_MAX; k++)
        if (classes[k] > classes[most])
            most = k;
    if (n > 1)
        snprintf(more, sizeof(more), ", the longest of %zu such steps,", n);
    const struct step *steady = steady_step(context);
    snprintf(f.options, sizeof(f.options), "analyze it with --step %lld", (long long)o->step->index);
    if (steady)
        finding_append(f.options, sizeof(f.options), ", a steady step with --step %lld",
                       (long long)steady->index);
    int64_t took = o->step->end - o->step->ts;
    snprintf(f.what, sizeof(f.what),
             "Outlier: step %lld%s took %s, %.1f times the median of %s; findings cover the other %zu steps",
             (long long)o->step->index, more, format_duration(dur, took), (double)took / (double)o->median,
             format_duration(median, o->median), o->rank->n_steps);
    finding_set_place(&f, o->rank, o->step->ts, o->step->end, SLICE_NONE);
    snprintf(f.where, sizeof(f.where), "%s", finding_location(location, context, &f));
    int used = snprintf(f.evidence, sizeof(f.evidence),
                        "excluded: %zu of %zu steps%s; the GPU is idle in them for %s", n,
                        n + o->rank->n_steps, context->n > 1 ? " of each rank" : "",
                        format_duration(idle_text, idle / (int64_t)(context->n * n)));
    if (idle > 0)
        snprintf(f.evidence + used, sizeof(f.evidence) - (size_t)used,
                 " each, %.0f %% of that with the host in %s", 100.0 * (double)classes[most] / (double)idle,
                 host_class_name((enum host_class)most));
    finding_emit(&all, rule, &f, ret);
    return 0;
}

const struct rule rule_step_outlier = {
    .name = "step_outlier",
    .report = "steps",
    .share_min = OUTLIER_SHARE_MIN,
    .ground = "times of the GPU activity of steps. An outlier takes more than twice the median of its phase "
              "and exceeds it by more than 3.5 standard deviations, estimated by the median absolute "
              "deviation. The cost is the sum of what the outliers take beyond that median, divided by the "
              "number of all steps; the share is the same sum divided by the time from the first to the last "
              "step, outliers included",
    .advice = "send warm-up requests, or run warm-up steps, before recording",
    .evaluate = step_outlier_evaluate,
};

/* -- Prefill steals decode ------------------------------------------------------------------------------- */

/* Requests that generate wait while others are prefilled: in steps between theirs, or in the same step. */

/* Some of it is how continuous batching works; beyond a tenth users see tokens stall. */
#define STEAL_SHARE_MIN 0.10
/* Fewer decode steps do not show how long one is by itself. */
#define DECODE_MIN 3

struct stolen {
    int64_t sum, longest;
    size_t prefills, mixed, decodes;
    struct interval at;
    const struct rule_rank *rank;
    struct text name;
};

static int median_decode(const struct rule_rank *rank, struct stolen *ret, int64_t *ret_median)
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

static void prefill_steals_decode_count(const struct rule_rank *rank, const struct step *step, int64_t cost,
                                        struct stolen *ret)
{
    if (cost <= 0 || !rule_context_has(rank, step->ts))
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
static int prefill_steals_decode_make_rank(const struct rule_rank *rank, struct stolen *ret)
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
            prefill_steals_decode_count(rank, step, dur, ret);
        else if (step->phase == PHASE_MIXED)
            prefill_steals_decode_count(rank, step, dur - median, ret);
    }
    return 0;
}

static int prefill_steals_decode_evaluate(const struct rule_context *context, const struct rule *rule,
                                          struct report_rows *ret)
{
    struct stolen s = {0};
    struct finding f = {.confidence = CONFIDENCE_INFERRED};
    char figures[FIGURES_MAX], location[LOCATION_MAX], longest[UNIT_TEXT_MAX], name[NAME_MAX_SHOWN + 1];
    int r = 0;

    for (size_t i = 0; i < context->n && r >= 0; i++)
        r = prefill_steals_decode_make_rank(&context->ranks[i], &s);
    if (r < 0 || s.sum == 0)
        return r;
    f.cost = s.sum;
    snprintf(f.what, sizeof(f.what), "Prefill delays decode: %s, longest stall %s",
             finding_figures(figures, context, s.sum), format_duration(longest, s.longest));
    finding_set_place(&f, s.rank, s.at.from, s.at.to, SLICE_NONE);
    snprintf(f.where, sizeof(f.where), "longest: %s, %s", finding_location(location, context, &f),
             finding_text(name, s.name));
    snprintf(f.evidence, sizeof(f.evidence),
             "%zu prefill steps between decode steps, and %zu mixed steps longer than the median of %zu "
             "decode-only steps",
             s.prefills, s.mixed, s.decodes);
    finding_emit(context, rule, &f, ret);
    return 0;
}

const struct rule rule_prefill_steals_decode = {
    .name = "prefill_steals_decode",
    .report = "steps",
    .share_min = STEAL_SHARE_MIN,
    .ground = "assumes that a mixed step exceeds the median decode step because of its prefill alone",
    .advice = "prefill in smaller chunks, or on other workers (disaggregated prefill)",
    .vllm =
        "a smaller --max-num-batched-tokens, --long-prefill-token-threshold; --kv-transfer-config for other "
        "workers",
    .sglang =
        "a smaller --chunked-prefill-size, --enable-mixed-chunk; --disaggregation-mode prefill and decode",
    .evaluate = prefill_steals_decode_evaluate,
};

/* -- Not evaluated --------------------------------------------------------------------------------------- */

/* What findings are not of: the edges of the recording. Statements, which cost nothing. */

/* Less of the recording is not worth a word. */
#define UNEVALUATED_SHARE_MIN 0.02

static int evaluate_edge(const struct rule_context *context, const struct rule *rule, struct report_rows *ret)
{
    const struct rule_rank *rank = NULL;
    struct finding f = {.cost = COLUMN_NULL, .confidence = CONFIDENCE_INFERRED};
    char dur[UNIT_TEXT_MAX], location[LOCATION_MAX], who[48] = "", name[NAME_MAX_SHOWN + 1];
    size_t n = 0;

    for (size_t i = 0; i < context->n; i++) {
        const struct rule_rank *other = &context->ranks[i];
        int64_t length = other->edge.to - other->edge.from;
        n += length > 0;
        if (length > 0 && (!rank || length > rank->edge.to - rank->edge.from))
            rank = other;
    }
    if (!rank)
        return 0;
    if (context->n > 1)
        snprintf(who, sizeof(who), "%zu of %zu GPUs were", n, context->n);
    snprintf(f.what, sizeof(f.what),
             "%s most likely busy with kernels launched before the recording: %s%s at its start without "
             "recorded activity, not evaluated",
             context->n > 1 ? who : "The GPU was", n > 1 ? "up to " : "",
             format_duration(dur, rank->edge.to - rank->edge.from));
    finding_set_place(&f, rank, rank->edge.from, rank->edge.to, rank->edge_wait);
    snprintf(f.where, sizeof(f.where), "%s", finding_location(location, context, &f));
    if (rank->edge_wait != SLICE_NONE)
        snprintf(f.evidence, sizeof(f.evidence), "the host is in %s, which waits for the GPU",
                 finding_name(name, columns_text(rank->columns, columns_get(rank->columns, COL_slice_name,
                                                                            rank->edge_wait))));
    else
        snprintf(f.evidence, sizeof(f.evidence), "launched GPU events do not start");
    finding_emit(context, rule, &f, ret);
    return 0;
}

const struct rule rule_recording_edge = {
    .name = "recording_edge",
    .report = "gap_list",
    .ground = "the host waits for the GPU while no recorded event runs; no earlier call had waited for all "
              "GPU events, and a profiler records only events that are launched during the recording",
    .advice = "record longer, or start recording while the GPU is idle",
    .evaluate = evaluate_edge,
};

/* "3.2 ms before the first step" */
static void add_amount(char *buf, size_t size, int64_t ns, size_t n, const char *what)
{
    char dur[UNIT_TEXT_MAX];

    if (ns > 0)
        finding_append(buf, size, "%s%s %s", *buf ? ", " : "", format_duration(dur, ns / (int64_t)n), what);
}

static int evaluate_rest(const struct rule_context *context, const struct rule *rule, struct report_rows *ret)
{
    struct finding f = {.cost = COLUMN_NULL, .confidence = CONFIDENCE_CERTAIN};
    int64_t before = 0, after = 0, outliers = 0, edge = 0, recorded = 0;
    char amounts[FINDING_TEXT_MAX / 2] = "", all[UNIT_TEXT_MAX];

    for (size_t i = 0; i < context->n; i++) {
        const struct rule_rank *rank = &context->ranks[i];
        before = add_time(before, rank->before);
        after = add_time(after, rank->after);
        outliers = add_time(outliers, intervals_length(&rank->outliers));
        edge = add_time(edge, rank->edge.to - rank->edge.from);
        recorded = add_time(recorded, rank->recorded);
    }
    int64_t sum = add_time(add_time(before, after), add_time(outliers, edge));
    if (recorded <= 0 || (double)sum < UNEVALUATED_SHARE_MIN * (double)recorded)
        return 0;
    const char *work = context->is_by_step ? "step" : "GPU activity";
    char first[48], last[48];
    snprintf(first, sizeof(first), "before the first %s", work);
    snprintf(last, sizeof(last), "after the last %s", work);
    add_amount(amounts, sizeof(amounts), before, context->n, first);
    add_amount(amounts, sizeof(amounts), after, context->n, last);
    add_amount(amounts, sizeof(amounts), outliers, context->n, "in steps that are outliers");
    add_amount(amounts, sizeof(amounts), edge, context->n,
               "at the start, most likely busy with earlier kernels");
    snprintf(f.what, sizeof(f.what), "Not evaluated: %s, of %s recorded%s", amounts,
             format_duration(all, recorded / (int64_t)context->n),
             context->n > 1 ? " (mean of all ranks)" : "");
    snprintf(f.where, sizeof(f.where), "the report evaluated lists the times of each rank");
    snprintf(f.evidence, sizeof(f.evidence), "%.0f %% of the recording, or of its selected part",
             100.0 * (double)sum / (double)recorded);
    finding_emit(context, rule, &f, ret);
    return 0;
}

const struct rule rule_not_evaluated = {
    .name = "not_evaluated",
    .report = "evaluated",
    .ground = "times of steps, of GPU events, and of the first and last recorded event",
    .advice = "analyze that time alone",
    .options = "select it with --from and --to",
    .evaluate = evaluate_rest,
};
