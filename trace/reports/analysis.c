/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/analysis.h"

#include "trace/reports/hta.h"
#include "trace/reports/parallel.h"
#include "trace/reports/rests.h"
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
        intervals_done(&rank->rests);
        slice_table_done(&rank->slices);
        self_times_done(&rank->self_times);
        memset(rank->known, 0, sizeof(rank->known));
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

/* -- Reading, under the lock of what is read --------------------------------------------------------- */

static int read_slices(struct analysis *a, size_t rank)
{
    return slice_table_read(a->ranks[rank].columns, &a->ranks[rank].slices);
}

static int read_all_gpu(struct analysis *a, size_t rank)
{
    struct rank *one = &a->ranks[rank];
    int r = gpu_work_read(one->columns, a->patterns, a->hta, &one->gpu);

    if (r >= 0 && a->hta)
        r = hta_filter_steps(a, rank, &one->gpu);
    if (r < 0)
        gpu_work_done(&one->gpu);
    return r;
}

static int read_steps(struct analysis *a, size_t rank)
{
    const struct gpu_work *work;
    int r = analysis_all_gpu(a, rank, &work);

    return r < 0 ? r : steps_read(a->ranks[rank].columns, work, &a->ranks[rank].steps);
}

static int read_self_times(struct analysis *a, size_t rank)
{
    const struct slice_table *slices;
    const struct gpu_work *work;
    int r = analysis_slices(a, rank, &slices);

    if (r >= 0)
        r = analysis_all_gpu(a, rank, &work);
    return r < 0 ? r : self_times_read(slices, work, &a->ranks[rank].self_times);
}

static int read_rests(struct analysis *a, size_t rank)
{
    const struct slice_table *slices;
    const struct gpu_work *work;
    int r = analysis_slices(a, rank, &slices);

    if (r >= 0)
        r = analysis_all_gpu(a, rank, &work);
    if (r >= 0)
        r = rests_read(a->ranks[rank].columns, slices, work, &a->ranks[rank].rests);
    if (r < 0)
        intervals_done(&a->ranks[rank].rests);
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
    int r = analysis_steps(a, rank, &steps);
    for (size_t i = 0; r >= 0 && i < steps->n; i++)
        if (analysis_has_step(a, rank, &steps->items[i]))
            r = intervals_add(ret, steps->items[i].ts, MIN(steps->items[i].end, bounds.to));
    intervals_unite(ret);
    return r;
}

static int read_times(struct analysis *a, size_t rank)
{
    struct intervals *times = &a->ranks[rank].times;
    int r = choose_times(a, rank, times);

    if (r < 0)
        intervals_done(times);
    return r;
}

static int read_selected(struct analysis *a, size_t rank)
{
    struct gpu_work *selected = &a->ranks[rank].selected;
    const struct gpu_work *all;
    const struct intervals *times;
    int r = analysis_all_gpu(a, rank, &all);

    if (r >= 0)
        r = analysis_times(a, rank, &times);
    if (r >= 0)
        r = gpu_work_init(selected);
    if (r < 0)
        return r;
    for (size_t i = 0; r >= 0 && i < all->n; i++)
        if (intervals_find(times, all->events[i].ts)) {
            struct gpu_event *e = gpu_work_add(selected);
            if (e)
                *e = all->events[i];
            else
                r = -ENOMEM;
        }
    if (r < 0)
        gpu_work_done(selected);
    return r;
}

static int read_host(struct analysis *a, size_t rank, unsigned kinds, struct host_calls *ret)
{
    const struct slice_table *slices;
    const struct gpu_work *work;
    int r = analysis_slices(a, rank, &slices);

    if (r >= 0)
        r = analysis_gpu(a, rank, &work);
    return r < 0 ? r : host_calls_read(a->ranks[rank].columns, slices, kinds, work, ret);
}

static int read_ops(struct analysis *a, size_t rank)
{
    return read_host(a, rank, 1 << HOST_OP | 1 << HOST_ANNOTATION, &a->ranks[rank].ops);
}

static int read_frames(struct analysis *a, size_t rank)
{
    return read_host(a, rank, 1 << HOST_PYTHON, &a->ranks[rank].frames);
}

/* -- Asking ------------------------------------------------------------------------------------------- */

static int analysis_ask(struct analysis *a, size_t rank, enum rank_data which,
                        int (*read)(struct analysis *a, size_t rank))
{
    struct rank *one = &a->ranks[rank];
    int r = 0;

    pthread_mutex_lock(&one->locks[which]);
    if (!one->known[which])
        r = read(a, rank);
    one->known[which] = r >= 0;
    pthread_mutex_unlock(&one->locks[which]);
    return r;
}

#define ASK(name, type, which, member)                                                                       \
    int analysis_##name(struct analysis *a, size_t rank, const struct type **ret)                            \
    {                                                                                                        \
        *ret = &a->ranks[rank].member;                                                                       \
        return analysis_ask(a, rank, which, read_##name);                                                    \
    }

ASK(slices, slice_table, RANK_SLICES, slices)
ASK(all_gpu, gpu_work, RANK_GPU, gpu)
ASK(steps, steps, RANK_STEPS, steps)
ASK(times, intervals, RANK_TIMES, times)
ASK(self_times, self_times, RANK_SELF_TIMES, self_times)
ASK(rests, intervals, RANK_RESTS, rests)
ASK(ops, host_calls, RANK_OPS, ops)
ASK(frames, host_calls, RANK_FRAMES, frames)

int analysis_gpu(struct analysis *a, size_t rank, const struct gpu_work **ret)
{
    if (analysis_is_complete(a))
        return analysis_all_gpu(a, rank, ret);
    *ret = &a->ranks[rank].selected;
    return analysis_ask(a, rank, RANK_SELECTED, read_selected);
}

/* Those of a rank follow each other. */
static int analysis_read_one(void *arg, size_t i)
{
    const struct slice_table *slices;
    const struct gpu_work *work;

    return i % 2 == 0 ? analysis_gpu(arg, i / 2, &work) : analysis_slices(arg, i / 2, &slices);
}

int analysis_read_all(struct analysis *a)
{
    return parallel_each(2 * a->n, analysis_read_one, a);
}

bool analysis_has_gpu(const struct analysis *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (columns_rows(a->ranks[i].columns, TABLE_gpu) > 0)
            return true;
    return false;
}
