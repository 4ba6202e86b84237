/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/bootstrap.h"

#include "base/util.h"

/* Steele, Lea and Flood's SplitMix64. */
static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static size_t random_below(uint64_t *state, size_t n)
{
    return (size_t)((random_next(state) >> 32) * n >> 32);
}

static int compare(const void *x, const void *y)
{
    const double *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

/* Requests i * n / units up to the next are one unit. */
static size_t gather(const struct ratio *requests, size_t n, struct ratio *ret)
{
    size_t units = MIN(n, BOOTSTRAP_UNITS_MAX);

    for (size_t u = 0; u < units; u++) {
        ret[u] = (struct ratio){0};
        for (size_t i = u * n / units; i < (u + 1) * n / units; i++) {
            ret[u].above += requests[i].above;
            ret[u].below += requests[i].below;
        }
    }
    return units;
}

struct interval95 bootstrap_ratio(const struct ratio *requests, size_t n, uint64_t seed)
{
    struct ratio units[BOOTSTRAP_UNITS_MAX];
    double results[BOOTSTRAP_DRAWS];
    size_t n_units = gather(requests, n, units);

    for (size_t d = 0; d < BOOTSTRAP_DRAWS; d++) {
        struct ratio sum = {0};
        for (size_t u = 0; u < n_units; u++) {
            const struct ratio *drawn = &units[random_below(&seed, n_units)];
            sum.above += drawn->above;
            sum.below += drawn->below;
        }
        results[d] = sum.below > 0 ? sum.above / sum.below : 0;
    }
    qsort(results, BOOTSTRAP_DRAWS, sizeof(*results), compare);
    return (struct interval95){results[BOOTSTRAP_DRAWS * 25 / 1000],
                               results[BOOTSTRAP_DRAWS - 1 - BOOTSTRAP_DRAWS * 25 / 1000]};
}
