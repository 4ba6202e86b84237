/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/trend.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <math.h>

static int compare(const void *x, const void *y)
{
    const double *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

/* Sorts what it is given. */
static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static struct moment_value window_of(const struct moment_value *values, size_t n)
{
    _cleanup_(freep) double *only = xcalloc(n, sizeof(*only));

    for (size_t i = 0; i < n; i++)
        only[i] = values[i].value;
    return (struct moment_value){values[n / 2].at_ns, median(only, n)};
}

/* Sum of t (t - 1) (2 t + 5) over groups of t equal values. */
static double tie_term(const struct moment_value *w, size_t n)
{
    double values[TREND_WINDOWS_MAX] = {0}, sum = 0;

    for (size_t i = 0; i < n; i++)
        values[i] = w[i].value;
    qsort(values, n, sizeof(*values), compare);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && values[to] == values[from];)
            to++;
        double t = (double)(to - from);
        sum += t * (t - 1) * (2 * t + 5);
    }
    return sum;
}

static double p_of(double s, double ties, double n)
{
    double variance = (n * (n - 1) * (2 * n + 5) - ties) / 18;

    if (variance <= 0 || s == 0)
        return 1;
    return erfc((fabs(s) - 1) / sqrt(variance) / sqrt(2));
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
        w[i] = window_of(values + from, to - from);
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
        .p = p_of(s, tie_term(w, windows), (double)windows),
        .slope_per_s = n_slopes > 0 ? median(slopes, n_slopes) : 0,
        .first = w[0].value,
        .last = w[windows - 1].value,
    };
    return true;
}
