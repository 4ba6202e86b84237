/* SPDX-License-Identifier: Apache-2.0 */
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>

/* -- Sorting -------------------------------------------------------------------------------------------- */

#define DIGIT_BITS 11
#define DIGITS     (1u << DIGIT_BITS)
/* Fewer items than this are sorted faster by comparing them. */
#define RADIX_SORT_MIN 512

static int sort_compare(const void *x, const void *y)
{
    const struct sort_item *a = x, *b = y;

    return a->number != b->number ? (a->number > b->number) - (a->number < b->number)
                                  : (a->item > b->item) - (a->item < b->item);
}

/* Where the items of each digit begin; false if all items have the same digit and nothing has to be moved. */
static bool sort_count_digits(const struct sort_item *keys, size_t n, uint64_t least, unsigned shift,
                              size_t positions[DIGITS])
{
    size_t position = 0, most = 0;

    memset(positions, 0, DIGITS * sizeof(*positions));
    for (size_t i = 0; i < n; i++)
        positions[((uint64_t)keys[i].number - least) >> shift & (DIGITS - 1)]++;
    for (size_t digit = 0; digit < DIGITS; digit++) {
        size_t count = positions[digit];
        positions[digit] = position;
        position += count;
        most = MAX(most, count);
    }
    return most < n;
}

/* Least significant digit first, alternating between keys and other; returns the array with the result. */
static struct sort_item *sort_move_digits(struct sort_item *keys, struct sort_item *other, size_t n,
                                          int64_t least, int64_t largest)
{
    uint64_t range = (uint64_t)largest - (uint64_t)least;
    size_t positions[DIGITS];

    for (unsigned shift = 0; shift < 64 && range >> shift > 0; shift += DIGIT_BITS) {
        if (!sort_count_digits(keys, n, (uint64_t)least, shift, positions))
            continue;
        for (size_t i = 0; i < n; i++)
            other[positions[((uint64_t)keys[i].number - (uint64_t)least) >> shift & (DIGITS - 1)]++] =
                keys[i];
        struct sort_item *moved = other;
        other = keys;
        keys = moved;
    }
    return keys;
}

void sort_items(struct sort_item *keys, size_t n)
{
    int64_t least = INT64_MAX, largest = INT64_MIN;
    bool is_ordered = true;

    for (size_t i = 0; i < n; i++) {
        is_ordered = is_ordered && (i == 0 || keys[i - 1].number <= keys[i].number);
        least = MIN(least, keys[i].number);
        largest = MAX(largest, keys[i].number);
    }
    if (is_ordered)
        return;
    _cleanup_(freep) struct sort_item *other = n < RADIX_SORT_MIN ? NULL : malloc(n * sizeof(*other));
    struct sort_item *ordered = other ? sort_move_digits(keys, other, n, least, largest) : keys;
    if (!other)
        qsort(keys, n, sizeof(*keys), sort_compare);
    else if (ordered != keys)
        memcpy(keys, ordered, n * sizeof(*keys));
}

/* -- Statistics ----------------------------------------------------------------------------------------- */

/* Distance of an outlier from the median, in deviations. */
#define OUTLIER_DEVIATIONS 3.5
/* Standard deviations in a median absolute deviation, of what is distributed normally. */
#define DEVIATION_OF_MAD 1.4826
/* Fewer values have no outliers. */
#define OUTLIER_VALUES_MIN 3

static int statistics_compare(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

void sort_ns(int64_t *values, size_t n)
{
    _cleanup_(freep) struct sort_item *keys = n < RADIX_SORT_MIN ? NULL : malloc(n * sizeof(*keys));

    if (!keys && n > 1)
        qsort(values, n, sizeof(*values), statistics_compare);
    for (size_t i = 0; keys && i < n; i++)
        keys[i] = (struct sort_item){values[i], i};
    if (keys)
        sort_items(keys, n);
    for (size_t i = 0; keys && i < n; i++)
        values[i] = keys[i].number;
}

int64_t percentile(const int64_t *sorted, uint64_t n, unsigned percent)
{
    return n == 0 ? 0 : sorted[(n * percent + 99) / 100 - (percent > 0)];
}

/* The median distance from the median: the two sides are sorted by distance already, and are merged. */
static double statistics_median_distance(const int64_t *sorted, size_t n, int64_t median)
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

static int compare_doubles(const void *x, const void *y)
{
    const double *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

double sample_median(double *values, size_t n)
{
    if (n == 0)
        return NAN;
    qsort(values, n, sizeof(*values), compare_doubles);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

double sample_deviation(const int64_t *values, size_t n, double mean)
{
    double squares = 0;

    for (size_t i = 0; i < n; i++)
        squares += ((double)values[i] - mean) * ((double)values[i] - mean);
    return n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

struct spread spread_of(const int64_t *sorted, size_t n)
{
    int64_t median = percentile(sorted, n, 50);

    return (struct spread){median, DEVIATION_OF_MAD * statistics_median_distance(sorted, n, median), n};
}

double spread_distance(const struct spread *spread, int64_t value)
{
    return ((double)value - (double)spread->median) / MAX(spread->deviation, 1.0);
}

bool is_outlier(const struct spread *spread, int64_t value, int64_t matters)
{
    double away = fabs((double)value - (double)spread->median);

    return spread->n >= OUTLIER_VALUES_MIN && away > OUTLIER_DEVIATIONS * spread->deviation &&
           away > (double)matters;
}
