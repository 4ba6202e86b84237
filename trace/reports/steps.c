/* SPDX-License-Identifier: Apache-2.0 */
/* Steps one by one, those that stand out, and in what they differ from the median step. */
#include "trace/reports/reports.h"
#include "trace/reports/step_cost.h"
#include <math.h>

static const struct report_column columns[] = {
    {"index", UNIT_ID, "its number, as its name has it, else its place"},
    {"name", UNIT_TEXT, "what the engine or profiler calls it", IMPORTANCE_LOW},
    {"phase", UNIT_TEXT, "prefill, decode, mixed or training; empty where unknown", IMPORTANCE_HIGH},
    {"start_ns", UNIT_NS, "when its GPU work begins, counted from the rank's first slice", IMPORTANCE_LOW},
    {"dur_ns", UNIT_NS, "until its last GPU work ends, or the next step's begins", IMPORTANCE_HIGH},
    {"rank", UNIT_ID, "which rank"},
    {"tokens", UNIT_COUNT, "in its name", IMPORTANCE_HIGH},
    {"requests", UNIT_COUNT, "in its name", IMPORTANCE_LOW},
    {"busy_ns", UNIT_NS, "with anything at work on any stream", IMPORTANCE_HIGH},
    {"idle_ns", UNIT_NS, "with nothing at work", IMPORTANCE_HIGH},
    {"kernels", UNIT_COUNT, "kernels, copies and memsets", IMPORTANCE_LOW},
    {"host_start_ns", UNIT_NS, "when its annotation begins, counted likewise", IMPORTANCE_EXTRA},
    {"host_dur_ns", UNIT_NS, "how long its annotation is", IMPORTANCE_LOW},
    {"found_by", UNIT_TEXT, "who named it; period: recurring kernels; graph: launches of graphs",
     IMPORTANCE_EXTRA},
    {"outlier", UNIT_FACTOR,
     "by how many deviations it differs from the median of its phase, where that is much", IMPORTANCE_HIGH},
    {"differs", UNIT_TEXT, "an outlier's: the class of kernels, or idle, that differs most from the median",
     IMPORTANCE_NORMAL},
    {"differs_ns", UNIT_NS, "by how much", IMPORTANCE_NORMAL},
};

static void put_step(struct analysis *a, size_t rank, const struct steps *steps, size_t i,
                     const struct step_costs *costs, struct report_rows *ret)
{
    const struct step *s = &steps->items[i];
    const struct step_cost *cost = &costs->items[i];
    bool is_outlier = cost->differs != STEP_PART_NONE;

    put_int(ret, s->index);
    put_text_or_null(ret, a->ranks[rank].columns, s->name);
    put_str(ret, step_phase_name(s->phase));
    put_int(ret, analysis_since_first(a, rank, s->ts));
    put_int(ret, s->end - s->ts);
    put_int(ret, a->ranks[rank].number);
    put_int(ret, s->tokens);
    put_int(ret, s->requests);
    put_int(ret, cost->busy);
    put_int(ret, cost->parts[STEP_PART_IDLE]);
    put_int(ret, (int64_t)s->n_events);
    put_int(ret, analysis_since_first(a, rank, s->host_ts));
    put_int(ret, s->host_ts == COLUMN_NULL ? COLUMN_NULL : s->host_end - s->host_ts);
    put_str(ret, step_source_name(steps->source));
    put_real(ret, is_outlier ? cost->deviations : NAN);
    put_str(ret, is_outlier ? step_part_name(cost->differs) : NULL);
    put_int(ret, is_outlier ? cost->differs_ns : COLUMN_NULL);
}

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
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
            put_step(a, rank, steps, i, &costs, ret);
    return r;
}

const struct report report_steps = {
    .name = "steps",
    .title = "steps: phase, tokens, time, and what the odd ones differ in",
    .how = "By the names that vLLM, SGLang, ATOM, TensorRT-LLM, RTP-LLM, xDiT, Lightning or torch's profiler "
           "give to steps; else by kernels that recur, where the host gets something of each time; else by "
           "launches of graphs. Work belongs to the step in which the host launched it. Outliers are those "
           "far from the median of their phase, by the median absolute deviation.",
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make_rank = add_rank,
};
