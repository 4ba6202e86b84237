/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/random.h"

#include <math.h>

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t random_next(struct random *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void random_init(struct random *r, uint64_t seed, uint64_t stream)
{
    r->state = seed;
    r->state = random_next(r) ^ stream;
    r->state = random_next(r);
}

uint64_t random_below(struct random *r, uint64_t n)
{
    return random_next(r) % n;
}

/* In (0, 1). */
static double random_unit(struct random *r)
{
    return ((double)(random_next(r) >> 11) + 0.5) * 0x1p-53;
}

double random_exponential(struct random *r)
{
    return -log(random_unit(r));
}

/* Polar method (Marsaglia, Bray 1964). */
static double random_normal(struct random *r)
{
    double x, y, s;

    do {
        x = 2 * random_unit(r) - 1;
        y = 2 * random_unit(r) - 1;
        s = x * x + y * y;
    } while (s >= 1 || s == 0);
    return x * sqrt(-2 * log(s) / s);
}

/* Marsaglia, Tsang 2000; a shape below 1 uses shape + 1, as in the paper. */
double random_gamma(struct random *r, double shape)
{
    if (shape < 1)
        return random_gamma(r, shape + 1) * pow(random_unit(r), 1 / shape);
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = random_normal(r), v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        if (log(random_unit(r)) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}
