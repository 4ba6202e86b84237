/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of samples, how sure they are, and what follows from the difference of two of them. Pure.
 *
 * A sample consists of units that are drawn independently: benchmark runs, or steps of an engine instance.
 * Values within a unit, and neighbouring units, are alike, so that they are never taken for independent:
 * their spread is estimated between a few blocks of neighbours (docs/figures.md gives the method).
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

struct estimate {
    double value;   /* NAN: unknown */
    double unit_sd; /* standard deviation of the figure of one unit; NAN: unknown */
    double df;      /* degrees of freedom of unit_sd */
    size_t n;       /* units */
};

#define ESTIMATE_UNKNOWN ((struct estimate){NAN, NAN, 0, 0})

/* The mean of figures of n units. unit_sd is unknown of fewer than two. */
struct estimate estimate_of_units(const double *figures, size_t n);

/* One value of a series in order of time; `block` groups neighbours, from 0 on. */
struct timed_value {
    double value;
    unsigned block;
};
#define ESTIMATE_BLOCKS_MAX 16
#define FRACTION_MEAN       (-1.0)

/* The block that value i of n belongs to. */
static inline unsigned block_of(size_t i, size_t n, unsigned n_blocks)
{
    return n ? (unsigned)(i * n_blocks / n) : 0;
}
/* By value, as the estimates below expect them. */
void timed_values_sort(struct timed_value *values, size_t n);
/*
 * The percentile at `fraction` (0 to 1; Hyndman and Fan 1996, definition 7) or the mean (FRACTION_MEAN) of
 * sorted values. Spread: the jackknife that leaves out one block at a time (Künsch 1989). NAN where the
 * sample does not support the percentile.
 *
 * values_as_run: the series is a single unit whose figure drifts from run to run as far as it drifts from
 * block to block within the run. values_as_units: n_units of the series are independent but for the blocks.
 */
struct estimate values_as_run(const struct timed_value *sorted, size_t n, unsigned n_blocks, double fraction);
struct estimate values_as_units(const struct timed_value *sorted, size_t n, unsigned n_blocks,
                                double fraction, size_t n_units);

/* Sums of a block: the figure is the sum of `above` by that of `below`. */
struct ratio_sums {
    double above, below;
};
struct estimate ratio_as_run(const struct ratio_sums *blocks, unsigned n_blocks);
struct estimate ratio_as_units(const struct ratio_sums *blocks, unsigned n_blocks, size_t n_units);

/* Whether at least one of n values is expected beyond the percentile, so that it is more than an extreme. */
bool percentile_is_supported(double fraction, size_t n);

/* b - factor * a with its 95 % interval by Student's t (degrees of freedom: Welch 1947, Satterthwaite 1946).
 * A side whose spread is unknown is taken to vary as the other one; low and high are NAN where both are. */
struct contrast {
    double value, low, high;
    double error; /* standard error of value; NAN: unknown */
};
struct contrast estimate_contrast(const struct estimate *a, const struct estimate *b, double factor);

/* The number of units of each side that would show a contrast of this size, with a power of 80 %;
 * 0 where it is more than UNITS_NEEDED_MAX or unknown. */
#define UNITS_NEEDED_MAX 1000
size_t estimate_units_needed(const struct estimate *a, const struct estimate *b, double factor,
                             double distance);

/* Student's t: the quantile above one half, for any df of at least 1. */
double student_quantile(double probability, double df);
