/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/rules/scene.h"

#include "trace/reports/rules/claims.h"
#include "trace/reports/rules/idle.h"
#include "trace/reports/search.h"
#include "trace/reports/side_by_side.h"
#include <errno.h>

/* -- One rank ----------------------------------------------------------------------------------------- */

/* Of the steps that are left out: only how idle they are and what the host does then. */
static int read_outliers(struct analysis *a, struct scene_rank *rank)
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
static int look_at_rank(void *arg, size_t i)
{
    struct scene *scene = arg;
    struct scene_rank *rank = &scene->ranks[i];
    _cleanup_(intervals_done) struct intervals all = {0};
    int r = read_outliers(scene->analysis, rank);

    if (r >= 0)
        r = idle_read(scene->analysis, rank);
    if (r >= 0)
        r = gpu_work_busy(rank->work, GPU_ALL, &all);
    return r < 0 ? r : intervals_intersect(&all, &rank->scope, &rank->busy);
}

static void rank_done(struct scene_rank *rank)
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

bool scene_has(const struct scene_rank *rank, int64_t ts)
{
    return intervals_find(&rank->scope, ts) != NULL;
}

int scene_name_sums(const struct scene *scene, struct name_sums *ret)
{
    _cleanup_(freep) const struct intervals **scopes = calloc(scene->analysis->n + 1, sizeof(*scopes));

    *ret = (struct name_sums){0};
    if (!scopes)
        return -ENOMEM;
    for (size_t i = 0; i < scene->n; i++)
        scopes[scene->ranks[i].rank] = &scene->ranks[i].scope;
    return name_sums_within(scene->analysis, scopes, ret);
}

int64_t scene_within(const struct scene_rank *rank, const struct intervals *set)
{
    return intervals_common(&rank->scope, set);
}

int scene_exposed(const struct scene_rank *rank, struct intervals *ret)
{
    _cleanup_(intervals_done) struct intervals compute = {0}, all = {0}, communication = {0};
    int r = gpu_work_busy(rank->work, 1 << GPU_COMPUTE, &compute);

    if (r >= 0)
        r = gpu_work_busy(rank->work, 1 << GPU_COMMUNICATION, &all);
    if (r >= 0)
        r = intervals_intersect(&all, &rank->scope, &communication);
    return r < 0 ? r : intervals_subtract(&communication, &compute, ret);
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
        r = scope_read(ret);
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

void scene_done(struct scene *scene)
{
    for (size_t i = 0; scene->ranks && i < scene->n; i++)
        rank_done(&scene->ranks[i]);
    free(scene->ranks);
    encounters_done(&scene->met);
    *scene = (struct scene){0};
}
