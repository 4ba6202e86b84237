/* SPDX-License-Identifier: Apache-2.0 */
#include "base/statistics.h"

#include "base/order.h"
#include <math.h>
#include <stdlib.h>

#define USUAL_MAX  3.5
#define NORMAL_MAD 1.4826
/* Fewer values have no usual distance. */
#define VALUES_MIN 3
/* Fewer are sorted by comparing them. */
#define MANY 512

static int compare(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

void sort_ns(int64_t *values, size_t n)
{
    _cleanup_(freep) struct order_key *keys = n < MANY ? NULL : malloc(n * sizeof(*keys));

    if (!keys && n > 1)
        qsort(values, n, sizeof(*values), compare);
    for (size_t i = 0; keys && i < n; i++)
        keys[i] = (struct order_key){values[i], i};
    if (keys)
        order_keys(keys, n);
    for (size_t i = 0; keys && i < n; i++)
        values[i] = keys[i].number;
}

int64_t percentile(const int64_t *sorted, uint64_t n, unsigned percent)
{
    return n == 0 ? 0 : sorted[(n * percent + 99) / 100 - (percent > 0)];
}

/* The median distance from the median: the two sides are sorted by distance already, and are merged. */
static double median_distance(const int64_t *sorted, size_t n, int64_t median)
{
    size_t right = 0;
    double distance = 0;

    while (right < n && sorted[right] < median)
        right++;
    for (size_t left = right, taken = 0; taken < (n + 1) / 2; taken++) {
        double below = left > 0 ? (double)median - (double)sorted[left - 1] : INFINITY,
               above = right < n ? (double)sorted[right] - (double)median : INFINITY;
        distance = fmin(below, above);
        if (below < above)
            left--;
        else
            right++;
    }
    return distance;
}

bool is_outlier(const int64_t *sorted, size_t n, int64_t value, int64_t matters)
{
    if (n < VALUES_MIN)
        return false;
    int64_t median = percentile(sorted, n, 50);
    double away = fabs((double)value - (double)median);

    return away > USUAL_MAX * NORMAL_MAD * median_distance(sorted, n, median) && away > (double)matters;
}
