/* SPDX-License-Identifier: Apache-2.0 */
#include "base/estimate.h"

#include "base/util.h"

#include <math.h>
#include <stdlib.h>

#define CONFIDENCE 0.975 /* each side of an interval of 95 % */
#define POWER      0.8

/* -- Student's t -------------------------------------------------------------------------------------- */

/* Intervals of Simpson's rule; the integrand is smooth and the error below 1e-9. */
#define SIMPSON_PARTS 200

/* P(T <= t), t >= 0. With u = atan(t / sqrt(df)) the density is proportional to cos(u)^(df - 1)
 * (Abramowitz and Stegun, 26.7.1 by substitution). */
static double estimate_student_cdf(double t, double df)
{
    double end = atan(t / sqrt(df)), h = end / SIMPSON_PARTS, sum = 1 + pow(cos(end), df - 1);

    for (int i = 1; i < SIMPSON_PARTS; i++)
        sum += (i % 2 ? 4 : 2) * pow(cos(i * h), df - 1);
    return 0.5 + sum * h / 3 * exp(lgamma((df + 1) / 2) - lgamma(df / 2)) / sqrt(M_PI);
}

double student_quantile(double probability, double df)
{
    double low = 0, high = 1;

    df = fmax(df, 1);
    while (estimate_student_cdf(high, df) < probability && high < 1e6)
        high *= 2;
    for (int i = 0; i < 50; i++) {
        double middle = (low + high) / 2;
        if (estimate_student_cdf(middle, df) < probability)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* -- Estimates ---------------------------------------------------------------------------------------- */

struct estimate estimate_of_units(const double *figures, size_t n)
{
    struct estimate e = ESTIMATE_UNKNOWN;
    double sum = 0, squares = 0;

    for (size_t i = 0; i < n; i++)
        sum += figures[i];
    e.n = n;
    if (n == 0)
        return e;
    e.value = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (figures[i] - e.value) * (figures[i] - e.value);
    if (n > 1) {
        e.unit_sd = sqrt(squares / (double)(n - 1));
        e.df = (double)(n - 1);
    }
    return e;
}

bool percentile_is_supported(double fraction, size_t n)
{
    double beyond = (double)n * fmin(fraction, 1 - fraction);

    return n > 0 && (fraction <= 0 || fraction >= 1 || beyond > 1 - 1e-9);
}

static int estimate_compare_values(const void *x, const void *y)
{
    const struct timed_value *a = x, *b = y;

    return (a->value > b->value) - (a->value < b->value);
}

void timed_values_sort(struct timed_value *values, size_t n)
{
    if (n > 1)
        qsort(values, n, sizeof(*values), estimate_compare_values);
}

/* No block is left out. */
#define BLOCK_NONE (ESTIMATE_BLOCKS_MAX + 1u)

static double estimate_mean_without(const struct timed_value *values, size_t n, unsigned without)
{
    double sum = 0;
    size_t counted = 0;

    for (size_t i = 0; i < n; i++)
        if (values[i].block != without) {
            sum += values[i].value;
            counted++;
        }
    return counted ? sum / (double)counted : NAN;
}

static double estimate_percentile_without(const struct timed_value *sorted, size_t n, double fraction,
                                          unsigned without, size_t left_out)
{
    size_t seen = 0;
    double position = fraction * (double)(n - left_out - 1), low = NAN;

    for (size_t i = 0; i < n; i++) {
        if (sorted[i].block == without)
            continue;
        if (seen == (size_t)position)
            low = sorted[i].value;
        if (seen == (size_t)position + 1)
            return low + (position - floor(position)) * (sorted[i].value - low);
        seen++;
    }
    return low;
}

static double estimate_figure_without(const struct timed_value *sorted, size_t n, double fraction,
                                      unsigned without)
{
    size_t left_out = 0;

    if (fraction == FRACTION_MEAN)
        return estimate_mean_without(sorted, n, without);
    for (size_t i = 0; i < n && without != BLOCK_NONE; i++)
        left_out += sorted[i].block == without;
    return left_out < n ? estimate_percentile_without(sorted, n, fraction, without, left_out) : NAN;
}

/* The standard deviation of the figure of a block; of a mean it is that of the blocks' means. */
static struct estimate estimate_spread(double value, const double *without, unsigned n_blocks)
{
    struct estimate e = {value, NAN, 0, 1};
    double sum = 0, squares = 0;
    unsigned n = 0;

    for (unsigned i = 0; i < n_blocks; i++)
        if (isfinite(without[i])) {
            sum += without[i];
            n++;
        }
    if (n < 2)
        return e;
    for (unsigned i = 0; i < n_blocks; i++)
        if (isfinite(without[i]))
            squares += (without[i] - sum / n) * (without[i] - sum / n);
    /* The jackknife's variance of the figure is (n - 1) / n of the squares; a block's is n times that. */
    e.unit_sd = sqrt((n - 1.0) * squares);
    e.df = n - 1.0;
    return e;
}

struct estimate values_as_run(const struct timed_value *sorted, size_t n, unsigned n_blocks, double fraction)
{
    double without[ESTIMATE_BLOCKS_MAX];
    bool has_values[ESTIMATE_BLOCKS_MAX] = {false};

    n_blocks = MIN(n_blocks, ESTIMATE_BLOCKS_MAX);
    if (n == 0 || (fraction != FRACTION_MEAN && !percentile_is_supported(fraction, n)))
        return ESTIMATE_UNKNOWN;
    for (size_t i = 0; i < n; i++)
        if (sorted[i].block < n_blocks)
            has_values[sorted[i].block] = true;
    /* A block without values is none. */
    for (unsigned i = 0; i < n_blocks; i++)
        without[i] = has_values[i] ? estimate_figure_without(sorted, n, fraction, i) : NAN;
    struct estimate e =
        estimate_spread(estimate_figure_without(sorted, n, fraction, BLOCK_NONE), without, n_blocks);
    /* The spread of a figure cannot be estimated from an extreme value. */
    if (fraction == 0 || fraction == 1)
        e.unit_sd = NAN;
    return e;
}

/* The mean of n_blocks blocks varies less than one of them; spread over all units. */
static struct estimate estimate_as_units(struct estimate e, size_t n_units)
{
    if (isfinite(e.unit_sd))
        e.unit_sd *= sqrt((double)n_units / (e.df + 1));
    e.n = isfinite(e.value) ? n_units : 0;
    return e;
}

struct estimate values_as_units(const struct timed_value *sorted, size_t n, unsigned n_blocks,
                                double fraction, size_t n_units)
{
    return estimate_as_units(values_as_run(sorted, n, n_blocks, fraction), n_units);
}

struct estimate ratio_as_run(const struct ratio_sums *blocks, unsigned n_blocks)
{
    struct ratio_sums all = {0};
    double without[ESTIMATE_BLOCKS_MAX];

    n_blocks = MIN(n_blocks, ESTIMATE_BLOCKS_MAX);
    for (unsigned i = 0; i < n_blocks; i++) {
        all.above += blocks[i].above;
        all.below += blocks[i].below;
    }
    if (!(all.below > 0))
        return ESTIMATE_UNKNOWN;
    for (unsigned i = 0; i < n_blocks; i++) {
        double below = all.below - blocks[i].below;
        without[i] = below > 0 && blocks[i].below > 0 ? (all.above - blocks[i].above) / below : NAN;
    }
    return estimate_spread(all.above / all.below, without, n_blocks);
}

struct estimate ratio_as_units(const struct ratio_sums *blocks, unsigned n_blocks, size_t n_units)
{
    return estimate_as_units(ratio_as_run(blocks, n_blocks), n_units);
}

/* -- Differences -------------------------------------------------------------------------------------- */

struct contrast estimate_contrast(const struct estimate *a, const struct estimate *b, double factor)
{
    struct contrast c = {b->value - factor * a->value, NAN, NAN, NAN};
    bool knows_a = isfinite(a->unit_sd) && a->df > 0, knows_b = isfinite(b->unit_sd) && b->df > 0;

    if (!isfinite(c.value) || (!knows_a && !knows_b))
        return c;
    double sd_a = knows_a ? a->unit_sd : b->unit_sd, sd_b = knows_b ? b->unit_sd : a->unit_sd;
    double of_a = factor * factor * sd_a * sd_a / (double)MAX(a->n, (size_t)1),
           of_b = sd_b * sd_b / (double)MAX(b->n, (size_t)1), df;
    if (!knows_a || !knows_b)
        df = knows_a ? a->df : b->df;
    else if (of_a + of_b > 0)
        df = (of_a + of_b) * (of_a + of_b) / (of_a * of_a / a->df + of_b * of_b / b->df);
    else
        df = fmin(a->df, b->df);
    c.error = sqrt(of_a + of_b);
    double half = c.error > 0 ? student_quantile(CONFIDENCE, df) * c.error : 0;
    c.low = c.value - half;
    c.high = c.value + half;
    return c;
}

size_t estimate_units_needed(const struct estimate *a, const struct estimate *b, double factor,
                             double distance)
{
    double sd_a = isfinite(a->unit_sd) ? a->unit_sd : b->unit_sd,
           sd_b = isfinite(b->unit_sd) ? b->unit_sd : a->unit_sd;
    double sd = sqrt(factor * factor * sd_a * sd_a + sd_b * sd_b);
    size_t low = 1, high = UNITS_NEEDED_MAX + 1; /* too few, enough */

    distance = fabs(distance);
    if (!isfinite(sd) || !isfinite(distance))
        return 0;
    while (high - low > 1) {
        size_t n = low + (high - low) / 2;
        double df = 2 * (double)(n - 1);
        double half = (student_quantile(CONFIDENCE, df) + student_quantile(POWER, df)) * sd / sqrt((double)n);
        if (half <= distance)
            high = n;
        else
            low = n;
    }
    return high <= UNITS_NEEDED_MAX ? high : 0;
}
