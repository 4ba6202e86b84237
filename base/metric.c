/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metric.h"

#include "base/clock.h"
#include "base/util.h"

const int64_t histogram_bounds_ns[HISTOGRAM_BOUNDS] = {
    5 * NS_PER_MS, 10 * NS_PER_MS, 50 * NS_PER_MS, 100 * NS_PER_MS, 500 * NS_PER_MS,
    NS_PER_S,      2 * NS_PER_S,   5 * NS_PER_S,   10 * NS_PER_S,   30 * NS_PER_S,
    60 * NS_PER_S, 300 * NS_PER_S, 600 * NS_PER_S, 1800 * NS_PER_S,
};

void histogram_add(struct histogram *h, int64_t duration_ns)
{
    size_t i = 0;

    while (i < HISTOGRAM_BOUNDS && duration_ns > histogram_bounds_ns[i])
        i++;
    h->counts[i]++;
    h->sum_ns += MAX(duration_ns, INT64_C(0));
}
