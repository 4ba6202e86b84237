/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/step_sample.h"

#include "base/array.h"
#include "trace/reports/step_outliers.h"

#include <errno.h>
#include <math.h>

/* Steps of a rank by their position in its list. */
static int find_blocks(struct analysis *a, size_t rank, const struct steps *steps, uint32_t **ret,
                       size_t *ret_n)
{
    const struct intervals *times;
    uint32_t *blocks = calloc(steps->n + 1, sizeof(*blocks));
    int r = blocks ? analysis_times(a, rank, &times) : -ENOMEM;
    size_t n = 0, at = 0;

    if (r < 0) {
        free(blocks);
        return r;
    }
    for (size_t i = 0; i < steps->n; i++) {
        blocks[i] = intervals_find(times, steps->items[i].ts) ? 0 : STEP_NONE;
        n += blocks[i] != STEP_NONE;
    }
    for (size_t i = 0; i < steps->n; i++)
        if (blocks[i] != STEP_NONE)
            blocks[i] = block_of(at++, n, STEP_BLOCKS);
    *ret = blocks;
    *ret_n = n;
    return 0;
}

int step_blocks_of_rank(struct analysis *a, size_t rank, uint32_t **ret)
{
    const struct steps *steps;
    size_t n;
    int r = analysis_steps(a, rank, &steps);

    return r < 0 ? r : find_blocks(a, rank, steps, ret, &n);
}

/* -- Times of a rank ---------------------------------------------------------------------------------- */

/* GPU activity, by the times that are measured per step; NULL for others. exposed: what becomes one of them. */
static int read_sets(const struct gpu_work *work, struct intervals *exposed,
                     const struct intervals *sets[_STEP_TIME_MAX])
{
    static const struct {
        enum step_time time;
        unsigned kinds;
    } kinds[] = {{STEP_TIME_BUSY, GPU_ALL},
                 {STEP_TIME_COMPUTE, 1u << GPU_COMPUTE},
                 {STEP_TIME_COMMUNICATION, 1u << GPU_COMMUNICATION},
                 {STEP_TIME_MEMORY, 1u << GPU_MEMORY}};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(kinds) && r >= 0; i++)
        r = gpu_work_busy(work, kinds[i].kinds, &sets[kinds[i].time]);
    sets[STEP_TIME_EXPOSED] = exposed;
    return r < 0 ? r : intervals_subtract(sets[STEP_TIME_COMMUNICATION], sets[STEP_TIME_COMPUTE], exposed);
}

static int64_t end_of_window(const struct steps *steps, size_t i)
{
    return i + 1 < steps->n ? MAX(steps->items[i + 1].ts, steps->items[i].ts) : steps->items[i].end;
}

/* Windows are in order, so that each set is walked through about once. */
static void add_covered(const struct intervals *set, const struct steps *steps, const uint32_t *blocks,
                        enum step_time time, struct sampled_step *ret)
{
    size_t at = 0;

    for (size_t i = 0, position = 0; i < steps->n; i++) {
        int64_t from = steps->items[i].ts, to = end_of_window(steps, i);
        if (blocks[i] == STEP_NONE)
            continue;
        while (at < set->n && set->items[at].to <= from)
            at++;
        for (size_t k = at; k < set->n && set->items[k].from < to; k++)
            ret[position].ns[time] += (double)(MIN(set->items[k].to, to) - MAX(set->items[k].from, from));
        position++;
    }
}

/* Adds to the steps of its instance, by position: ranks of an instance take part in the same steps. */
static int step_sample_make_rank(struct analysis *a, size_t rank, size_t first, struct step_sample *ret)
{
    _cleanup_(intervals_done) struct intervals exposed = {0};
    const struct intervals *sets[_STEP_TIME_MAX] = {0};
    _cleanup_(freep) uint32_t *blocks = NULL;
    const struct gpu_work *work;
    const struct steps *steps;
    size_t n = 0, position = first;
    int r = analysis_steps(a, rank, &steps);

    if (r >= 0)
        r = find_blocks(a, rank, steps, &blocks, &n);
    if (r >= 0)
        r = analysis_all_gpu(a, rank, &work);
    if (r >= 0)
        r = read_sets(work, &exposed, sets);
    if (r < 0 || n == 0)
        return r;
    if (!ARRAY_RESERVE(ret->steps, ret->cap, first + n))
        return -ENOMEM;
    while (ret->n < first + n)
        ret->steps[ret->n++] = (struct sampled_step){0};
    for (size_t i = 0; i < steps->n; i++) {
        if (blocks[i] == STEP_NONE)
            continue;
        struct sampled_step *s = &ret->steps[position++];
        s->ns[STEP_TIME_DUR] += (double)(steps->items[i].end - steps->items[i].ts);
        s->ns[STEP_TIME_SPAN] += (double)(end_of_window(steps, i) - steps->items[i].ts);
        s->phase = steps->items[i].phase;
        s->n_ranks++;
        ret->rank_steps[blocks[i]]++;
    }
    for (enum step_time time = STEP_TIME_BUSY; time < _STEP_TIME_MAX; time++)
        if (sets[time])
            add_covered(sets[time], steps, blocks, time, &ret->steps[first]);
    return 0;
}

/* ----------------------------------------------------------------------------------------------------- */

/* Steps without a duration have no GPU activity, and are no measure for others. */
static int find_outliers(struct step_sample *sample, size_t first)
{
    size_t n = 0;
    _cleanup_(freep) struct timed_step *timed = calloc(sample->n - first + 1, sizeof(*timed));
    _cleanup_(freep) size_t *positions = calloc(sample->n - first + 1, sizeof(*positions));

    if (!timed || !positions)
        return -ENOMEM;
    for (size_t i = first; i < sample->n; i++)
        if (sample->steps[i].ns[STEP_TIME_DUR] > 0) {
            timed[n] =
                (struct timed_step){sample->steps[i].phase, llround(sample->steps[i].ns[STEP_TIME_DUR]), 0};
            positions[n++] = i;
        }
    int r = step_outliers_mark(timed, n);
    for (size_t i = 0; i < n; i++)
        if (timed[i].median > 0) {
            sample->steps[positions[i]].is_outlier = true;
            sample->rank_outliers += (double)sample->steps[positions[i]].n_ranks;
            sample->n_outliers++;
        }
    return r;
}

/* Sums over ranks become means, and the steps of an instance get their blocks. -ENOMEM. */
static int finish_instance(struct step_sample *sample, size_t first)
{
    for (size_t i = first; i < sample->n; i++) {
        struct sampled_step *s = &sample->steps[i];
        s->block = block_of(i - first, sample->n - first, STEP_BLOCKS);
        for (size_t time = 0; time < _STEP_TIME_MAX; time++)
            s->ns[time] /= (double)MAX(s->n_ranks, (size_t)1);
        s->ns[STEP_TIME_IDLE] = fmax(0, s->ns[STEP_TIME_SPAN] - s->ns[STEP_TIME_BUSY]);
    }
    return find_outliers(sample, first);
}

int step_sample_read(struct analysis *a, struct step_sample *ret)
{
    size_t n_instances = a->instances ? a->n_instances : 1;
    int r = 0;

    *ret = (struct step_sample){.first = calloc(a->n + 1, sizeof(*ret->first))};
    if (!ret->first)
        return -ENOMEM;
    for (size_t i = 0; i < n_instances && r >= 0; i++) {
        size_t begin = a->instances ? a->instances[i].first : 0, first = ret->n,
               n = a->instances ? a->instances[i].n : a->n;
        for (size_t rank = begin; rank < begin + n && r >= 0; rank++) {
            ret->first[rank] = first;
            r = step_sample_make_rank(a, rank, first, ret);
        }
        if (r >= 0)
            r = finish_instance(ret, first);
    }
    return r;
}

void step_sample_done(struct step_sample *sample)
{
    free(sample->steps);
    free(sample->first);
    *sample = (struct step_sample){0};
}

int step_sample_outliers_of_rank(const struct step_sample *sample, struct analysis *a, size_t rank,
                                 const uint32_t *blocks, bool **ret)
{
    const struct steps *steps;
    int r = analysis_steps(a, rank, &steps);
    size_t position = sample->first[rank];

    if (r < 0)
        return r;
    *ret = calloc(steps->n + 1, sizeof(**ret));
    if (!*ret)
        return -ENOMEM;
    for (size_t i = 0; i < steps->n; i++)
        if (blocks[i] != STEP_NONE)
            (*ret)[i] = sample->steps[position++].is_outlier;
    return 0;
}

double step_sample_mean_without_outliers(const struct step_sample *sample, enum step_time time)
{
    double sum = 0;

    for (size_t i = 0; i < sample->n; i++)
        sum += sample->steps[i].is_outlier ? 0 : sample->steps[i].ns[time];
    return sample->n > sample->n_outliers ? sum / (double)(sample->n - sample->n_outliers) : NAN;
}

int step_sample_estimate(const struct step_sample *sample, enum step_time time, double fraction,
                         struct estimate *ret)
{
    _cleanup_(freep) struct timed_value *values = calloc(sample->n + 1, sizeof(*values));

    *ret = ESTIMATE_UNKNOWN;
    if (!values)
        return -ENOMEM;
    for (size_t i = 0; i < sample->n; i++)
        values[i] = (struct timed_value){sample->steps[i].ns[time], sample->steps[i].block};
    timed_values_sort(values, sample->n);
    *ret = values_as_units(values, sample->n, STEP_BLOCKS, fraction, sample->n);
    return 0;
}
