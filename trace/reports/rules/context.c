/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which time is evaluated: from the first step's beginning to the last one's end, or where ranks have no
 * steps the span of the GPU's work; without steps that take much longer than the others of their phase, for
 * a mean with them is of neither.
 */
#include "trace/reports/rules/context.h"

#include "trace/reports/parallel.h"
#include "trace/reports/rules/idle_causes.h"
#include "trace/reports/search.h"
#include "trace/reports/step_outliers.h"
#include <errno.h>

/* -- Scope ----------------------------------------------------------------------------------------------- */

static bool is_looked_at(struct analysis *a, const struct rule_rank *rank, const struct step *step)
{
    return step->n_events > 0 && analysis_has_step(a, rank->rank, step);
}

static int scope_read_rank(void *arg, size_t rank)
{
    struct rule_context *context = arg;
    struct analysis *a = context->analysis;
    struct rule_rank *ret = &context->ranks[rank];
    int r = analysis_all_gpu(a, ret->rank, &ret->work);

    ret->columns = a->ranks[ret->rank].columns;
    if (r >= 0)
        r = analysis_slices(a, ret->rank, &ret->slices);
    if (r >= 0)
        r = analysis_steps(a, ret->rank, &ret->steps);
    for (size_t i = 0; r >= 0 && i < ret->steps->n; i++)
        ret->n_steps += is_looked_at(a, ret, &ret->steps->items[i]);
    return r;
}

/* -- Outliers ----------------------------------------------------------------------------------------- */

/* *ret: for each step of a rank the median of its phase if it is an outlier, else 0. The caller's. -ENOMEM. */
static int mark_outliers(struct analysis *a, const struct rule_rank *rank, int64_t **ret)
{
    const struct steps *steps = rank->steps;
    _cleanup_(freep) struct timed_step *timed = calloc(steps->n + 1, sizeof(*timed));
    _cleanup_(freep) size_t *positions = calloc(steps->n + 1, sizeof(*positions));
    size_t n = 0;

    *ret = calloc(steps->n + 1, sizeof(**ret));
    if (!timed || !positions || !*ret)
        return -ENOMEM;
    for (size_t i = 0; i < steps->n; i++)
        if (is_looked_at(a, rank, &steps->items[i])) {
            timed[n] =
                (struct timed_step){steps->items[i].phase, steps->items[i].end - steps->items[i].ts, 0};
            positions[n++] = i;
        }
    int r = step_outliers_mark(timed, n);
    for (size_t i = 0; i < n; i++)
        (*ret)[positions[i]] = timed[i].median;
    return r;
}

static bool has_index(const struct steps *steps, const int64_t *marks, int64_t index)
{
    for (size_t i = 0; i < steps->n; i++)
        if (marks[i] > 0 && steps->items[i].index == index)
            return true;
    return false;
}

/* What is left out on one rank is left out on all: ranks wait for each other in it. */
static bool is_outlier_anywhere(const struct rule_context *context, int64_t *const *marks, size_t rank,
                                size_t step)
{
    const struct steps *steps = context->ranks[rank].steps;

    for (size_t k = 0; k < context->n; k++)
        if (k == rank ? marks[k][step] > 0
                      : has_index(context->ranks[k].steps, marks[k], steps->items[step].index))
            return true;
    return false;
}

static int scope_leave_out(struct rule_context *context, size_t k, int64_t *const *marks)
{
    struct rule_rank *rank = &context->ranks[k];
    const struct steps *steps = rank->steps;
    int r = 0;

    for (size_t i = 0; i < steps->n && r >= 0; i++) {
        const struct step *step = &steps->items[i];
        if (!is_looked_at(context->analysis, rank, step) || !is_outlier_anywhere(context, marks, k, i))
            continue;
        r = intervals_add(&rank->outliers, step->ts, step->end);
        rank->n_outliers++;
        if (marks[k][i] == 0)
            continue;
        rank->outliers_longer = add_time(rank->outliers_longer, step->end - step->ts - marks[k][i]);
        if (!context->outlier.step ||
            step->end - step->ts > context->outlier.step->end - context->outlier.step->ts)
            context->outlier = (struct outlier){step, rank, marks[k][i]};
    }
    intervals_unite(&rank->outliers);
    return r;
}

static void keep_all_steps(struct rule_context *context)
{
    for (size_t k = 0; k < context->n; k++) {
        intervals_done(&context->ranks[k].outliers);
        context->ranks[k].outliers = (struct intervals){0};
        context->ranks[k].n_outliers = 0;
        context->ranks[k].outliers_longer = 0;
    }
    context->outlier = (struct outlier){0};
}

/* Whoever asks for one step means it. */
static int scope_find_outliers(struct rule_context *context)
{
    int64_t **marks = calloc(context->n + 1, sizeof(*marks));
    bool is_enough = true;
    int r = marks ? 0 : -ENOMEM;

    for (size_t k = 0; k < context->n && r >= 0; k++)
        r = mark_outliers(context->analysis, &context->ranks[k], &marks[k]);
    for (size_t k = 0; k < context->n && r >= 0; k++) {
        r = scope_leave_out(context, k, marks);
        is_enough = is_enough && context->ranks[k].n_steps - context->ranks[k].n_outliers >= RULE_STEPS_MIN;
    }
    if (!is_enough)
        keep_all_steps(context);
    for (size_t k = 0; k < context->n; k++) {
        context->ranks[k].n_steps -= context->ranks[k].n_outliers;
        if (marks)
            free(marks[k]);
    }
    free(marks);
    return r;
}

/* -- Scope -------------------------------------------------------------------------------------------- */

static bool is_left_out(const struct rule_rank *rank, const struct step *step)
{
    return intervals_find(&rank->outliers, step->ts) != NULL;
}

/* From the first step's beginning to the last one's end; *ret_all: with outliers. */
static struct interval bounds_of_steps(struct analysis *a, const struct rule_rank *rank,
                                       struct interval *ret_all)
{
    struct interval ret = {INT64_MAX, INT64_MIN};

    *ret_all = ret;
    for (size_t i = 0; i < rank->steps->n; i++) {
        const struct step *step = &rank->steps->items[i];
        if (!is_looked_at(a, rank, step))
            continue;
        ret_all->from = MIN(ret_all->from, step->ts);
        ret_all->to = MAX(ret_all->to, step->end);
        if (is_left_out(rank, step))
            continue;
        ret.from = MIN(ret.from, step->ts);
        ret.to = MAX(ret.to, step->end);
    }
    return ret;
}

/* Until the next step begins: what the GPU waits for after a step that is left out is no time of others. */
static int add_left_out(struct analysis *a, const struct rule_rank *rank, struct intervals *ret)
{
    int r = 0;

    for (size_t i = 0; i < rank->steps->n && r >= 0; i++) {
        const struct step *step = &rank->steps->items[i];
        bool is_last = i + 1 == rank->steps->n;
        if (is_looked_at(a, rank, step) && is_left_out(rank, step))
            r = intervals_add(ret, step->ts, is_last ? step->end : rank->steps->items[i + 1].ts);
    }
    intervals_unite(ret);
    return r;
}

static int64_t length_between(const struct intervals *times, int64_t from, int64_t to)
{
    struct interval item = {from, to};

    return from < to ? intervals_common(times, &(struct intervals){.items = &item, .n = 1}) : 0;
}

static int choose_scope(void *arg, size_t i)
{
    _cleanup_(intervals_done) struct intervals bounds = {0}, left_out = {0}, steady = {0};
    struct rule_context *context = arg;
    struct analysis *a = context->analysis;
    struct rule_rank *rank = &context->ranks[i];
    const struct gpu_work *seen;
    const struct intervals *times;
    int64_t first = columns_meta(rank->columns, META_first_ns),
            last = columns_meta(rank->columns, META_last_ns);
    int r = analysis_times(a, rank->rank, &times);

    if (r >= 0)
        r = analysis_gpu(a, rank->rank, &seen);
    if (r < 0)
        return r;
    struct interval all = gpu_work_span(seen),
                    span = context->is_by_step ? bounds_of_steps(a, rank, &all) : all;
    r = intervals_add(&bounds, span.from, span.to);
    if (r >= 0)
        r = add_left_out(a, rank, &left_out);
    if (r >= 0)
        r = intervals_subtract(&bounds, &left_out, &steady);
    if (r >= 0)
        r = intervals_intersect(times, &steady, &rank->scope);
    rank->length = intervals_length(&rank->scope);
    if (first != COLUMN_NULL && last != COLUMN_NULL) {
        rank->recorded = length_between(times, first, last);
        rank->before = length_between(times, first, MIN(all.from, last));
        rank->after = length_between(times, MAX(all.to, first), last);
    }
    return r;
}

/* Fills each rank's steps, its outliers, and its scope without regard to the edge of the recording. -ENOMEM. */
static int scope_read(struct rule_context *context)
{
    int r = parallel_each(context->n, scope_read_rank, context);

    context->is_by_step = context->n > 0;
    for (size_t i = 0; i < context->n; i++)
        context->is_by_step = context->is_by_step && context->ranks[i].n_steps >= RULE_STEPS_MIN;
    if (r >= 0 && context->is_by_step && context->analysis->view.step == COLUMN_NULL)
        r = scope_find_outliers(context);
    return r < 0 ? r : parallel_each(context->n, choose_scope, context);
}

/* -- Context ----------------------------------------------------------------------------------------------- */

/* Of the steps that are left out: only how idle they are and what the host does then. */
static int read_outliers(struct analysis *a, struct rule_rank *rank)
{
    struct intervals scope = rank->scope;
    int64_t length = rank->length;
    int r = 0;

    if (rank->outliers.n == 0)
        return 0;
    rank->scope = (struct intervals){0};
    for (size_t i = 0; i < rank->outliers.n && r >= 0; i++)
        r = intervals_add(&rank->scope, rank->outliers.items[i].from, rank->outliers.items[i].to);
    if (r >= 0)
        r = idle_read(a, rank);
    for (size_t i = 0; i < rank->n_parts; i++)
        rank->outlier_idle[rank->parts[i].class] =
            add_time(rank->outlier_idle[rank->parts[i].class], rank->parts[i].ns);
    intervals_done(&rank->scope);
    gaps_done(&rank->gaps);
    free(rank->parts);
    rank->parts = NULL;
    rank->n_parts = rank->parts_cap = 0;
    rank->edge = (struct interval){0};
    rank->scope = scope;
    rank->length = length;
    return r;
}

/* What is idle in scope, once all ranks agree on what the scope is. */
static int rule_rank_read_idle(void *arg, size_t i)
{
    struct rule_context *context = arg;
    struct rule_rank *rank = &context->ranks[i];
    const struct intervals *all;
    int r = read_outliers(context->analysis, rank);

    if (r >= 0)
        r = idle_read(context->analysis, rank);
    if (r >= 0)
        r = gpu_work_busy(rank->work, GPU_ALL, &all);
    return r < 0 ? r : intervals_intersect(all, &rank->scope, &rank->busy);
}

static void rule_context_rank_done(struct rule_rank *rank)
{
    intervals_done(&rank->scope);
    intervals_done(&rank->busy);
    intervals_done(&rank->outliers);
    gaps_done(&rank->gaps);
    free(rank->parts);
    intervals_done(&rank->waits_for_straggler);
    intervals_done(&rank->waits_for_others);
    intervals_done(&rank->chains);
}

bool rule_context_has(const struct rule_rank *rank, int64_t ts)
{
    return intervals_find(&rank->scope, ts) != NULL;
}

int rule_context_names(const struct rule_context *context, struct aggregated *ret)
{
    _cleanup_(freep) const struct intervals **scopes = calloc(context->analysis->n + 1, sizeof(*scopes));

    *ret = (struct aggregated){0};
    if (!scopes)
        return -ENOMEM;
    for (size_t i = 0; i < context->n; i++)
        scopes[context->ranks[i].rank] = &context->ranks[i].scope;
    return aggregate(context->analysis, &gpu_names, scopes, 0, ret);
}

int64_t rule_context_within(const struct rule_rank *rank, const struct intervals *set)
{
    return intervals_common(&rank->scope, set);
}

int rule_context_exposed(const struct rule_rank *rank, struct intervals *ret)
{
    _cleanup_(intervals_done) struct intervals communication = {0};
    const struct intervals *compute, *all;
    int r = gpu_work_busy(rank->work, 1 << GPU_COMPUTE, &compute);

    if (r >= 0)
        r = gpu_work_busy(rank->work, 1 << GPU_COMMUNICATION, &all);
    if (r >= 0)
        r = intervals_intersect(all, &rank->scope, &communication);
    return r < 0 ? r : intervals_subtract(&communication, compute, ret);
}

const struct step *rule_context_step(const struct rule_rank *rank, int64_t ts)
{
    const struct step *steps = rank->steps->items;
    size_t behind = FIRST_THAT(i, 0, rank->steps->n, steps[i].ts > ts);

    return behind > 0 && ts < steps[behind - 1].end ? &steps[behind - 1] : NULL;
}

/* -- Engine ------------------------------------------------------------------------------------- */

/* Names of functions identify the engine if no step does. */
static enum engine engine_by_names(const struct columns *c)
{
    static const struct {
        const char *part;
        enum engine engine;
    } parts[] = {{"sglang/srt", ENGINE_SGLANG}, {"vllm/v1", ENGINE_VLLM}, {"vllm/worker", ENGINE_VLLM}};

    for (uint64_t row = 0; row < columns_rows(c, TABLE_name); row++) {
        struct text name = columns_text(c, columns_get(c, COL_name_name, row));
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
            if (name.size > 0 && memmem(name.p, name.size, parts[i].part, strlen(parts[i].part)))
                return parts[i].engine;
    }
    return ENGINE_UNKNOWN;
}

static enum engine rule_context_engine_of(const struct rule_rank *rank)
{
    if (rank->steps->n > 0 && rank->steps->items[0].phase == PHASE_TRAINING)
        return ENGINE_TRAINING;
    if (rank->steps->source == STEP_SGLANG)
        return ENGINE_SGLANG;
    enum engine engine = engine_by_names(rank->columns);
    if (engine == ENGINE_UNKNOWN &&
        (rank->steps->source == STEP_VLLM || columns_meta_text(rank->columns, META_engine_version).size > 0))
        engine = ENGINE_VLLM;
    return engine;
}

/* ----------------------------------------------------------------------------------------------------- */

int64_t rule_context_mean(const struct rule_context *context, int64_t sum)
{
    return context->units > 0 ? sum / context->units : 0;
}

double rule_context_share(const struct rule_context *context, int64_t sum)
{
    return context->length > 0 ? (double)sum / (double)context->length : 0;
}

const char *rule_context_unit(const struct rule_context *context)
{
    return context->is_by_step ? " per step" : context->n > 1 ? " per rank" : "";
}

/* The ranks that have work in what is looked at. */
static int gather_ranks(struct analysis *a, struct rule_context *ret)
{
    int r = analysis_read_all(a);

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        const struct gpu_work *seen;
        r = analysis_gpu(a, i, &seen);
        if (r >= 0 && seen->n > 0)
            ret->ranks[ret->n++].rank = i;
    }
    return r;
}

int rule_context_read(struct analysis *a, struct rule_context *ret)
{
    *ret = (struct rule_context){.analysis = a, .ranks = calloc(a->n + 1, sizeof(*ret->ranks))};
    if (!ret->ranks)
        return -ENOMEM;
    int r = gather_ranks(a, ret);
    if (r >= 0)
        r = scope_read(ret);
    if (r >= 0)
        r = parallel_each(ret->n, rule_rank_read_idle, ret);
    for (size_t i = 0; i < ret->n && r >= 0; i++) {
        ret->length = add_time(ret->length, ret->ranks[i].length);
        ret->units += ret->is_by_step ? (int64_t)ret->ranks[i].n_steps : 1;
    }
    if (r >= 0 && ret->n > 0)
        ret->engine = rule_context_engine_of(&ret->ranks[0]);
    if (r >= 0 && ret->n == a->n)
        r = collective_instances_find(a, &ret->collectives);
    if (r >= 0)
        r = waits_read(ret);
    if (r >= 0)
        r = chains_read(ret);
    if (r >= 0)
        r = profiler_read(ret);
    for (size_t i = 0; i < ret->n && r >= 0; i++)
        for (size_t k = 0; k < ret->ranks[i].n_parts; k++) {
            const struct idle_part *part = &ret->ranks[i].parts[k];
            ret->idle[part->cause] = add_time(ret->idle[part->cause], part->ns);
        }
    memcpy(ret->unclaimed, ret->idle, sizeof(ret->idle));
    return r;
}

void rule_context_done(struct rule_context *context)
{
    for (size_t i = 0; context->ranks && i < context->n; i++)
        rule_context_rank_done(&context->ranks[i]);
    free(context->ranks);
    free(context->arrivals);
    collective_instances_done(&context->collectives);
    *context = (struct rule_context){0};
}
