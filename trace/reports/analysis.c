/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/analysis.h"

#include "trace/reports/hta.h"
#include "trace/reports/parallel.h"
#include <errno.h>

void analysis_done(struct analysis *a)
{
    for (size_t i = 0; i < a->n; i++) {
        struct rank *rank = &a->ranks[i];
        gpu_work_done(&rank->gpu);
        gpu_work_done(&rank->selected);
        host_calls_done(&rank->ops);
        host_calls_done(&rank->frames);
        steps_done(&rank->steps);
        intervals_done(&rank->times);
        slice_table_done(&rank->slices);
        self_times_done(&rank->self_times);
        rank->known = 0;
    }
}

struct analysis analysis_of_instance(const struct analysis *a, size_t instance)
{
    const struct engine_instance *one = &a->instances[instance];

    return (struct analysis){.ranks = a->ranks + one->first,
                             .n = one->n,
                             .instances = one,
                             .n_instances = 1,
                             .view = a->view,
                             .patterns = a->patterns,
                             .hta = a->hta};
}

size_t analysis_world(const struct analysis *a)
{
    size_t world = a->n;

    for (size_t i = 0; i < a->n && a->n_instances <= 1; i++) {
        int64_t size = columns_meta(a->ranks[i].columns, META_world_size);
        if (size <= ANALYSIS_WORLD_MAX && size > (int64_t)world)
            world = (size_t)size;
    }
    return world;
}

/* -- Reading, under the rank's lock ------------------------------------------------------------------- */

static int read_all_gpu(struct analysis *a, size_t rank, const struct gpu_work **ret)
{
    struct rank *one = &a->ranks[rank];
    int r = 0;

    if (!(one->known & RANK_GPU)) {
        r = gpu_work_read(one->columns, a->patterns, a->hta, &one->gpu);
        if (r >= 0 && a->hta)
            r = hta_filter_steps(a, rank, &one->gpu);
        if (r >= 0)
            one->known |= RANK_GPU;
        else
            gpu_work_done(&one->gpu);
    }
    *ret = &one->gpu;
    return r;
}

static int read_steps(struct analysis *a, size_t rank, const struct steps **ret)
{
    struct rank *one = &a->ranks[rank];
    const struct gpu_work *work;
    int r = 0;

    if (!(one->known & RANK_STEPS)) {
        r = read_all_gpu(a, rank, &work);
        if (r >= 0)
            r = steps_read(one->columns, work, &one->steps);
        if (r >= 0)
            one->known |= RANK_STEPS;
    }
    *ret = &one->steps;
    return r;
}

static int read_slices(struct analysis *a, size_t rank, const struct slice_table **ret)
{
    struct rank *one = &a->ranks[rank];
    int r = 0;

    if (!(one->known & RANK_SLICES)) {
        r = slice_table_read(one->columns, &one->slices);
        if (r >= 0)
            one->known |= RANK_SLICES;
    }
    *ret = &one->slices;
    return r;
}

static int read_self_times(struct analysis *a, size_t rank, const struct self_times **ret)
{
    struct rank *one = &a->ranks[rank];
    const struct gpu_work *work;
    const struct slice_table *slices;
    int r = 0;

    if (!(one->known & RANK_SELF_TIMES)) {
        r = read_all_gpu(a, rank, &work);
        if (r >= 0)
            r = read_slices(a, rank, &slices);
        if (r >= 0)
            r = self_times_read(slices, work, &one->self_times);
        if (r >= 0)
            one->known |= RANK_SELF_TIMES;
    }
    *ret = &one->self_times;
    return r;
}

/* -- The view ----------------------------------------------------------------------------------------- */

bool analysis_is_complete(const struct analysis *a)
{
    const struct analysis_view *v = &a->view;

    return v->from == INT64_MIN && v->to == INT64_MAX && v->step == COLUMN_NULL && !v->phase;
}

static int64_t analysis_moved(int64_t bound, int64_t by)
{
    int64_t sum;

    if (bound == INT64_MIN || bound == INT64_MAX)
        return bound;
    return __builtin_add_overflow(bound, by, &sum) ? (by > 0 ? INT64_MAX : INT64_MIN) : sum;
}

int64_t analysis_since_first(const struct analysis *a, size_t rank, int64_t ts)
{
    int64_t first = columns_meta(a->ranks[rank].columns, META_first_ns), since;

    if (ts == COLUMN_NULL || first == COLUMN_NULL || __builtin_sub_overflow(ts, first, &since))
        return COLUMN_NULL;
    return since;
}

static struct interval bounds_of(const struct analysis *a, size_t rank)
{
    int64_t first = columns_meta(a->ranks[rank].columns, META_first_ns),
            zero = first == COLUMN_NULL ? 0 : first;

    return (struct interval){analysis_moved(a->view.from, zero), analysis_moved(a->view.to, zero)};
}

bool analysis_has_step(struct analysis *a, size_t rank, const struct step *step)
{
    const struct analysis_view *v = &a->view;
    struct interval bounds = bounds_of(a, rank);

    return (v->step == COLUMN_NULL || step->index == v->step) &&
           (!v->phase || strcmp(step_phase_name(step->phase), v->phase) == 0) && step->ts >= bounds.from &&
           step->ts < bounds.to;
}

static int choose_times(struct analysis *a, size_t rank, struct intervals *ret)
{
    struct interval bounds = bounds_of(a, rank);
    const struct steps *steps;

    if (a->view.step == COLUMN_NULL && !a->view.phase)
        return intervals_add(ret, bounds.from, bounds.to);
    int r = read_steps(a, rank, &steps);
    for (size_t i = 0; r >= 0 && i < steps->n; i++)
        if (analysis_has_step(a, rank, &steps->items[i]))
            r = intervals_add(ret, steps->items[i].ts, MIN(steps->items[i].end, bounds.to));
    intervals_unite(ret);
    return r;
}

static int read_times(struct analysis *a, size_t rank, const struct intervals **ret)
{
    struct rank *one = &a->ranks[rank];
    int r = 0;

    if (!(one->known & RANK_TIMES)) {
        r = choose_times(a, rank, &one->times);
        if (r >= 0)
            one->known |= RANK_TIMES;
        else
            intervals_done(&one->times);
    }
    *ret = &one->times;
    return r;
}

static int read_gpu(struct analysis *a, size_t rank, const struct gpu_work **ret)
{
    struct rank *one = &a->ranks[rank];
    const struct gpu_work *all;
    const struct intervals *times;
    int r = read_all_gpu(a, rank, &all);

    *ret = analysis_is_complete(a) ? all : &one->selected;
    if (r < 0 || *ret == all || one->known & RANK_SELECTED)
        return r;
    r = read_times(a, rank, &times);
    for (size_t i = 0; i < all->n && r >= 0; i++)
        if (intervals_find(times, all->events[i].ts)) {
            struct gpu_event *e = gpu_work_add(&one->selected);
            if (e)
                *e = all->events[i];
            else
                r = -ENOMEM;
        }
    if (r >= 0)
        one->known |= RANK_SELECTED;
    else
        gpu_work_done(&one->selected);
    return r;
}

static int read_host(struct analysis *a, size_t rank, unsigned kinds, enum rank_data which,
                     struct host_calls *host, const struct host_calls **ret)
{
    const struct gpu_work *work;
    const struct slice_table *slices;
    int r = 0;

    if (!(a->ranks[rank].known & which)) {
        r = read_gpu(a, rank, &work);
        if (r >= 0)
            r = read_slices(a, rank, &slices);
        if (r >= 0)
            r = host_calls_read(a->ranks[rank].columns, slices, kinds, work, host);
        if (r >= 0)
            a->ranks[rank].known |= which;
    }
    *ret = host;
    return r;
}

static int read_ops(struct analysis *a, size_t rank, const struct host_calls **ret)
{
    return read_host(a, rank, 1 << HOST_OP | 1 << HOST_ANNOTATION, RANK_OPS, &a->ranks[rank].ops, ret);
}

static int read_frames(struct analysis *a, size_t rank, const struct host_calls **ret)
{
    return read_host(a, rank, 1 << HOST_PYTHON, RANK_FRAMES, &a->ranks[rank].frames, ret);
}

/* -- Asking ------------------------------------------------------------------------------------------- */

#define ASK(name, type)                                                                                      \
    int analysis_##name(struct analysis *a, size_t rank, const struct type **ret)                            \
    {                                                                                                        \
        pthread_mutex_lock(&a->ranks[rank].lock);                                                            \
        int r = read_##name(a, rank, ret);                                                                   \
        pthread_mutex_unlock(&a->ranks[rank].lock);                                                          \
        return r;                                                                                            \
    }

ASK(all_gpu, gpu_work)
ASK(gpu, gpu_work)
ASK(steps, steps)
ASK(slices, slice_table)
ASK(self_times, self_times)
ASK(times, intervals)
ASK(ops, host_calls)
ASK(frames, host_calls)

static int analysis_read_rank(void *arg, size_t rank)
{
    const struct gpu_work *work;

    return analysis_gpu(arg, rank, &work);
}

int analysis_read_gpu(struct analysis *a)
{
    return parallel_each(a->n, analysis_read_rank, a);
}

bool analysis_has_call(const struct intervals *times, const struct host_call *call)
{
    return intervals_find(times, call->ts) != NULL;
}

bool analysis_has_gpu(const struct analysis *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (columns_rows(a->ranks[i].columns, TABLE_gpu) > 0)
            return true;
    return false;
}
