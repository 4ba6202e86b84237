/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/rules/scene.h"

#include "trace/reports/rules/idle.h"
#include "trace/reports/search.h"
#include "trace/reports/side_by_side.h"
#include <errno.h>

static const char *const whats[_IDLE_CAUSE_MAX] = {
#define C(identifier, what) [IDLE_##identifier] = what,
    IDLE_CAUSES(C)
#undef C
};

const char *idle_cause_what(enum idle_cause cause)
{
    return whats[cause];
}

/* -- One rank ----------------------------------------------------------------------------------------- */

static int read_rank(void *arg, size_t place)
{
    struct scene *scene = arg;
    struct analysis *a = scene->analysis;
    struct scene_rank *ret = &scene->ranks[place];
    size_t rank = ret->rank;
    int r = analysis_all_gpu(a, rank, &ret->work);

    ret->columns = a->ranks[rank].columns;
    if (r >= 0)
        r = analysis_steps(a, rank, &ret->steps);
    for (size_t i = 0; r >= 0 && i < ret->steps->n; i++)
        ret->n_steps +=
            analysis_has_step(a, rank, &ret->steps->items[i]) && ret->steps->items[i].n_events > 0;
    return r;
}

/* From the first step's beginning to the last one's end. */
static struct interval bounds_of_steps(struct analysis *a, const struct scene_rank *rank)
{
    struct interval ret = {INT64_MAX, INT64_MIN};

    for (size_t i = 0; i < rank->steps->n; i++) {
        const struct step *step = &rank->steps->items[i];
        if (!analysis_has_step(a, rank->rank, step) || step->n_events == 0)
            continue;
        ret.from = MIN(ret.from, step->ts);
        ret.to = MAX(ret.to, step->end);
    }
    return ret;
}

static int choose_scope(struct analysis *a, struct scene_rank *rank, bool by_step)
{
    _cleanup_(intervals_done) struct intervals all = {0}, bounds = {0};
    const struct gpu_work *seen;
    const struct intervals *times;
    int r = analysis_times(a, rank->rank, &times);

    if (r >= 0)
        r = analysis_gpu(a, rank->rank, &seen);
    if (r < 0)
        return r;
    struct interval span = by_step ? bounds_of_steps(a, rank) : gpu_work_span(seen);
    r = intervals_add(&bounds, span.from, span.to);
    if (r >= 0)
        r = intervals_intersect(times, &bounds, &rank->scope);
    if (r >= 0)
        r = gpu_work_busy(rank->work, GPU_ALL, &all);
    if (r >= 0)
        r = intervals_intersect(&all, &rank->scope, &rank->busy);
    rank->length = intervals_length(&rank->scope);
    return r;
}

/* What is idle within it, once all ranks agree on what the scope is. */
static int look_at_rank(void *arg, size_t i)
{
    struct scene *scene = arg;
    int r = choose_scope(scene->analysis, &scene->ranks[i], scene->is_by_step);

    return r < 0 ? r : idle_read(scene->analysis, &scene->ranks[i]);
}

static void rank_done(struct scene_rank *rank)
{
    intervals_done(&rank->scope);
    intervals_done(&rank->busy);
    gaps_done(&rank->gaps);
    free(rank->causes);
}

bool scene_has(const struct scene_rank *rank, int64_t ts)
{
    return intervals_find(&rank->scope, ts) != NULL;
}

int64_t scene_within(const struct scene_rank *rank, const struct intervals *set)
{
    return intervals_common(&rank->scope, set);
}

const struct step *scene_step(const struct scene_rank *rank, int64_t ts)
{
    const struct step *steps = rank->steps->items;
    size_t behind = FIRST_THAT(i, 0, rank->steps->n, steps[i].ts > ts);

    return behind > 0 && ts < steps[behind - 1].end ? &steps[behind - 1] : NULL;
}

/* -- Who wrote it ------------------------------------------------------------------------------------- */

/* Names of functions tell where no step does. */
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

static enum engine engine_of(const struct scene_rank *rank)
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

int64_t scene_mean(const struct scene *scene, int64_t sum)
{
    return scene->units > 0 ? sum / scene->units : 0;
}

double scene_share(const struct scene *scene, int64_t sum)
{
    return scene->length > 0 ? (double)sum / (double)scene->length : 0;
}

/* The ranks that have work in what is looked at. */
static int gather_ranks(struct analysis *a, struct scene *ret)
{
    int r = analysis_read_gpu(a);

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        const struct gpu_work *seen;
        r = analysis_gpu(a, i, &seen);
        if (r >= 0 && seen->n > 0)
            ret->ranks[ret->n++].rank = i;
    }
    return r;
}

int scene_read(struct analysis *a, struct scene *ret)
{
    *ret = (struct scene){.analysis = a, .ranks = calloc(a->n + 1, sizeof(*ret->ranks))};
    if (!ret->ranks)
        return -ENOMEM;
    int r = gather_ranks(a, ret);
    if (r >= 0)
        r = side_by_side(ret->n, read_rank, ret);
    ret->is_by_step = ret->n > 0;
    for (size_t i = 0; i < ret->n; i++)
        ret->is_by_step = ret->is_by_step && ret->ranks[i].n_steps >= SCENE_STEPS_MIN;
    if (r >= 0)
        r = side_by_side(ret->n, look_at_rank, ret);
    for (size_t i = 0; i < ret->n && r >= 0; i++) {
        ret->length = add_time(ret->length, ret->ranks[i].length);
        ret->units += ret->is_by_step ? (int64_t)ret->ranks[i].n_steps : 1;
    }
    if (r >= 0 && ret->n > 0)
        ret->engine = engine_of(&ret->ranks[0]);
    if (r >= 0 && ret->n == a->n)
        r = encounters_find(a, &ret->met);
    return r;
}

void scene_done(struct scene *scene)
{
    for (size_t i = 0; scene->ranks && i < scene->n; i++)
        rank_done(&scene->ranks[i]);
    free(scene->ranks);
    encounters_done(&scene->met);
    *scene = (struct scene){0};
}
