/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/statistics.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/load/random.h"
#include <math.h>

static int compare_doubles(const void *x, const void *y)
{
    const double *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

/* -- Correlation -------------------------------------------------------------------------------------- */

static double mean_of(const double *values, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum / (double)n;
}

double correlation(const double *x, const double *y, size_t n)
{
    double xx = 0, yy = 0, xy = 0;

    if (n < CORRELATION_MIN)
        return NAN;
    double x_mean = mean_of(x, n), y_mean = mean_of(y, n);
    for (size_t i = 0; i < n; i++) {
        xx += (x[i] - x_mean) * (x[i] - x_mean);
        yy += (y[i] - y_mean) * (y[i] - y_mean);
        xy += (x[i] - x_mean) * (y[i] - y_mean);
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

struct indexed_value {
    double value; /* first: sorted by compare_doubles() */
    size_t index;
};

static double *ranks_of(const double *values, size_t n)
{
    _cleanup_(freep) struct indexed_value *sorted = xcalloc(n, sizeof(*sorted));
    double *ranks = xcalloc(n, sizeof(*ranks));

    for (size_t i = 0; i < n; i++)
        sorted[i] = (struct indexed_value){values[i], i};
    qsort(sorted, n, sizeof(*sorted), compare_doubles);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && sorted[to].value == sorted[from].value;)
            to++;
        for (size_t i = from; i < to; i++)
            ranks[sorted[i].index] = (double)(from + to - 1) / 2;
    }
    return ranks;
}

double rank_correlation(const double *x, const double *y, size_t n)
{
    if (n < CORRELATION_MIN)
        return NAN;
    _cleanup_(freep) double *x_ranks = ranks_of(x, n);
    _cleanup_(freep) double *y_ranks = ranks_of(y, n);
    return correlation(x_ranks, y_ranks, n);
}

/* -- Trend -------------------------------------------------------------------------------------------- */

/* Sorts its argument. */
static double median_of(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare_doubles);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static struct moment_value trend_window(const struct moment_value *values, size_t n)
{
    _cleanup_(freep) double *only = xcalloc(n, sizeof(*only));

    for (size_t i = 0; i < n; i++)
        only[i] = values[i].value;
    return (struct moment_value){values[n / 2].at_ns, median_of(only, n)};
}

/* Probability of a Kendall sum of s; ties reduce the variance by t (t - 1) (2 t + 5) of each t equal values. */
static double trend_p(const struct moment_value *windows, size_t n, double s)
{
    double values[TREND_WINDOWS_MAX] = {0}, ties = 0, count = (double)n;

    for (size_t i = 0; i < n; i++)
        values[i] = windows[i].value;
    qsort(values, n, sizeof(*values), compare_doubles);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && values[to] == values[from];)
            to++;
        double t = (double)(to - from);
        ties += t * (t - 1) * (2 * t + 5);
    }
    double variance = (count * (count - 1) * (2 * count + 5) - ties) / 18;
    return variance <= 0 || s == 0 ? 1 : erfc((fabs(s) - 1) / sqrt(variance) / sqrt(2));
}

bool trend_of(const struct moment_value *values, size_t n, struct trend *ret)
{
    struct moment_value w[TREND_WINDOWS_MAX];
    double slopes[TREND_WINDOWS_MAX * (TREND_WINDOWS_MAX - 1) / 2] = {0}, s = 0;
    size_t windows = MIN(n, TREND_WINDOWS_MAX), n_slopes = 0;

    if (n < TREND_VALUES_MIN)
        return false;
    for (size_t i = 0; i < windows; i++) {
        size_t from = i * n / windows, to = (i + 1) * n / windows;
        w[i] = trend_window(values + from, to - from);
    }
    for (size_t i = 0; i < windows; i++)
        for (size_t k = i + 1; k < windows; k++) {
            s += (w[k].value > w[i].value) - (w[k].value < w[i].value);
            if (w[k].at_ns > w[i].at_ns)
                slopes[n_slopes++] =
                    (w[k].value - w[i].value) / ((double)(w[k].at_ns - w[i].at_ns) / NS_PER_S);
        }
    *ret = (struct trend){
        .windows = windows,
        .tau = s / ((double)windows * (double)(windows - 1) / 2),
        .p = trend_p(w, windows, s),
        .slope_per_s = n_slopes > 0 ? median_of(slopes, n_slopes) : 0,
        .first = w[0].value,
        .last = w[windows - 1].value,
    };
    return true;
}

/* -- Confidence intervals ----------------------------------------------------------------------------- */

struct interval95 bootstrap_ratio(const struct ratio *requests, size_t n, uint64_t seed)
{
    struct ratio units[BOOTSTRAP_UNITS_MAX];
    double results[BOOTSTRAP_DRAWS];
    size_t n_units = MIN(n, BOOTSTRAP_UNITS_MAX), tail = BOOTSTRAP_DRAWS * 25 / 1000;
    struct random random = {seed};

    for (size_t u = 0; u < n_units; u++) {
        units[u] = (struct ratio){0};
        for (size_t i = u * n / n_units; i < (u + 1) * n / n_units; i++) {
            units[u].above += requests[i].above;
            units[u].below += requests[i].below;
        }
    }
    for (size_t d = 0; d < BOOTSTRAP_DRAWS; d++) {
        struct ratio sum = {0};
        for (size_t u = 0; u < n_units; u++) {
            const struct ratio *drawn = &units[(random_next(&random) >> 32) * n_units >> 32];
            sum.above += drawn->above;
            sum.below += drawn->below;
        }
        results[d] = sum.below > 0 ? sum.above / sum.below : 0;
    }
    qsort(results, BOOTSTRAP_DRAWS, sizeof(*results), compare_doubles);
    return (struct interval95){results[tail], results[BOOTSTRAP_DRAWS - 1 - tail]};
}

/* -- Series ------------------------------------------------------------------------------------------- */

void series_add(struct series *s, int64_t value)
{
    if (value < 0)
        return;
    if (s->n++ == 0)
        s->baseline = s->low = s->peak = value;
    s->low = MIN(s->low, value);
    s->peak = MAX(s->peak, value);
    s->end = value;
    s->sum += (double)value;
    double distance = (double)value - s->mean;
    s->mean += distance / (double)s->n;
    s->squares += distance * ((double)value - s->mean);
}

json_t *series_json(const struct series *s)
{
    if (s->n == 0)
        return json_null();
    return json_pack("{s: I, s: I, s: I, s: I, s: I, s: f, s: f, s: I}", "n", (json_int_t)s->n, "baseline",
                     (json_int_t)s->baseline, "peak", (json_int_t)s->peak, "difference",
                     (json_int_t)(s->peak - s->baseline), "low", (json_int_t)s->low, "mean",
                     s->sum / (double)s->n, "std", sqrt(s->squares / (double)s->n), "end",
                     (json_int_t)s->end);
}
