/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/steps.h"

#include "base/statistics.h"
#include "trace/reports/report.h"
#include <errno.h>
#include <math.h>

/* -- Step cost ------------------------------------------------------------------------------------------- */

const char *step_part_name(enum step_part part)
{
    return part == STEP_PART_IDLE ? "idle" : kernel_class_name((enum kernel_class)part);
}

/* Steps are in order and do not overlap, so that each interval of busy is walked through about once. */
static void step_cost_sum_busy(const struct intervals *busy, const struct steps *steps,
                               struct step_costs *ret)
{
    size_t at = 0;

    for (size_t i = 0; i < steps->n; i++) {
        const struct step *s = &steps->items[i];
        while (at < busy->n && busy->items[at].to <= s->ts)
            at++;
        for (size_t k = at; k < busy->n && busy->items[k].from < s->end; k++)
            ret->items[i].busy += MIN(busy->items[k].to, s->end) - MAX(busy->items[k].from, s->ts);
        ret->items[i].parts[STEP_PART_IDLE] = s->end - s->ts - ret->items[i].busy;
    }
}

/* Steps that are compared with each other; values holds one number of each. */
struct step_cost_group {
    const struct steps *steps;
    struct step_costs *costs;
    const size_t *members;
    size_t n;
    int64_t *values;
};

static int64_t step_cost_duration(const struct step_cost_group *g, size_t member)
{
    const struct step *s = &g->steps->items[g->members[member]];
    return s->end - s->ts;
}

static int64_t median_part(const struct step_cost_group *g, enum step_part part)
{
    for (size_t i = 0; i < g->n; i++)
        g->values[i] = g->costs->items[g->members[i]].parts[part];
    sort_ns(g->values, g->n);
    return percentile(g->values, g->n, 50);
}

/* The part that went with the outlier's difference most. */
static void step_cost_explain(const int64_t medians[_STEP_PART_MAX], bool is_longer, struct step_cost *cost)
{
    for (enum step_part part = 0; part < _STEP_PART_MAX; part++) {
        int64_t by = cost->parts[part] - medians[part];
        if (cost->differs == STEP_PART_NONE || (is_longer ? by > cost->differs_ns : by < cost->differs_ns)) {
            cost->differs = part;
            cost->differs_ns = by;
        }
    }
}

static void step_cost_find_outliers(const struct step_cost_group *g)
{
    int64_t medians[_STEP_PART_MAX];

    for (size_t i = 0; i < g->n; i++)
        g->values[i] = step_cost_duration(g, i);
    sort_ns(g->values, g->n);
    struct spread usual = spread_of(g->values, g->n);
    for (enum step_part part = 0; part < _STEP_PART_MAX; part++)
        medians[part] = median_part(g, part);
    for (size_t i = 0; i < g->n; i++) {
        int64_t dur = step_cost_duration(g, i);
        struct step_cost *cost = &g->costs->items[g->members[i]];
        if (!is_outlier(&usual, dur, (int64_t)(STEP_OUTLIER_PART * (double)usual.median)))
            continue;
        cost->deviations = spread_distance(&usual, dur);
        step_cost_explain(medians, dur > usual.median, cost);
    }
}

static int find_all_outliers(const struct steps *steps, struct step_costs *costs)
{
    _cleanup_(freep) size_t *members = calloc(steps->n + 1, sizeof(*members));
    _cleanup_(freep) int64_t *values = calloc(steps->n + 1, sizeof(*values));

    if (!members || !values)
        return -ENOMEM;
    for (enum step_phase phase = 0; phase < _STEP_PHASE_MAX; phase++) {
        struct step_cost_group g = {steps, costs, members, 0, values};
        for (size_t i = 0; i < steps->n; i++)
            if (steps->items[i].phase == phase && steps->items[i].end > steps->items[i].ts)
                members[g.n++] = i;
        step_cost_find_outliers(&g);
    }
    return 0;
}

int step_costs_read(const struct gpu_work *work, const struct steps *steps, struct step_costs *ret)
{
    const struct intervals *busy;
    int r = gpu_work_busy(work, GPU_ALL, &busy);

    *ret = (struct step_costs){.items = calloc(steps->n + 1, sizeof(*ret->items)), .n = steps->n};
    if (r < 0 || !ret->items)
        return -ENOMEM;
    for (size_t i = 0; i < steps->n; i++)
        ret->items[i].differs = STEP_PART_NONE;
    for (size_t i = 0; i < work->n; i++)
        if (steps->owners[i] != STEP_NONE)
            ret->items[steps->owners[i]].parts[work->events[i].class] +=
                work->events[i].end - work->events[i].ts;
    step_cost_sum_busy(busy, steps, ret);
    return find_all_outliers(steps, ret);
}

void step_costs_done(struct step_costs *costs)
{
    free(costs->items);
    *costs = (struct step_costs){0};
}

/* -- Steps ----------------------------------------------------------------------------------------------- */

#define STEPS_COLUMNS(C)                                                                                     \
    C(index, ID, "step number, from its name or its position")                                               \
    C(name, TEXT, "name given by the engine or profiler", IMPORTANCE_LOW)                                    \
    C(phase, TEXT, "phase: prefill, decode, mixed or training; empty if unknown", IMPORTANCE_HIGH)           \
    C(start_ns, NS, "start of its GPU activity, relative to the first slice of the rank", IMPORTANCE_LOW)    \
    C(dur_ns, NS, "time to the end of its last GPU event, or to the start of the next step",                 \
      IMPORTANCE_HIGH)                                                                                       \
    RANK_COLUMN(C)                                                                                           \
    C(tokens, COUNT, "number of tokens, from its name", IMPORTANCE_HIGH)                                     \
    C(requests, COUNT, "number of requests, from its name", IMPORTANCE_LOW)                                  \
    C(busy_ns, NS, "time with activity on any stream", IMPORTANCE_HIGH)                                      \
    C(idle_ns, NS, "time without GPU activity", IMPORTANCE_HIGH)                                             \
    C(kernels, COUNT, "number of kernels, copies and memsets", IMPORTANCE_LOW)                               \
    C(host_start_ns, NS, "start of its annotation, relative to the first slice of the rank",                 \
      IMPORTANCE_EXTRA)                                                                                      \
    C(host_dur_ns, NS, "duration of its annotation", IMPORTANCE_LOW)                                         \
    C(found_by, TEXT,                                                                                        \
      "source of the step: the engine or profiler that named it; period: recurring kernels; graph: graph "   \
      "launches",                                                                                            \
      IMPORTANCE_EXTRA)                                                                                      \
    C(outlier, FACTOR, "number of deviations from the median of its phase, for outliers", IMPORTANCE_HIGH)   \
    C(differs, TEXT, "kernel category, or idle, that differs most from the median, for outliers")            \
    C(differs_ns, NS, "difference of that category from its median")
REPORT_ROW(steps, STEPS_COLUMNS);

static void emit_step(struct analysis *a, size_t rank, const struct steps *steps, size_t i,
                      const struct step_costs *costs, struct report_rows *ret)
{
    const struct step *s = &steps->items[i];
    const struct step_cost *cost = &costs->items[i];
    bool is_outlier = cost->differs != STEP_PART_NONE;

    EMIT_ROW(steps, ret, .index = s->index, .name = row_text(a->ranks[rank].columns, s->name),
             .phase = row_str(step_phase_name(s->phase)), .start_ns = analysis_since_first(a, rank, s->ts),
             .dur_ns = s->end - s->ts, .rank = a->ranks[rank].number, .tokens = s->tokens,
             .requests = s->requests, .busy_ns = cost->busy, .idle_ns = cost->parts[STEP_PART_IDLE],
             .kernels = (int64_t)s->n_events, .host_start_ns = analysis_since_first(a, rank, s->host_ts),
             .host_dur_ns = s->host_ts == COLUMN_NULL ? COLUMN_NULL : s->host_end - s->host_ts,
             .found_by = row_str(step_source_name(steps->source)),
             .outlier = is_outlier ? cost->deviations : NAN,
             .differs = row_str(is_outlier ? step_part_name(cost->differs) : NULL),
             .differs_ns = is_outlier ? cost->differs_ns : COLUMN_NULL);
}

static int steps_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(step_costs_done) struct step_costs costs = {0};
    const struct gpu_work *work;
    const struct steps *steps = NULL;
    int r = analysis_all_gpu(a, rank, &work);

    if (r >= 0)
        r = analysis_steps(a, rank, &steps);
    if (r >= 0)
        r = step_costs_read(work, steps, &costs);
    for (size_t i = 0; r >= 0 && i < steps->n; i++)
        if (analysis_has_step(a, rank, &steps->items[i]))
            emit_step(a, rank, steps, i, &costs, ret);
    return r;
}

const struct report report_steps = {
    .name = "steps",
    .overview = {.position = 3, .of_many = true, .rows = 8},
    .title = "steps: phase, tokens, time, and the causes of outliers",
    .method = "By the names that vLLM, SGLang, ATOM, TensorRT-LLM, RTP-LLM, xDiT, Lightning or the profiler"
              " of torch give to steps; otherwise by recurring kernels, if the host receives a result each "
              "time; otherwise by graph launches. GPU events belong to the step in which the host launched "
              "them. Outliers are far from the median of their phase, measured by the median absolute "
              "deviation.",
    REPORT_COLUMNS(steps),
    .make_rank = steps_make_rank,
};
