/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/analysis.h"

#include "trace/reports/hta.h"
#include "trace/reports/parallel.h"
#include <errno.h>

void analysis_done(struct analysis *a)
{
    for (size_t i = 0; i < a->n; i++) {
        struct rank *rank = &a->ranks[i];
        if (rank->gpu)
            gpu_work_done(rank->gpu);
        if (rank->selected)
            gpu_work_done(rank->selected);
        if (rank->ops)
            host_calls_done(rank->ops);
        if (rank->frames)
            host_calls_done(rank->frames);
        if (rank->steps)
            steps_done(rank->steps);
        if (rank->times)
            intervals_done(rank->times);
        free(rank->gpu);
        free(rank->selected);
        free(rank->ops);
        free(rank->frames);
        free(rank->steps);
        free(rank->times);
        rank->gpu = rank->selected = NULL;
        rank->ops = rank->frames = NULL;
        rank->steps = NULL;
        rank->times = NULL;
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

/* -- Reading, under the rank's lock ------------------------------------------------------------------- */

static int read_all_gpu(struct analysis *a, size_t rank, const struct gpu_work **ret)
{
    struct rank *one = &a->ranks[rank];

    if (!one->gpu) {
        struct gpu_work *work = calloc(1, sizeof(*work));
        int r = work ? gpu_work_read(one->columns, a->patterns, a->hta, work) : -ENOMEM;
        if (r >= 0 && a->hta)
            r = hta_filter_steps(a, rank, work);
        if (r < 0) {
            if (work)
                gpu_work_done(work);
            free(work);
            return r;
        }
        one->gpu = work;
    }
    *ret = one->gpu;
    return 0;
}

static int read_steps(struct analysis *a, size_t rank, const struct steps **ret)
{
    struct rank *one = &a->ranks[rank];

    if (!one->steps) {
        struct steps *steps = calloc(1, sizeof(*steps));
        const struct gpu_work *work;
        int r = steps ? read_all_gpu(a, rank, &work) : -ENOMEM;
        if (r >= 0)
            r = steps_read(one->columns, work, steps);
        if (r < 0) {
            free(steps);
            return r;
        }
        one->steps = steps;
    }
    *ret = one->steps;
    return 0;
}

/* -- The view ----------------------------------------------------------------------------------------- */

static bool is_everything(const struct analysis_view *v)
{
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

    if (!one->times) {
        struct intervals *times = calloc(1, sizeof(*times));
        int r = times ? choose_times(a, rank, times) : -ENOMEM;
        if (r < 0) {
            if (times)
                intervals_done(times);
            free(times);
            return r;
        }
        one->times = times;
    }
    *ret = one->times;
    return 0;
}

static int select_work(const struct gpu_work *all, const struct intervals *times, struct gpu_work *ret)
{
    ret->events = malloc((all->n + 1) * sizeof(*ret->events));
    if (!ret->events)
        return -ENOMEM;
    ret->cap = all->n + 1;
    for (size_t i = 0; i < all->n; i++)
        if (intervals_find(times, all->events[i].ts))
            ret->events[ret->n++] = all->events[i];
    return 0;
}

static int read_gpu(struct analysis *a, size_t rank, const struct gpu_work **ret)
{
    struct rank *one = &a->ranks[rank];
    const struct gpu_work *all = NULL;
    const struct intervals *times;
    int r = read_all_gpu(a, rank, &all);

    if (r < 0)
        return r;
    if (is_everything(&a->view)) {
        *ret = all;
        return r;
    }
    r = read_times(a, rank, &times);
    if (r >= 0 && !one->selected) {
        one->selected = calloc(1, sizeof(*one->selected));
        r = one->selected ? select_work(all, times, one->selected) : -ENOMEM;
    }
    *ret = one->selected;
    return r;
}

static int read_host(struct analysis *a, size_t rank, unsigned kinds, struct host_calls **known,
                     const struct host_calls **ret)
{
    const struct gpu_work *work;

    if (!*known) {
        struct host_calls *host = calloc(1, sizeof(*host));
        int r = host ? read_gpu(a, rank, &work) : -ENOMEM;
        if (r >= 0)
            r = host_calls_read(a->ranks[rank].columns, kinds, work, host);
        if (r < 0) {
            free(host);
            return r;
        }
        *known = host;
    }
    *ret = *known;
    return 0;
}

static int read_ops(struct analysis *a, size_t rank, const struct host_calls **ret)
{
    return read_host(a, rank, 1 << HOST_OP | 1 << HOST_ANNOTATION, &a->ranks[rank].ops, ret);
}

static int read_frames(struct analysis *a, size_t rank, const struct host_calls **ret)
{
    return read_host(a, rank, 1 << HOST_PYTHON, &a->ranks[rank].frames, ret);
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

bool analysis_is_complete(const struct analysis *a)
{
    return is_everything(&a->view);
}

bool analysis_has_gpu(const struct analysis *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (columns_rows(a->ranks[i].columns, TABLE_gpu) > 0)
            return true;
    return false;
}
