/* SPDX-License-Identifier: Apache-2.0 */
/* Which time of each rank findings are of, what the GPU does in it, and what of the recording they leave out.
 */
#include "trace/reports/parallel.h"
#include "trace/reports/report.h"
#include "trace/reports/rules/context.h"
#include "trace/reports/rules/rule.h"
#include <math.h>

/* -- Evaluated ------------------------------------------------------------------------------------------- */

#define EVALUATED_COLUMNS(C)                                                                                 \
    RANK_COLUMN(C)                                                                                           \
    C(recorded_ns, NS, "length of the recording, or of the selected part")                                   \
    C(evaluated_ns, NS, "part of the recording that findings cover")                                         \
    C(start_ns, NS, "start of the evaluated time, relative to the first slice of the rank")                  \
    C(end_ns, NS, "end of the evaluated time, relative to the first slice of the rank")                      \
    C(steps, COUNT, "number of evaluated steps")                                                             \
    C(compute_ns, NS, "evaluated time with a computing kernel")                                              \
    C(communication_ns, NS, "evaluated time with communication and no computing kernel")                     \
    C(copy_ns, NS, "evaluated time with only copies")                                                        \
    C(idle_ns, NS, "evaluated time without GPU activity")                                                    \
    C(before_ns, NS, "time before the first step, or before the first GPU event if there are no steps")      \
    C(after_ns, NS, "time after the last step or GPU event")                                                 \
    C(outliers_ns, NS, "time in steps that take much longer than the others")                                \
    C(edge_ns, NS, "time most likely busy with kernels launched before the recording")
REPORT_ROW(evaluated, EVALUATED_COLUMNS);

static int emit_rank(const struct rule_context *context, const struct rule_rank *rank,
                     struct report_rows *ret)
{
    _cleanup_(intervals_done) struct intervals exposed = {0};
    const struct intervals *compute;
    const struct analysis *a = context->analysis;
    int r = gpu_work_busy(rank->work, 1 << GPU_COMPUTE, &compute);

    if (r >= 0)
        r = rule_context_exposed(rank, &exposed);
    if (r < 0)
        return r;
    int64_t computing = rule_context_within(rank, compute), communicating = intervals_length(&exposed),
            busy = intervals_length(&rank->busy);
    bool is_any = rank->scope.n > 0;
    EMIT_ROW(evaluated, ret, .rank = a->ranks[rank->rank].number, .recorded_ns = rank->recorded,
             .evaluated_ns = rank->length,
             .start_ns =
                 is_any ? analysis_since_first(a, rank->rank, rank->scope.items[0].from) : COLUMN_NULL,
             .end_ns = is_any ? analysis_since_first(a, rank->rank, rank->scope.items[rank->scope.n - 1].to)
                              : COLUMN_NULL,
             .steps = context->is_by_step ? (int64_t)rank->n_steps : COLUMN_NULL, .compute_ns = computing,
             .communication_ns = communicating, .copy_ns = busy - computing - communicating,
             .idle_ns = rank->length - busy, .before_ns = rank->before, .after_ns = rank->after,
             .outliers_ns = intervals_length(&rank->outliers), .edge_ns = rank->edge.to - rank->edge.from);
    return 0;
}

static int evaluated_make(struct analysis *a, struct report_rows *ret)
{
    struct rule_context context;
    int r = rule_context_read(a, &context);

    for (size_t i = 0; i < context.n && r >= 0; i++)
        r = emit_rank(&context, &context.ranks[i], ret);
    rule_context_done(&context);
    return r;
}

const struct report report_evaluated = {
    .name = "evaluated",
    .role = REPORT_EVALUATED,
    .title = "evaluated time of each rank, and the time that findings leave out",
    .method = "From the start of the first step to the end of the last, without outlier steps, if every "
              "rank has at least two steps; otherwise the span of GPU activity. compute + communication + "
              "copy + idle = evaluated.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    REPORT_COLUMNS(evaluated),
    .make = evaluated_make,
};

/* -- Findings -------------------------------------------------------------------------------------------- */

#define FINDINGS_COLUMNS(C)                                                                                  \
    C(rule, TEXT, "rule that produced the finding")                                                          \
    C(severity, TEXT, "severity: high from 20 % of the time, medium from 5 %, low from 1 %, otherwise info") \
    C(cost_ns, NS, "lost time per step, or over the span if there are no steps; empty for statements")       \
    C(share, SHARE, "share of the step or span")                                                             \
    C(what, TEXT, "description of the finding, with figures", .is_prose = true)                              \
    C(where, TEXT, "time, kernel and rank; times as --from and --to take them", .is_prose = true)            \
    C(evidence, TEXT, "evidence for the finding", .is_prose = true)                                          \
    C(advice, TEXT, "suggested remedy", .is_prose = true)                                                    \
    C(confidence, TEXT, "certain: measured in the trace; inferred: concluded from it")                       \
    C(ground, TEXT, "basis of the confidence", .is_prose = true)                                             \
    C(report, TEXT, "report with more detail")                                                               \
    C(options, TEXT, "options of profctl analyze that show more", .is_prose = true)                          \
    C(at_rank, ID, "rank in which the finding is seen best")                                                 \
    C(at_start_ns, NS,                                                                                       \
      "start of the time in which it is seen best, relative to the first slice of the rank")                 \
    C(at_end_ns, NS, "end of that time")                                                                     \
    C(at_slice, ID, "slice number of the event in that time, or of the event that the GPU waits for")        \
    C(compute_ns, NS, "part of the cost in which a kernel computes", IMPORTANCE_EXTRA)                       \
    C(communication_ns, NS, "part of the cost in which communication runs and no kernel computes",           \
      IMPORTANCE_EXTRA)                                                                                      \
    C(copy_ns, NS, "part of the cost in which only copies run", IMPORTANCE_EXTRA)                            \
    C(idle_ns, NS, "part of the cost in which nothing runs on the GPU", IMPORTANCE_EXTRA)
REPORT_ROW(findings, FINDINGS_COLUMNS);

/* Shares of the time looked at from which on a finding is called so. */
#define SEVERITY_HIGH   0.20
#define SEVERITY_MEDIUM 0.05
#define SEVERITY_LOW    0.01

#define ADVICE_MAX      1024

static const char *severity_of(double share)
{
    return share >= SEVERITY_HIGH     ? "high"
           : share >= SEVERITY_MEDIUM ? "medium"
           : share >= SEVERITY_LOW    ? "low"
                                      : "info";
}

static const char *confidence_name(enum confidence confidence)
{
    static const char *const words[] = {
        [CONFIDENCE_CERTAIN] = "certain",
        [CONFIDENCE_INFERRED] = "inferred",
    };

    return words[confidence];
}

/* "mean of 24 steps on 4 ranks" */
static void finding_measure(char *buf, size_t size, const struct rule_context *context)
{
    char ranks[32] = "";

    if (context->n > 1)
        snprintf(ranks, sizeof(ranks), "%zu ranks", context->n);
    if (context->is_by_step)
        snprintf(buf, size, "cost: per step, mean of %lld steps%s%s", (long long)context->units,
                 *ranks ? " on " : "", ranks);
    else
        snprintf(buf, size, "cost: over the entire span%s%s", *ranks ? ", mean of " : "", ranks);
}

/* The confidence in a finding. Adds to the ground how many ranks are missing if the finding is about all ranks. */
static enum confidence finding_confidence(const struct rule_context *context, const struct finding *finding,
                                          char *ground, size_t size)
{
    size_t n = context->analysis->n, world = analysis_world(context->analysis);

    if (!finding->is_of_all_ranks || n < 2 || world == n)
        return finding->confidence;
    finding_append(ground, size, "; %zu of %zu ranks of the job have no trace here", world - n, world);
    return CONFIDENCE_INFERRED;
}

void finding_emit(const struct rule_context *context, const struct rule *rule, const struct finding *finding,
                  struct report_rows *ret)
{
    bool is_cost = finding->cost != COLUMN_NULL, is_any = context->engine == ENGINE_UNKNOWN;
    double share = is_cost ? rule_context_share(context, finding->cost) : NAN;
    char evidence[FINDING_TEXT_MAX + 96], ground[FINDING_TEXT_MAX + 96], advice[ADVICE_MAX], unit[96] = "";
    int64_t means[_TIME_KIND_MAX];

    if (!finding_matters(context, rule, finding))
        return;
    if (is_cost)
        finding_measure(unit, sizeof(unit), context);
    snprintf(evidence, sizeof(evidence), "%s", finding->evidence);
    finding_append(evidence, sizeof(evidence), "%s%s", *evidence && *unit ? "; " : "", unit);
    snprintf(advice, sizeof(advice), "%s", finding->advice ? finding->advice : rule->advice);
    if (!finding->advice && rule->vllm && (is_any || context->engine == ENGINE_VLLM))
        finding_append(advice, sizeof(advice), "; vLLM: %s", rule->vllm);
    if (!finding->advice && rule->sglang && (is_any || context->engine == ENGINE_SGLANG))
        finding_append(advice, sizeof(advice), "; SGLang: %s", rule->sglang);
    snprintf(ground, sizeof(ground), "%s",
             *finding->ground ? finding->ground
             : rule->ground   ? rule->ground
                              : "");
    enum confidence confidence = finding_confidence(context, finding, ground, sizeof(ground));
    const struct finding_place *place = &finding->place;
    const struct analysis *a = context->analysis;
    for (size_t i = 0; i < _TIME_KIND_MAX; i++)
        means[i] = is_cost ? rule_context_mean(context, finding->of[i]) : COLUMN_NULL;
    EMIT_ROW(findings, ret, .rule = row_str(rule->name),
             .severity = row_str(severity_of(is_cost ? share : 0)),
             .cost_ns = is_cost ? rule_context_mean(context, finding->cost) : COLUMN_NULL, .share = share,
             .what = row_str(finding->what), .where = row_str(finding->where), .evidence = row_str(evidence),
             .advice = row_str(advice), .confidence = row_str(confidence_name(confidence)),
             .ground = row_str(ground), .report = row_str(rule->report),
             .options = row_str(*finding->options ? finding->options : rule->options),
             .at_rank = place->is_known ? a->ranks[place->rank].number : COLUMN_NULL,
             .at_start_ns = place->is_known ? analysis_since_first(a, place->rank, place->from) : COLUMN_NULL,
             .at_end_ns = place->is_known ? analysis_since_first(a, place->rank, place->to) : COLUMN_NULL,
             .at_slice = place->is_known && place->slice != SLICE_NONE ? (int64_t)place->slice : COLUMN_NULL,
             .compute_ns = means[TIME_COMPUTE], .communication_ns = means[TIME_COMMUNICATION],
             .copy_ns = means[TIME_COPY], .idle_ns = means[TIME_IDLE]);
}

static const struct rule *const rules[] = {
#define R(name) &rule_##name,
    RULES(R)
#undef R
};

static const struct rule *const last_rules[] = {
#define R(name) &rule_##name,
    LAST_RULES(R)
#undef R
};

struct findings_evaluation {
    struct rule_context context;
    struct report_rows seen[ARRAY_SIZE(rules)]; /* by each rule */
};

static void findings_evaluation_done(struct findings_evaluation *l)
{
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        report_rows_done(&l->seen[i]);
    rule_context_done(&l->context);
}

static int findings_evaluate(void *arg, size_t i)
{
    struct findings_evaluation *l = arg;

    report_rows_init(&l->seen[i], ARRAY_SIZE(findings_columns));
    return rules[i]->evaluate(&l->context, rules[i], &l->seen[i]);
}

/* What findings claim of idle time is left by its cause. */
static void count_claims(struct findings_evaluation *l)
{
    size_t column = report_column_find(&report_findings, "idle_ns");

    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        int64_t *left = &l->context.unclaimed[rules[i]->idle];
        for (size_t row = 0; row < report_rows_count(&l->seen[i]); row++) {
            const struct cell *cell = report_rows_at(&l->seen[i], row, column);
            if (cell->type == CELL_INT)
                *left = MAX(*left - cell->integer * l->context.units, INT64_C(0));
            /* The rests of the worker are its own finding. */
            if (rules[i] == &rule_idle_worker)
                l->context.unclaimed[IDLE_NOTHING] = 0;
        }
    }
}

static int findings_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(findings_evaluation_done) struct findings_evaluation l = {0};
    int r = rule_context_read(a, &l.context);

    if (r >= 0)
        r = parallel_each(ARRAY_SIZE(rules), findings_evaluate, &l);
    for (size_t i = 0; i < ARRAY_SIZE(rules) && r >= 0; i++)
        report_rows_append(ret, &l.seen[i]);
    if (r >= 0)
        count_claims(&l);
    for (size_t i = 0; i < ARRAY_SIZE(last_rules) && r >= 0 && l.context.n > 0; i++)
        r = last_rules[i]->evaluate(&l.context, last_rules[i], ret);
    return r;
}

const struct report report_findings = {
    .name = "findings",
    .role = REPORT_FINDINGS,
    .title = "performance problems, their cost and their remedy",
    .method = "A table of rules, each with a threshold below which it reports nothing; docs/analysis.md "
              "lists them. Findings partition the time: no nanosecond is the cost of two findings.",
    .order = "cost_ns",
    .sort_by = "cost_ns",
    REPORT_COLUMNS(findings),
    .make = findings_make,
};
