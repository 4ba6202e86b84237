/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/diff.h"

#include <errno.h>
#include <math.h>

/* -- Measures ----------------------------------------------------------------------------------------- */

#define MEASURE_COLUMNS(C)                                                                                   \
    C(measure, TEXT, "name that --fail-if takes")                                                            \
    C(before_ns, NS, "time in the first")                                                                    \
    C(after_ns, NS, "time in the second")                                                                    \
    C(change_ns, NS, "after less before")                                                                    \
    C(change_share, SHARE, "share of before")                                                                \
    C(low_share, SHARE, "lower end of the change's 95 % interval", IMPORTANCE_EXTRA)                         \
    C(high_share, SHARE, "upper end of the change's 95 % interval", IMPORTANCE_EXTRA)                        \
    C(result, TEXT, "what the interval shows")                                                               \
    C(outliers_ns, NS, "part of the change that comes from outlier steps", IMPORTANCE_LOW)                   \
    C(meaning, TEXT, "description", IMPORTANCE_EXTRA)
REPORT_ROW(measure, MEASURE_COLUMNS);

const struct report diff_measures = {
    .name = "measures",
    .title = "times of two analyses compared",
    .method =
        "Of one step where both have steps, else of everything; over ranks the mean. The ranks of a step of "
        "an engine instance are one sample; the interval is that of the difference over steps, of which "
        "neighbours are alike (jackknife over blocks, Student's t). All steps count, also outliers (more "
        "than twice the median of their phase).",
    REPORT_COLUMNS(measure),
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

_Static_assert(_MEASURE_MAX <= DIFF_MEASURES_MAX, "a diff holds all measures");

static const struct {
    const char *name, *meaning;
    const char *higher, *lower;
    double fraction; /* of steps */
    enum step_time time;
} measures[_MEASURE_MAX] = {
    [STEP_P50] = {"step.p50", "median duration of a step", "slower", "faster", 0.5, STEP_TIME_DUR},
    [STEP_MEAN] = {"step.mean", "mean duration of a step", "slower", "faster", FRACTION_MEAN, STEP_TIME_DUR},
    [STEP_P99] = {"step.p99", "duration that 99 of 100 steps do not exceed", "slower", "faster", 0.99,
                  STEP_TIME_DUR},
    [GPU_SPAN] = {"gpu.span", "from the first to the last GPU activity", "longer", "shorter", FRACTION_MEAN,
                  STEP_TIME_SPAN},
    [GPU_BUSY] = {"gpu.busy", "with any activity on a GPU", "longer", "shorter", FRACTION_MEAN,
                  STEP_TIME_BUSY},
    [GPU_IDLE] = {"gpu.idle", "without activity", "longer", "shorter", FRACTION_MEAN, STEP_TIME_IDLE},
    [GPU_COMPUTING] = {"gpu.compute", "with a computing kernel", "longer", "shorter", FRACTION_MEAN,
                       STEP_TIME_COMPUTE},
    [COMM] = {"comm.sum", "with communication", "longer", "shorter", FRACTION_MEAN, STEP_TIME_COMMUNICATION},
    [COMM_EXPOSED] = {"comm.exposed", "with communication and nothing computing", "longer", "shorter",
                      FRACTION_MEAN, STEP_TIME_EXPOSED},
    [MEMORY] = {"memory.copies", "with a copy or memset", "longer", "shorter", FRACTION_MEAN,
                STEP_TIME_MEMORY},
};

const char *diff_measure_name(size_t i)
{
    return i < _MEASURE_MAX ? measures[i].name : NULL;
}

/* -- Without steps: one value for each side ----------------------------------------------------------- */

static int diff_add_gpu(struct analysis *a, size_t rank, double *sums, size_t *n)
{
    const struct gpu_work *work;
    struct gpu_times times = {0};
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_work_times(work, &times);
    if (r < 0 || times.busy == 0)
        return r;
    ++*n;
    sums[GPU_SPAN] += (double)times.span;
    sums[GPU_BUSY] += (double)times.busy;
    sums[GPU_IDLE] += (double)(times.span - times.busy);
    sums[GPU_COMPUTING] += (double)times.compute;
    sums[COMM] += (double)times.communication;
    sums[COMM_EXPOSED] += (double)times.exposed;
    sums[MEMORY] += (double)times.memory;
    return 0;
}

static int measure_everything(struct analysis *a, struct estimate *ret)
{
    double sums[_MEASURE_MAX] = {0};
    size_t n = 0;
    int r = 0;

    for (size_t rank = 0; rank < a->n && r >= 0; rank++)
        r = diff_add_gpu(a, rank, sums, &n);
    for (size_t i = 0; i < _MEASURE_MAX; i++) {
        ret[i] = ESTIMATE_UNKNOWN;
        ret[i].n = 1;
        if (n > 0 && i >= GPU_SPAN)
            ret[i].value = sums[i] / (double)n;
    }
    return r;
}

/* ----------------------------------------------------------------------------------------------------- */

/* Steps of traces without GPU activity have a duration, but their GPU is not idle: nothing is known of it. */
static int diff_measure_steps(const struct analysis *a, const struct step_sample *sample,
                              struct estimate *ret)
{
    bool has_gpu = analysis_has_gpu(a);
    int r = 0;

    for (size_t i = 0; i < _MEASURE_MAX && r >= 0; i++)
        if (i < GPU_SPAN || has_gpu)
            r = step_sample_estimate(sample, measures[i].time, measures[i].fraction, &ret[i]);
        else
            ret[i] = ESTIMATE_UNKNOWN;
    return r;
}

static void side_count(struct diff_side *s, bool by_step)
{
    s->n_steps = by_step ? 0 : (double)MAX(s->analysis->n, (size_t)1);
    for (size_t i = 0; i < STEP_BLOCKS && by_step; i++)
        s->n_steps += s->sample.rank_steps[i];
    s->n_steady = s->n_steps - (by_step ? s->sample.rank_outliers : 0);
}

int64_t diff_outliers_part(const struct diff *d, double change, double before_steady, double after_steady)
{
    double part = change - (after_steady - before_steady);
    bool has_outliers = d->by_step && d->before.sample.n_outliers + d->after.sample.n_outliers > 0;

    return has_outliers && isfinite(part) ? llround(part) : COLUMN_NULL;
}

int diff_init(struct diff *d, struct analysis *before, struct analysis *after)
{
    *d = (struct diff){.before.analysis = before, .after.analysis = after};
    int r = step_sample_read(before, &d->before.sample);

    if (r >= 0)
        r = step_sample_read(after, &d->after.sample);
    d->by_step = d->before.sample.n > 0 && d->after.sample.n > 0;
    side_count(&d->before, d->by_step);
    side_count(&d->after, d->by_step);
    return r;
}

void diff_done(struct diff *d)
{
    step_sample_done(&d->before.sample);
    step_sample_done(&d->after.sample);
}

/* One of the two words where the change's interval excludes none. */
static const char *diff_result(const struct diff *d, const struct contrast *change, const char *higher,
                               const char *lower)
{
    if (d->by_step && MIN(d->before.sample.n, d->after.sample.n) < DIFF_STEPS_MIN)
        return "too few samples";
    if (!isfinite(change->low))
        return NULL;
    return change->low > 0 ? higher : change->high < 0 ? lower : "unclear";
}

static int measure_side(const struct diff *d, const struct diff_side *s, struct estimate *ret)
{
    return d->by_step ? diff_measure_steps(s->analysis, &s->sample, ret)
                      : measure_everything(s->analysis, ret);
}

/* Percentiles hardly depend on outliers, or describe them. */
static int64_t measure_outliers_part(const struct diff *d, size_t i)
{
    return measures[i].fraction == FRACTION_MEAN
               ? diff_outliers_part(d, d->measures[i].after.value - d->measures[i].before.value,
                                    step_sample_mean_without_outliers(&d->before.sample, measures[i].time),
                                    step_sample_mean_without_outliers(&d->after.sample, measures[i].time))
               : COLUMN_NULL;
}

static void emit_measure(const struct diff *d, size_t i, struct report_rows *ret)
{
    double before = d->measures[i].before.value, after = d->measures[i].after.value;
    struct contrast change = estimate_contrast(&d->measures[i].before, &d->measures[i].after, 1);

    EMIT_ROW(measure, ret, .measure = row_str(measures[i].name), .before_ns = llround(before),
             .after_ns = llround(after), .change_ns = llround(after) - llround(before),
             .change_share = before > 0 ? change.value / before : NAN,
             .low_share = before > 0 ? change.low / before : NAN,
             .high_share = before > 0 ? change.high / before : NAN,
             .result = row_str(diff_result(d, &change, measures[i].higher, measures[i].lower)),
             .outliers_ns = measure_outliers_part(d, i), .meaning = row_str(measures[i].meaning));
}

int diff_make_measures(struct diff *d, struct report_rows *ret)
{
    struct estimate before[_MEASURE_MAX], after[_MEASURE_MAX];
    int r = measure_side(d, &d->before, before);

    report_rows_init(ret, diff_measures.n_columns);
    if (r >= 0)
        r = measure_side(d, &d->after, after);
    for (size_t i = 0; i < _MEASURE_MAX && r >= 0; i++) {
        d->measures[i].before = before[i];
        d->measures[i].after = after[i];
        if (isfinite(before[i].value) && isfinite(after[i].value) &&
            (before[i].value > 0 || after[i].value > 0))
            emit_measure(d, i, ret);
    }
    return r < 0 ? r : report_rows_error(ret);
}
