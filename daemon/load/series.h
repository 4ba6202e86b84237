/* SPDX-License-Identifier: Apache-2.0 */
/* A quantity that is looked at again and again, as what is told of it. Pure; a zeroed one is empty. */
#pragma once

#include "base/json.h"

struct series {
    uint64_t n;
    int64_t baseline, low, peak, end; /* the first, extremes, the last */
    double sum;
    double mean, squares; /* private: running mean, and sum of squared distances from it (Welford 1962) */
};

/* A negative value is none. */
void series_add(struct series *s, int64_t value);
/* {"n", "baseline", "peak", "difference" (of both), "low", "mean", "std" (of the population), "end"}, null of
 * none. */
json_t *series_json(const struct series *s);
