/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/correlation.h"

#include "base/alloc.h"

#include <math.h>

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

struct placed {
    double value;
    size_t place;
};

static int compare(const void *x, const void *y)
{
    const struct placed *a = x, *b = y;

    return (a->value > b->value) - (a->value < b->value);
}

static double *ranks_of(const double *values, size_t n)
{
    _cleanup_(freep) struct placed *sorted = xcalloc(n, sizeof(*sorted));
    double *ranks = xcalloc(n, sizeof(*ranks));

    for (size_t i = 0; i < n; i++)
        sorted[i] = (struct placed){values[i], i};
    qsort(sorted, n, sizeof(*sorted), compare);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && sorted[to].value == sorted[from].value;)
            to++;
        for (size_t i = from; i < to; i++)
            ranks[sorted[i].place] = (double)(from + to - 1) / 2;
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
