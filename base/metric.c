/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metric.h"

#include "base/clock.h"
#include "base/util.h"

/* clang-format off */
const struct histogram_bounds histogram_bounds[_HISTOGRAM_SCALE_MAX] = {
    [SCALE_WORK] = {14, {5 * NS_PER_MS, 10 * NS_PER_MS, 50 * NS_PER_MS, 100 * NS_PER_MS, 500 * NS_PER_MS,
                         NS_PER_S, 2 * NS_PER_S, 5 * NS_PER_S, 10 * NS_PER_S, 30 * NS_PER_S,
                         60 * NS_PER_S, 300 * NS_PER_S, 600 * NS_PER_S, 1800 * NS_PER_S}},
    [SCALE_ANSWERS] = {6, {NS_PER_MS, 10 * NS_PER_MS, 100 * NS_PER_MS, NS_PER_S, 10 * NS_PER_S, 60 * NS_PER_S}},
};
/* clang-format on */

void histogram_add(struct histogram *h, int64_t duration_ns)
{
    const struct histogram_bounds *bounds = &histogram_bounds[h->scale];
    size_t i = 0;

    while (i < bounds->n && duration_ns > bounds->ns[i])
        i++;
    h->counts[i]++;
    h->sum_ns += MAX(duration_ns, INT64_C(0));
}
