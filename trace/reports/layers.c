/* SPDX-License-Identifier: Apache-2.0 */
/* What recurs within a step: the layers of a model, also those that one graph launch runs. */
#include "trace/reports/period.h"
#include "trace/reports/report.h"
#include "trace/reports/step.h"
#include "trace/reports/steps.h"
#include <errno.h>
#include <math.h>

/* What recurs less often is hardly a layer. */
#define LAYERS_MIN 3

#define LAYERS_COLUMNS(C)                                                                                    \
    RANK_COLUMN(C)                                                                                           \
    C(step, ID, "step number; empty if the trace has no known steps")                                        \
    C(layer, ID, "position among the similar layers of the step, from 0")                                    \
    C(start_ns, NS, "start of its GPU activity, relative to the first slice of the rank")                    \
    C(dur_ns, NS, "time to the end of its last GPU event, or to the start of the next layer")                \
    C(busy_ns, NS, "time with activity on any stream")                                                       \
    C(idle_ns, NS, "time without GPU activity")                                                              \
    C(kernels, COUNT, "number of kernels, copies and memsets")                                               \
    C(outlier, FACTOR, "number of deviations from the median, for outliers")                                 \
    C(differs, TEXT, "kernel category, or idle, that differs most from the median, for outliers")            \
    C(differs_ns, NS, "difference of that category from its median")
REPORT_ROW(layers, LAYERS_COLUMNS);

/* Layers of one rank, as steps: index is the layer's, tokens the position of its step, COLUMN_NULL without. */
struct layers_finding {
    const struct columns *c;
    const struct gpu_work *work;
    struct steps layers;
    uint32_t *names; /* of the work, below n_names */
    uint32_t n_names;
    size_t *members;   /* positions of the work, by steps */
    size_t *first;     /* of each step its part of the members, and where the last one's ends */
    uint32_t *numbers; /* for the names of one step, numbered anew */
    uint32_t *anew;    /* of each name: that number + 1; 0 between steps */
};

static void layers_finding_done(struct layers_finding *f)
{
    steps_done(&f->layers);
    free(f->names);
    free(f->members);
    free(f->first);
    free(f->numbers);
    free(f->anew);
}

static int layers_prepare(struct layers_finding *f, const struct steps *steps)
{
    size_t n = f->work->n;

    f->n_names = columns_texts(f->c) + 1;
    f->names = calloc(n + 1, sizeof(*f->names));
    f->members = calloc(n + 1, sizeof(*f->members));
    f->first = calloc(steps->n + 2, sizeof(*f->first));
    f->numbers = calloc(n + 1, sizeof(*f->numbers));
    f->anew = calloc((size_t)f->n_names + 1, sizeof(*f->anew));
    f->layers = (struct steps){.owners = malloc((n + 1) * sizeof(*f->layers.owners))};
    if (!f->names || !f->members || !f->first || !f->numbers || !f->anew || !f->layers.owners)
        return -ENOMEM;
    memset(f->layers.owners, 0xff, (n + 1) * sizeof(*f->layers.owners)); /* STEP_NONE */
    for (size_t i = 0; i < n; i++) {
        int64_t name = f->work->events[i].name;
        f->names[i] = name >= 0 && name < f->n_names ? (uint32_t)name : f->n_names - 1;
    }
    /* One further on, so that filling moves each to where its step begins. */
    for (size_t i = 0; i < n; i++)
        if (steps->owners[i] != STEP_NONE && steps->owners[i] + 2 < steps->n + 2)
            f->first[steps->owners[i] + 2]++;
    for (size_t i = 2; i < steps->n + 2; i++)
        f->first[i] += f->first[i - 1];
    for (size_t i = 0; i < n; i++)
        if (steps->owners[i] != STEP_NONE)
            f->members[f->first[steps->owners[i] + 1]++] = i;
    for (size_t i = 0; i < n && steps->n == 0; i++)
        f->members[i] = i;
    return 0;
}

static int add_layer(struct layers_finding *f, const size_t *members, size_t n, const struct step *like)
{
    struct step *layer = steps_add(&f->layers);

    if (!layer)
        return -ENOMEM;
    layer->index = like->index;
    layer->tokens = like->tokens;
    layer->phase = like->phase;
    layer->n_events = n;
    for (size_t i = 0; i < n; i++) {
        const struct gpu_event *e = &f->work->events[members[i]];
        f->layers.owners[members[i]] = (uint32_t)f->layers.n - 1;
        layer->ts = i == 0 ? e->ts : layer->ts;
        layer->end = i == 0 ? e->end : MAX(layer->end, e->end);
    }
    if (f->layers.n > 1) {
        struct step *last = layer - 1;
        layer->ts = MAX(layer->ts, last->ts);
        layer->end = MAX(layer->end, layer->ts);
        last->end = MIN(last->end, layer->ts);
    }
    return 0;
}

/* Sets the numbers; returns how many names there are. A step has few of a trace's: what is done for each step
 * must not grow with those of all. */
static uint32_t number_anew(struct layers_finding *f, const size_t *members, size_t n)
{
    uint32_t n_names = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t *number = &f->anew[f->names[members[i]]];
        if (*number == 0)
            *number = ++n_names;
        f->numbers[i] = *number - 1;
    }
    for (size_t i = 0; i < n; i++)
        f->anew[f->names[members[i]]] = 0;
    return n_names;
}

/* step: SIZE_MAX for all of the work. */
static int find_layers(struct layers_finding *f, const struct steps *steps, size_t step)
{
    _cleanup_(period_done) struct period p = {0};
    bool is_all = step == SIZE_MAX;
    const size_t *members = is_all ? f->members : &f->members[f->first[step]];
    size_t n = is_all ? f->work->n : f->first[step + 1] - f->first[step];
    struct step like = {.tokens = is_all ? COLUMN_NULL : (int64_t)step,
                        .phase = is_all ? PHASE_UNKNOWN : steps->items[step].phase};

    int r = period_find(f->numbers, NULL, n, number_anew(f, members, n), PERIOD_FULLEST, &p);
    if (p.n < LAYERS_MIN)
        return r;
    for (size_t i = 0; i < p.n && r >= 0; i++) {
        like.index = (int64_t)i;
        r = add_layer(f, members + p.starts[i], (i + 1 < p.n ? p.starts[i + 1] : p.until) - p.starts[i],
                      &like);
    }
    return r;
}

static void emit_layer(const struct analysis *a, size_t rank, const struct steps *steps,
                       const struct step *layer, const struct step_cost *cost, struct report_rows *ret)
{
    bool is_outlier = cost->differs != STEP_PART_NONE;

    EMIT_ROW(layers, ret, .rank = a->ranks[rank].number,
             .step = layer->tokens == COLUMN_NULL ? COLUMN_NULL : steps->items[layer->tokens].index,
             .layer = layer->index, .start_ns = analysis_since_first(a, rank, layer->ts),
             .dur_ns = layer->end - layer->ts, .busy_ns = cost->busy, .idle_ns = cost->parts[STEP_PART_IDLE],
             .kernels = (int64_t)layer->n_events, .outlier = is_outlier ? cost->deviations : NAN,
             .differs = row_str(is_outlier ? step_part_name(cost->differs) : NULL),
             .differs_ns = is_outlier ? cost->differs_ns : COLUMN_NULL);
}

static int layers_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(layers_finding_done) struct layers_finding f = {.c = a->ranks[rank].columns};
    _cleanup_(step_costs_done) struct step_costs costs = {0};
    const struct steps *steps = NULL;
    int r = analysis_all_gpu(a, rank, &f.work);

    if (r >= 0)
        r = analysis_steps(a, rank, &steps);
    if (r >= 0)
        r = layers_prepare(&f, steps);
    if (r >= 0 && steps->n == 0)
        r = find_layers(&f, steps, SIZE_MAX);
    for (size_t i = 0; r >= 0 && i < steps->n; i++)
        if (analysis_has_step(a, rank, &steps->items[i]))
            r = find_layers(&f, steps, i);
    if (r >= 0)
        r = step_costs_read(f.work, &f.layers, &costs);
    for (size_t i = 0; r >= 0 && i < f.layers.n; i++)
        emit_layer(a, rank, steps, &f.layers.items[i], &costs.items[i], ret);
    return r;
}

const struct report report_layers = {
    .name = "layers",
    .title = "recurring parts of steps: layers, one by one",
    .method = "The longest run of similar parts of the GPU activity of a step: at least three kernel names "
              "occur once in each part. Events before the first and after the last part (embedding, head, "
              "layers of another kind) belong to none. Outliers as in steps.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    REPORT_COLUMNS(layers),
    .make_rank = layers_make_rank,
};
