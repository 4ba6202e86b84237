/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in which the GPU waits for one launch after the other, with and without graphs. */
#include "trace/reports/rules/rule.h"

#include <errno.h>

/* Every eager program waits for some launches; a tenth of the time is more than a faster kernel would give.
 */
#define LAUNCH_SHARE_MIN 0.10
/* In decode a graph removes all of it, so less is worth it. */
#define GRAPH_SHARE_MIN 0.05
/* Fewer waits in a step are single stalls, not a host that cannot keep up. */
#define WAITS_MIN 16

struct launching_waiting {
    int64_t sum;
    size_t n;
    int64_t from, to; /* of the step that waits most, or where there are none of the longest wait */
    int64_t most;
    const struct rule_rank *rank;
};

static bool is_graph(const struct columns *c, int64_t name)
{
    struct text text = columns_text(c, name);

    return text.size > 0 && memmem(text.p, text.size, "GraphLaunch", 11) != NULL;
}

/* Of each step: whether less than half of its work came from graphs. The caller frees; NULL without memory.
 */
static bool *find_eager(const struct rule_rank *rank)
{
    const struct steps *steps = rank->steps;
    int64_t *balance = calloc(steps->n + 1, sizeof(*balance));
    bool *eager = calloc(steps->n + 1, sizeof(*eager)), graph = false;
    int64_t last = COLUMN_NULL;

    for (size_t i = 0; balance && steps->owners && i < rank->work->n; i++) {
        const struct gpu_event *e = &rank->work->events[i];
        if (steps->owners[i] == STEP_NONE || gpu_event_launch(e) == SLICE_NONE || e->class == CLASS_MEMORY)
            continue;
        int64_t name = slice_name(rank->slices, gpu_event_launch(e));
        if (name != last)
            graph = is_graph(rank->columns, name);
        last = name;
        balance[steps->owners[i]] += graph ? -1 : 1;
    }
    for (size_t i = 0; balance && eager && i < steps->n; i++)
        eager[i] = balance[i] > 0;
    if (!balance) {
        free(eager);
        eager = NULL;
    }
    free(balance);
    return eager;
}

static void launching_add(struct launching_waiting *w, const struct rule_rank *rank, const struct step *step,
                          const struct gap *gap, int64_t ns, int64_t *of_step)
{
    w->sum = add_time(w->sum, ns);
    w->n++;
    *of_step = step ? add_time(*of_step, ns) : ns;
    if (*of_step <= w->most)
        return;
    w->most = *of_step;
    w->rank = rank;
    w->from = step ? step->ts : gap->from;
    w->to = step ? step->end : gap->to;
}

/* eager_decode: of decode steps without graphs, else of all others. */
static int launching_sum_up(const struct rule_context *context, bool eager_decode,
                            struct launching_waiting *ret)
{
    for (size_t k = 0; k < context->n; k++) {
        const struct rule_rank *rank = &context->ranks[k];
        _cleanup_(freep) bool *eager = find_eager(rank);
        const struct step *last = NULL;
        int64_t of_step = 0;
        if (!eager)
            return -ENOMEM;
        for (size_t i = 0, next; i < rank->n_parts; i = next) {
            const struct gap *gap = &rank->gaps.items[rank->parts[i].gap];
            int64_t ns = 0;
            for (next = i; next < rank->n_parts && rank->parts[next].gap == rank->parts[i].gap; next++)
                if (rank->parts[next].cause == IDLE_LAUNCH)
                    ns = add_time(ns, rank->parts[next].ns);
            if (ns == 0)
                continue;
            const struct step *step = rule_context_step(rank, gap->from);
            bool is_eager_decode = step && step->phase == PHASE_DECODE && eager[step - rank->steps->items];
            if (is_eager_decode != eager_decode)
                continue;
            if (step != last)
                of_step = 0;
            last = step;
            launching_add(ret, rank, step, gap, ns, &of_step);
        }
    }
    return 0;
}

static int launching_evaluate(const struct rule_context *context, const struct rule *rule,
                              struct report_rows *ret)
{
    bool eager_decode = rule->of;
    struct launching_waiting w = {0};
    struct finding f = {.confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX], location[LOCATION_MAX];
    int r = launching_sum_up(context, eager_decode, &w);

    if (r < 0 || !w.rank || w.n < WAITS_MIN * (size_t)context->units)
        return r;
    f.cost = f.of[TIME_IDLE] = w.sum;
    snprintf(f.what, sizeof(f.what), "%s: the GPU was idle %s %s, %zu times%s", rule->seen,
             finding_figures(figures, context, w.sum), rule->waits, w.n / (size_t)context->units,
             context->is_by_step ? " per step" : "");
    finding_set_place(&f, w.rank, w.from, w.to, SLICE_NONE);
    snprintf(f.where, sizeof(f.where), "worst window: %s", finding_location(location, context, &f));
    snprintf(
        f.evidence, sizeof(f.evidence),
        "the call that launched the next kernel returned only when the GPU was idle; waits of up to 1 ms, %s",
        eager_decode ? "in decode steps with less than half of their kernels from graphs"
                     : "within steps, or in the entire trace if there are none");
    finding_emit(context, rule, &f, ret);
    return 0;
}

const struct rule rule_missing_graph = {
    .name = "missing_graph",
    .report = "graphs",
    .share_min = GRAPH_SHARE_MIN,
    .idle = IDLE_LAUNCH,
    .ground = "the call that launched the next kernel returned only when the GPU was idle",
    .seen = "Launch-bound decode without CUDA graphs",
    .waits = "waiting for kernel launches",
    .advice = "capture the decode step as a graph for the batch sizes that occur",
    .vllm = "omit --enforce-eager; --compilation-config '{\"cudagraph_mode\":\"FULL_AND_PIECEWISE\"}', and "
            "cudagraph_capture_sizes up to the batch that runs",
    .sglang = "omit --disable-cuda-graph; --cuda-graph-max-bs at least the batch that runs",
    .of = true, /* decode steps without graphs */
    .evaluate = launching_evaluate,
};

const struct rule rule_launch_bound = {
    .name = "launch_bound",
    .report = "launch_bound",
    .share_min = LAUNCH_SHARE_MIN,
    .idle = IDLE_LAUNCH,
    .ground = "the call that launched the next kernel returned only when the GPU was idle",
    .seen = "Launch-bound",
    .waits = "waiting for kernel launches",
    .advice = "fewer and larger kernels (torch.compile, fused kernels, larger batches), or graphs",
    .vllm = "omit --enforce-eager, --compilation-config cudagraph_mode",
    .sglang = "omit --disable-cuda-graph, --enable-torch-compile for small batches",
    .evaluate = launching_evaluate,
};
