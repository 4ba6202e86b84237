/* SPDX-License-Identifier: Apache-2.0 */
/* Which time of each rank findings are of, what the GPU does in it, and what of the recording they leave out.
 */
#include "trace/reports/parallel.h"
#include "trace/reports/report.h"
#include "trace/reports/rules/context.h"
#include "trace/reports/rules/rule.h"
#include <errno.h>

/* -- Evaluated ------------------------------------------------------------------------------------------- */

static const struct report_column evaluated_columns[] = {
    RANK_COLUMN,
    {"recorded_ns", UNIT_NS, "length of the recording, or of the selected part"},
    {"evaluated_ns", UNIT_NS, "part of the recording that findings cover"},
    {"start_ns", UNIT_NS, "start of the evaluated time, relative to the first slice of the rank"},
    {"end_ns", UNIT_NS, "end of the evaluated time, relative to the first slice of the rank"},
    {"steps", UNIT_COUNT, "number of evaluated steps"},
    {"compute_ns", UNIT_NS, "evaluated time with a computing kernel"},
    {"communication_ns", UNIT_NS, "evaluated time with communication and no computing kernel"},
    {"copy_ns", UNIT_NS, "evaluated time with only copies"},
    {"idle_ns", UNIT_NS, "evaluated time without GPU activity"},
    {"before_ns", UNIT_NS, "time before the first step, or before the first GPU event if there are no steps"},
    {"after_ns", UNIT_NS, "time after the last step or GPU event"},
    {"outliers_ns", UNIT_NS, "time in steps that take much longer than the others"},
    {"edge_ns", UNIT_NS, "time most likely busy with kernels launched before the recording"},
};

static int emit_rank(const struct rule_context *context, const struct rule_rank *rank,
                     struct report_rows *ret)
{
    _cleanup_(intervals_done) struct intervals compute = {0}, exposed = {0};
    const struct analysis *a = context->analysis;
    int r = gpu_work_busy(rank->work, 1 << GPU_COMPUTE, &compute);

    if (r >= 0)
        r = rule_context_exposed(rank, &exposed);
    if (r < 0)
        return r;
    int64_t computing = rule_context_within(rank, &compute), communicating = intervals_length(&exposed),
            busy = intervals_length(&rank->busy);
    bool is_any = rank->scope.n > 0;
    emit_int(ret, a->ranks[rank->rank].number);
    emit_int(ret, rank->recorded);
    emit_int(ret, rank->length);
    emit_int(ret, is_any ? analysis_since_first(a, rank->rank, rank->scope.items[0].from) : COLUMN_NULL);
    emit_int(ret, is_any ? analysis_since_first(a, rank->rank, rank->scope.items[rank->scope.n - 1].to)
                         : COLUMN_NULL);
    emit_int(ret, context->is_by_step ? (int64_t)rank->n_steps : COLUMN_NULL);
    emit_int(ret, computing);
    emit_int(ret, communicating);
    emit_int(ret, busy - computing - communicating);
    emit_int(ret, rank->length - busy);
    emit_int(ret, rank->before);
    emit_int(ret, rank->after);
    emit_int(ret, intervals_length(&rank->outliers));
    emit_int(ret, rank->edge.to - rank->edge.from);
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
    .columns = evaluated_columns,
    .n_columns = ARRAY_SIZE(evaluated_columns),
    .make = evaluated_make,
};

/* -- Findings -------------------------------------------------------------------------------------------- */

/* What is wrong, by rules, what costs most first. */

static const struct report_column findings_columns[] = {
    {"rule", UNIT_TEXT, "rule that produced the finding"},
    {"severity", UNIT_TEXT,
     "severity: high from 20 % of the time, medium from 5 %, low from 1 %, otherwise info"},
    {"cost_ns", UNIT_NS, "lost time per step, or over the span if there are no steps; empty for statements"},
    {"share", UNIT_SHARE, "share of the step or span"},
    {"what", UNIT_TEXT, "description of the finding, with figures", .is_prose = true},
    {"where", UNIT_TEXT, "time, kernel and rank; times as --from and --to take them", .is_prose = true},
    {"evidence", UNIT_TEXT, "evidence for the finding", .is_prose = true},
    {"advice", UNIT_TEXT, "suggested remedy", .is_prose = true},
    {"confidence", UNIT_TEXT, "certain: measured in the trace; inferred: concluded from it"},
    {"ground", UNIT_TEXT, "basis of the confidence", .is_prose = true},
    {"report", UNIT_TEXT, "report with more detail"},
#define K(identifier, column, meaning) {column, UNIT_NS, meaning, .importance = IMPORTANCE_EXTRA},
    TIME_KINDS(K)
#undef K
};

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

struct findings_looking {
    struct rule_context context;
    struct report_rows seen[ARRAY_SIZE(rules)]; /* by each rule */
};

static void findings_looking_done(struct findings_looking *l)
{
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        report_rows_done(&l->seen[i]);
    rule_context_done(&l->context);
}

static int findings_look(void *arg, size_t i)
{
    struct findings_looking *l = arg;

    report_rows_init(&l->seen[i], ARRAY_SIZE(findings_columns));
    return rules[i]->evaluate(&l->context, rules[i], &l->seen[i]);
}

/* What findings claim of idle time is left by its cause. */
static void count_claims(struct findings_looking *l)
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
    _cleanup_(findings_looking_done) struct findings_looking l = {0};
    int r = rule_context_read(a, &l.context);

    if (r >= 0)
        r = parallel_each(ARRAY_SIZE(rules), findings_look, &l);
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
    .columns = findings_columns,
    .n_columns = ARRAY_SIZE(findings_columns),
    .make = findings_make,
};
