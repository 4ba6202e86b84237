/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/diff.h"

#include "base/statistics.h"
#include <errno.h>
#include <math.h>

/* -- Measures ----------------------------------------------------------------------------------------- */

static const struct report_column measure_columns[] = {
    {"measure", UNIT_TEXT, "what --fail-if calls it"},
    {"before_ns", UNIT_NS, "in the first"},
    {"after_ns", UNIT_NS, "in the second"},
    {"change_ns", UNIT_NS, "after less before"},
    {"change_share", UNIT_SHARE, "of before"},
    {"p", UNIT_FACTOR, "how probable such a difference is by chance; no value where there is no sample"},
    {"meaning", UNIT_TEXT, "what it is"},
};

const struct report diff_measures = {
    .name = "measures",
    .title = "times of two, beside each other",
    .how = "Of one step where both have steps, else of the whole; over ranks the mean. p is Mann and "
           "Whitney's U test over the steps.",
    .columns = measure_columns,
    .n_columns = ARRAY_SIZE(measure_columns),
};

enum {
    STEP_P50,
    STEP_MEAN,
    STEP_P99,
    GPU_SPAN,
    GPU_BUSY,
    GPU_IDLE,
    GPU_COMPUTING,
    COMM,
    COMM_EXPOSED,
    MEMORY,
    _MEASURE_MAX
};

static const struct {
    const char *name, *meaning;
    bool of_step; /* of a single step already */
} measures[_MEASURE_MAX] = {
    [STEP_P50] = {"step.p50", "median duration of a step", true},
    [STEP_MEAN] = {"step.mean", "mean duration of a step", true},
    [STEP_P99] = {"step.p99", "99 of 100 steps are as short", true},
    [GPU_SPAN] = {"gpu.span", "from the first to the last GPU work"},
    [GPU_BUSY] = {"gpu.busy", "with anything at work on a GPU"},
    [GPU_IDLE] = {"gpu.idle", "with nothing at work"},
    [GPU_COMPUTING] = {"gpu.compute", "with a computing kernel at work"},
    [COMM] = {"comm.sum", "with communication at work"},
    [COMM_EXPOSED] = {"comm.exposed", "with communication and nothing computing"},
    [MEMORY] = {"memory.copies", "with a copy or memset at work"},
};

const char *diff_measure_name(size_t i)
{
    return i < _MEASURE_MAX ? measures[i].name : NULL;
}

struct side {
    int64_t values[_MEASURE_MAX]; /* COLUMN_NULL where there is none */
    int64_t *steps;               /* durations, sorted, of all ranks */
    size_t n_steps;
};

static void side_done(struct side *s)
{
    free(s->steps);
}

static int gather_steps(struct analysis *a, struct side *ret)
{
    for (size_t rank = 0; rank < a->n; rank++) {
        const struct intervals *times;
        const struct steps *steps;
        int r = analysis_steps(a, rank, &steps);
        if (r >= 0)
            r = analysis_times(a, rank, &times);
        int64_t *durations =
            r < 0 ? NULL : reallocarray(ret->steps, ret->n_steps + steps->n + 1, sizeof(*durations));
        if (!durations)
            return r < 0 ? r : -ENOMEM;
        ret->steps = durations;
        for (size_t i = 0; i < steps->n; i++)
            if (intervals_find(times, steps->items[i].ts))
                ret->steps[ret->n_steps++] = steps->items[i].end - steps->items[i].ts;
    }
    sort_ns(ret->steps, ret->n_steps);
    return 0;
}

static int add_gpu(struct analysis *a, size_t rank, int64_t *sums, size_t *n)
{
    const struct gpu_work *work;
    struct gpu_times times = {0};
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_work_times(work, &times);
    if (r < 0 || times.busy == 0)
        return r;
    ++*n;
    sums[GPU_SPAN] += times.span;
    sums[GPU_BUSY] += times.busy;
    sums[GPU_IDLE] += times.span - times.busy;
    sums[GPU_COMPUTING] += times.compute;
    sums[COMM] += times.communication;
    sums[COMM_EXPOSED] += times.exposed;
    sums[MEMORY] += times.memory;
    return 0;
}

static int64_t mean_of(const int64_t *values, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)values[i];
    return n ? llround(sum / (double)n) : 0;
}

static int measure(struct analysis *a, int64_t n_steps, struct side *ret)
{
    int64_t sums[_MEASURE_MAX] = {0};
    size_t n = 0;
    int r = gather_steps(a, ret);

    for (size_t rank = 0; rank < a->n && r >= 0; rank++)
        r = add_gpu(a, rank, sums, &n);
    for (size_t i = 0; i < _MEASURE_MAX; i++)
        ret->values[i] = n > 0 && !measures[i].of_step ? sums[i] / (int64_t)n / n_steps : COLUMN_NULL;
    if (ret->n_steps > 0) {
        ret->values[STEP_P50] = percentile(ret->steps, ret->n_steps, 50);
        ret->values[STEP_MEAN] = mean_of(ret->steps, ret->n_steps);
        ret->values[STEP_P99] = percentile(ret->steps, ret->n_steps, 99);
    }
    return r;
}

/* Steps of one rank, of which all have equally many. */
static int count_steps(struct analysis *a, int64_t *ret)
{
    _cleanup_(side_done) struct side side = {0};
    int r = gather_steps(a, &side);

    *ret = (int64_t)(side.n_steps / (a->n ? a->n : 1));
    return r;
}

int diff_init(struct diff *d, struct analysis *before, struct analysis *after)
{
    *d = (struct diff){.before = before, .after = after};
    int r = count_steps(before, &d->steps_before);

    if (r >= 0)
        r = count_steps(after, &d->steps_after);
    d->by_step = d->steps_before > 0 && d->steps_after > 0;
    if (!d->by_step)
        d->steps_before = d->steps_after = 1;
    return r;
}

static void put_change(struct report_rows *ret, int64_t before, int64_t after)
{
    put_int(ret, before);
    put_int(ret, after);
    put_int(ret, before == COLUMN_NULL || after == COLUMN_NULL ? COLUMN_NULL : after - before);
}

int diff_make_measures(struct diff *d, struct report_rows *ret)
{
    _cleanup_(side_done) struct side before = {0}, after = {0};
    int r = measure(d->before, d->steps_before, &before);

    report_rows_init(ret, diff_measures.n_columns);
    if (r >= 0)
        r = measure(d->after, d->steps_after, &after);
    for (size_t i = 0; i < _MEASURE_MAX && r >= 0; i++) {
        int64_t x = before.values[i], y = after.values[i];
        if (x == COLUMN_NULL || y == COLUMN_NULL || (x == 0 && y == 0))
            continue;
        put_str(ret, measures[i].name);
        put_change(ret, x, y);
        put_share(ret, y - x, x);
        put_real(ret, measures[i].of_step
                          ? p_of_difference(before.steps, before.n_steps, after.steps, after.n_steps)
                          : NAN);
        put_str(ret, measures[i].meaning);
    }
    return r < 0 ? r : report_rows_error(ret);
}
