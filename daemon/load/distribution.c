/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/distribution.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/load/bootstrap.h"

#include <math.h>

static const struct point {
    const char *name;
    double fraction;
    bool has_interval;
} points[] = {
    {"min", 0, false},    {"p1", 0.01, false}, {"p5", 0.05, false},     {"p10", 0.10, false},
    {"p25", 0.25, false}, {"p50", 0.50, true}, {"p75", 0.75, false},    {"p90", 0.90, false},
    {"p95", 0.95, false}, {"p99", 0.99, true}, {"p99.9", 0.999, false}, {"max", 1, false},
};
#define POINTS ARRAY_SIZE(points)

_Static_assert(2 * POINTS <= SAMPLE_RANKS_MAX, "all points are read in one pass");

/* Values at fractions 0 to 1 of a sample that has any. */
static void values_at(const struct sample *s, const double *fractions, size_t n, double *ret)
{
    uint64_t ranks[SAMPLE_RANKS_MAX];
    int64_t values[SAMPLE_RANKS_MAX];

    for (size_t i = 0; i < n; i++) {
        ranks[2 * i] = (uint64_t)(fractions[i] * (double)(s->n - 1));
        ranks[2 * i + 1] = MIN(ranks[2 * i] + 1, s->n - 1);
    }
    sample_at(s, ranks, 2 * n, values);
    for (size_t i = 0; i < n; i++) {
        double place = fractions[i] * (double)(s->n - 1), low = (double)values[2 * i];
        ret[i] = low + (place - (double)ranks[2 * i]) * ((double)values[2 * i + 1] - low);
    }
}

struct moments {
    double mean, std;
};

static struct moments moments_of(const struct sample *s)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < s->n_requests; i++)
        sum += sample_part(s, i, 0, 0).sum;
    double mean = sum / (double)s->n;
    for (size_t i = 0; i < s->n_requests; i++)
        squares += sample_part(s, i, mean, 0).squares;
    return (struct moments){mean, sqrt(squares / (double)s->n)};
}

static json_t *interval_json(double low, double high)
{
    return json_pack("[f, f]", low / NS_PER_MS, high / NS_PER_MS);
}

static json_t *mean_interval(const struct sample *s, struct ratio *ratios, uint64_t seed)
{
    for (size_t i = 0; i < s->n_requests; i++) {
        struct sample_part part = sample_part(s, i, 0, 0);
        ratios[i] = (struct ratio){part.sum, part.n};
    }
    struct interval95 i = bootstrap_ratio(ratios, s->n_requests, seed);
    return interval_json(i.low, i.high);
}

/* How much of the values does not exceed the percentile would be another share of other requests: as far as
 * that share moves, so far the percentile is looked for on the other side. */
static json_t *percentile_interval(const struct sample *s, double fraction, double value,
                                   struct ratio *ratios, uint64_t seed)
{
    struct ratio all = {0};

    for (size_t i = 0; i < s->n_requests; i++) {
        struct sample_part part = sample_part(s, i, 0, value);
        ratios[i] = (struct ratio){part.below, part.n};
        all.above += part.below;
        all.below += part.n;
    }
    double share = all.above / all.below;
    struct interval95 i = bootstrap_ratio(ratios, s->n_requests, seed);
    double ends[2] = {fmax(0, fraction - (i.high - share)), fmin(1, fraction + (share - i.low))}, at[2];
    values_at(s, ends, 2, at);
    return interval_json(fmin(at[0], value), fmax(at[1], value));
}

static json_t *intervals(const struct sample *s, const double *values, uint64_t seed)
{
    _cleanup_(freep) struct ratio *ratios = xcalloc(s->n_requests, sizeof(*ratios));
    json_t *j = json_object();

    json_object_set_new(j, "mean", mean_interval(s, ratios, seed));
    for (size_t i = 0; i < POINTS; i++)
        if (points[i].has_interval)
            json_object_set_new(j, points[i].name,
                                percentile_interval(s, points[i].fraction, values[i], ratios, seed));
    return j;
}

static json_t *empty(void)
{
    json_t *j = json_pack("{s: n, s: n}", "mean", "std");

    for (size_t i = 0; i < POINTS; i++)
        json_object_set_new(j, points[i].name, json_null());
    json_object_update_new(j, json_pack("{s: i, s: n}", "count", 0, "ci95"));
    return j;
}

json_t *distribution_json(const struct sample *s, uint64_t seed)
{
    double fractions[POINTS], values[POINTS];

    if (s->n == 0)
        return empty();
    struct moments m = moments_of(s);
    json_t *j = json_pack("{s: f, s: f}", "mean", m.mean / NS_PER_MS, "std", m.std / NS_PER_MS);
    for (size_t i = 0; i < POINTS; i++)
        fractions[i] = points[i].fraction;
    values_at(s, fractions, POINTS, values);
    for (size_t i = 0; i < POINTS; i++)
        json_object_set_new(j, points[i].name, json_real(values[i] / NS_PER_MS));
    json_object_set_new(j, "count", json_integer((json_int_t)s->n));
    json_object_set_new(j, "ci95",
                        s->n_requests < BOOTSTRAP_REQUESTS_MIN ? json_null() : intervals(s, values, seed));
    return j;
}
