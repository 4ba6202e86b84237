/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which time is evaluated: from the first step's beginning to the last one's end, or where ranks have no
 * steps the span of the GPU's work; without steps that take much longer than the others of their phase, for
 * a mean with them is of neither.
 */
#include "base/statistics.h"
#include "trace/reports/rules/scene.h"
#include "trace/reports/side_by_side.h"

#include <errno.h>

/* A step is an outlier if it takes more than this multiple of the median of its phase, and is further from it
 * than this multiple of the usual distance. Fewer steps have no median. */
#define OUTLIER_RATIO    2
#define OUTLIER_MADS     5
#define OUTLIER_STEPS    3
#define MAD_TO_DEVIATION 1.4826
/* Steps that are more frequent than one in this number are no outliers but another kind of step. */
#define OUTLIER_PART 3

/* Whose length follows what there is to prefill is compared with nothing. */
static bool is_comparable(const struct step *step)
{
    return step->phase != PHASE_PREFILL && step->phase != PHASE_MIXED;
}

static bool is_looked_at(struct analysis *a, const struct scene_rank *rank, const struct step *step)
{
    return step->n_events > 0 && analysis_has_step(a, rank->rank, step);
}

static int read_rank(void *arg, size_t place)
{
    struct scene *scene = arg;
    struct analysis *a = scene->analysis;
    struct scene_rank *ret = &scene->ranks[place];
    int r = analysis_all_gpu(a, ret->rank, &ret->work);

    ret->columns = a->ranks[ret->rank].columns;
    if (r >= 0)
        r = analysis_steps(a, ret->rank, &ret->steps);
    for (size_t i = 0; r >= 0 && i < ret->steps->n; i++)
        ret->n_steps += is_looked_at(a, ret, &ret->steps->items[i]);
    return r;
}

/* -- Outliers ----------------------------------------------------------------------------------------- */

/* Of one phase of a rank; marks[i] becomes the median for each step that is an outlier. -ENOMEM. */
static int mark_outliers(struct analysis *a, const struct scene_rank *rank, enum step_phase phase,
                         int64_t *marks)
{
    const struct steps *steps = rank->steps;
    _cleanup_(freep) int64_t *durs = calloc(steps->n + 1, sizeof(*durs));
    size_t n = 0, marked = 0;

    if (!durs)
        return -ENOMEM;
    for (size_t i = 0; i < steps->n; i++)
        if (steps->items[i].phase == phase && is_looked_at(a, rank, &steps->items[i]))
            durs[n++] = steps->items[i].end - steps->items[i].ts;
    if (n < OUTLIER_STEPS)
        return 0;
    sort_ns(durs, n);
    int64_t median = percentile(durs, n, 50);
    for (size_t i = 0; i < n; i++)
        durs[i] = durs[i] > median ? durs[i] - median : median - durs[i];
    sort_ns(durs, n);
    double usual = MAD_TO_DEVIATION * (double)percentile(durs, n, 50);
    for (size_t i = 0; i < steps->n; i++) {
        const struct step *step = &steps->items[i];
        int64_t dur = step->end - step->ts;
        if (step->phase != phase || !is_looked_at(a, rank, step) || dur / OUTLIER_RATIO <= median ||
            (double)(dur - median) <= OUTLIER_MADS * usual)
            continue;
        marks[i] = MAX(median, INT64_C(1));
        marked++;
    }
    for (size_t i = 0; i < steps->n && marked > n / OUTLIER_PART; i++)
        if (steps->items[i].phase == phase)
            marks[i] = 0;
    return 0;
}

static bool has_index(const struct steps *steps, const int64_t *marks, int64_t index)
{
    for (size_t i = 0; i < steps->n; i++)
        if (marks[i] > 0 && steps->items[i].index == index)
            return true;
    return false;
}

/* What is left out on one rank is left out on all: ranks wait for each other in it. */
static bool is_outlier_anywhere(const struct scene *scene, int64_t *const *marks, size_t rank, size_t step)
{
    const struct steps *steps = scene->ranks[rank].steps;

    for (size_t k = 0; k < scene->n; k++)
        if (k == rank ? marks[k][step] > 0
                      : has_index(scene->ranks[k].steps, marks[k], steps->items[step].index))
            return true;
    return false;
}

static int leave_out(struct scene *scene, size_t k, int64_t *const *marks)
{
    struct scene_rank *rank = &scene->ranks[k];
    const struct steps *steps = rank->steps;
    int r = 0;

    for (size_t i = 0; i < steps->n && r >= 0; i++) {
        const struct step *step = &steps->items[i];
        if (!is_looked_at(scene->analysis, rank, step) || !is_outlier_anywhere(scene, marks, k, i))
            continue;
        r = intervals_add(&rank->outliers, step->ts, step->end);
        rank->n_outliers++;
        if (marks[k][i] == 0)
            continue;
        rank->outliers_longer = add_time(rank->outliers_longer, step->end - step->ts - marks[k][i]);
        if (!scene->outlier.step || step->end - step->ts > scene->outlier.step->end - scene->outlier.step->ts)
            scene->outlier = (struct outlier){step, rank, marks[k][i]};
    }
    intervals_unite(&rank->outliers);
    return r;
}

static void keep_all_steps(struct scene *scene)
{
    for (size_t k = 0; k < scene->n; k++) {
        intervals_done(&scene->ranks[k].outliers);
        scene->ranks[k].outliers = (struct intervals){0};
        scene->ranks[k].n_outliers = 0;
        scene->ranks[k].outliers_longer = 0;
    }
    scene->outlier = (struct outlier){0};
}

/* Whoever asks for one step means it. */
static int find_outliers(struct scene *scene)
{
    int64_t **marks = calloc(scene->n + 1, sizeof(*marks));
    bool is_enough = true;
    int r = marks ? 0 : -ENOMEM;

    for (size_t k = 0; k < scene->n && r >= 0; k++) {
        marks[k] = calloc(scene->ranks[k].steps->n + 1, sizeof(*marks[k]));
        r = marks[k] ? 0 : -ENOMEM;
        for (int phase = 0; phase < _STEP_PHASE_MAX && r >= 0; phase++)
            if (is_comparable(&(struct step){.phase = (enum step_phase)phase}))
                r = mark_outliers(scene->analysis, &scene->ranks[k], (enum step_phase)phase, marks[k]);
    }
    for (size_t k = 0; k < scene->n && r >= 0; k++) {
        r = leave_out(scene, k, marks);
        is_enough = is_enough && scene->ranks[k].n_steps - scene->ranks[k].n_outliers >= SCENE_STEPS_MIN;
    }
    if (!is_enough)
        keep_all_steps(scene);
    for (size_t k = 0; k < scene->n; k++) {
        scene->ranks[k].n_steps -= scene->ranks[k].n_outliers;
        if (marks)
            free(marks[k]);
    }
    free(marks);
    return r;
}

/* -- Scope -------------------------------------------------------------------------------------------- */

static bool is_left_out(const struct scene_rank *rank, const struct step *step)
{
    return intervals_find(&rank->outliers, step->ts) != NULL;
}

/* From the first step's beginning to the last one's end; *ret_all: with outliers. */
static struct interval bounds_of_steps(struct analysis *a, const struct scene_rank *rank,
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
static int add_left_out(struct analysis *a, const struct scene_rank *rank, struct intervals *ret)
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
    struct scene *scene = arg;
    struct analysis *a = scene->analysis;
    struct scene_rank *rank = &scene->ranks[i];
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
                    span = scene->is_by_step ? bounds_of_steps(a, rank, &all) : all;
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

int scope_read(struct scene *scene)
{
    int r = side_by_side(scene->n, read_rank, scene);

    scene->is_by_step = scene->n > 0;
    for (size_t i = 0; i < scene->n; i++)
        scene->is_by_step = scene->is_by_step && scene->ranks[i].n_steps >= SCENE_STEPS_MIN;
    if (r >= 0 && scene->is_by_step && scene->analysis->view.step == COLUMN_NULL)
        r = find_outliers(scene);
    return r < 0 ? r : side_by_side(scene->n, choose_scope, scene);
}
