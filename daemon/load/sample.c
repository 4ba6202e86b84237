/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/sample.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/statistics.h"
#include "daemon/load/statistics.h"
#include <math.h>

/* All gaps are counted by their upper 16 bits; those that share them with a wanted rank, by the lower 16. */
#define HALF_BITS   16
#define HALF_VALUES (1u << HALF_BITS)
#define RANKS_MAX   32 /* that are read in one pass */

static const char *const figure_names[_FIGURE_MAX] = {
    [FIGURE_TTFT] = "ttft_ms",
    [FIGURE_ITL] = "itl_ms",
    [FIGURE_TPOT] = "tpot_ms",
    [FIGURE_E2E] = "e2e_ms",
    [FIGURE_LATENESS] = "send_lateness_ms",
};

const char *figure_name(enum figure f)
{
    return figure_names[f];
}

bool figure_of(enum figure f, const struct request_record *r, int64_t *ret)
{
    switch (f) {
    case FIGURE_TTFT:
        *ret = r->first_ns - r->intended_ns;
        return r->first_ns >= 0;
    case FIGURE_E2E:
        *ret = r->end_ns - r->intended_ns;
        return r->end_ns >= 0;
    case FIGURE_LATENESS:
        *ret = r->sent_ns - r->intended_ns;
        return r->sent_ns >= 0;
    case FIGURE_TPOT:
        /* Tokens that all arrived at one moment have no time between them. */
        if (r->output_tokens < 2 || r->first_ns < 0 || r->end_ns < 0 || r->last_ns == r->first_ns)
            return false;
        *ret = (r->end_ns - r->first_ns) / (r->output_tokens - 1);
        return true;
    default:
        return false;
    }
}

void sample_of(enum figure f, const struct request_record *records, size_t n,
               bool (*belongs)(const struct request_record *r), struct sample *ret)
{
    struct sample s = {.figure = f};

    s.requests = xcalloc(n, sizeof(*s.requests));
    if (f != FIGURE_ITL)
        s.values = xcalloc(n, sizeof(*s.values));
    for (size_t i = 0; i < n; i++) {
        const struct request_record *r = &records[i];
        if (!belongs(r) || (f == FIGURE_ITL ? r->n_gaps == 0 : !figure_of(f, r, &s.values[s.n_requests])))
            continue;
        s.requests[s.n_requests++] = r;
        s.n += f == FIGURE_ITL ? r->n_gaps : 1;
    }
    if (f == FIGURE_ITL) {
        s.coarse = xcalloc(HALF_VALUES, sizeof(*s.coarse));
        for (size_t i = 0; i < s.n_requests; i++)
            for (uint32_t g = 0; g < s.requests[i]->n_gaps; g++)
                s.coarse[s.requests[i]->gaps_us[g] >> HALF_BITS]++;
    } else {
        s.sorted = xcalloc(s.n, sizeof(*s.sorted));
        if (s.n > 0)
            memcpy(s.sorted, s.values, s.n * sizeof(*s.sorted));
        sort_ns(s.sorted, s.n);
    }
    *ret = s;
}

void sample_done(struct sample *s)
{
    free(s->requests);
    free(s->values);
    free(s->sorted);
    free(s->coarse);
    *s = (struct sample){0};
}

/* The value whose counts contain a rank; *rank becomes the rank among its equals. */
static uint32_t sample_counted_at(const uint64_t *counts, uint64_t *rank)
{
    uint32_t value = 0;

    while (*rank >= counts[value])
        *rank -= counts[value++];
    return value;
}

/* The values at n ranks (0 is the smallest, each below s->n), exact. Of gaps this is one pass over them. */
static void sample_at(const struct sample *s, const uint64_t *ranks, size_t n, int64_t *ret)
{
    if (s->figure != FIGURE_ITL) {
        for (size_t k = 0; k < n; k++)
            ret[k] = s->sorted[ranks[k]];
        return;
    }
    _cleanup_(freep) uint64_t *fine = xcalloc(n * HALF_VALUES, sizeof(*fine));
    _cleanup_(freep) uint64_t **wanted = xcalloc(HALF_VALUES, sizeof(*wanted));
    uint64_t left[RANKS_MAX];
    uint32_t upper[RANKS_MAX];

    for (size_t k = 0; k < n; k++) {
        left[k] = ranks[k];
        upper[k] = sample_counted_at(s->coarse, &left[k]);
        if (!wanted[upper[k]])
            wanted[upper[k]] = fine + k * HALF_VALUES;
    }
    for (size_t i = 0; i < s->n_requests; i++)
        for (uint32_t g = 0; g < s->requests[i]->n_gaps; g++) {
            uint32_t gap = s->requests[i]->gaps_us[g];
            if (wanted[gap >> HALF_BITS])
                wanted[gap >> HALF_BITS][gap & (HALF_VALUES - 1)]++;
        }
    for (size_t k = 0; k < n; k++)
        ret[k] =
            (((int64_t)upper[k] << HALF_BITS) + sample_counted_at(wanted[upper[k]], &left[k])) * NS_PER_US;
}

/* Of a request: sum of its values and of their squared distances from `centre`, their number, and the number that
 * does not exceed `bound`. */
struct sample_part {
    double sum, squares, n, below;
};

static void sample_part_add(struct sample_part *part, double value, double centre, double bound)
{
    part->sum += value;
    part->squares += (value - centre) * (value - centre);
    part->n++;
    part->below += value <= bound;
}

static struct sample_part sample_part(const struct sample *s, size_t request, double centre, double bound)
{
    const struct request_record *r = s->requests[request];
    struct sample_part part = {0};

    if (s->figure != FIGURE_ITL)
        sample_part_add(&part, (double)s->values[request], centre, bound);
    else
        for (uint32_t g = 0; g < r->n_gaps; g++)
            sample_part_add(&part, (double)r->gaps_us[g] * NS_PER_US, centre, bound);
    return part;
}

/* -- Distribution ------------------------------------------------------------------------------------- */

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

_Static_assert(2 * POINTS <= RANKS_MAX, "all points are read in one pass");

/* Values at fractions 0 to 1 of a sample that has any. */
static void sample_values_at(const struct sample *s, const double *fractions, size_t n, double *ret)
{
    uint64_t ranks[RANKS_MAX];
    int64_t values[RANKS_MAX];

    for (size_t i = 0; i < n; i++) {
        ranks[2 * i] = (uint64_t)(fractions[i] * (double)(s->n - 1));
        ranks[2 * i + 1] = MIN(ranks[2 * i] + 1, s->n - 1);
    }
    sample_at(s, ranks, 2 * n, values);
    for (size_t i = 0; i < n; i++) {
        double position = fractions[i] * (double)(s->n - 1), low = (double)values[2 * i];
        ret[i] = low + (position - (double)ranks[2 * i]) * ((double)values[2 * i + 1] - low);
    }
}

static json_t *interval_json(double low, double high)
{
    return json_pack("[f, f]", low / NS_PER_MS, high / NS_PER_MS);
}

/* The share of values that do not exceed the percentile differs in other requests: the interval ends at the values
 * whose share is off by as much to either side. */
static json_t *distribution_percentile_interval(const struct sample *s, double fraction, double value,
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
    sample_values_at(s, ends, 2, at);
    return interval_json(fmin(at[0], value), fmax(at[1], value));
}

static json_t *distribution_intervals(const struct sample *s, const double *values, uint64_t seed)
{
    _cleanup_(freep) struct ratio *ratios = xcalloc(s->n_requests, sizeof(*ratios));
    json_t *j = json_object();

    for (size_t i = 0; i < s->n_requests; i++) {
        struct sample_part part = sample_part(s, i, 0, 0);
        ratios[i] = (struct ratio){part.sum, part.n};
    }
    struct interval95 mean = bootstrap_ratio(ratios, s->n_requests, seed);
    json_object_set_new(j, "mean", interval_json(mean.low, mean.high));
    for (size_t i = 0; i < POINTS; i++)
        if (points[i].has_interval)
            json_object_set_new(
                j, points[i].name,
                distribution_percentile_interval(s, points[i].fraction, values[i], ratios, seed));
    return j;
}

json_t *distribution_json(const struct sample *s, uint64_t seed)
{
    double fractions[POINTS], values[POINTS], sum = 0, squares = 0;
    json_t *j = json_object();

    for (size_t i = 0; i < s->n_requests; i++)
        sum += sample_part(s, i, 0, 0).sum;
    double mean = sum / (double)s->n;
    for (size_t i = 0; i < s->n_requests; i++)
        squares += sample_part(s, i, mean, 0).squares;
    for (size_t i = 0; i < POINTS; i++)
        fractions[i] = points[i].fraction;
    if (s->n > 0)
        sample_values_at(s, fractions, POINTS, values);
    json_object_set_new(j, "mean", json_number(mean / NS_PER_MS));
    json_object_set_new(j, "std", json_number(sqrt(squares / (double)s->n) / NS_PER_MS));
    for (size_t i = 0; i < POINTS; i++)
        json_object_set_new(j, points[i].name, s->n > 0 ? json_real(values[i] / NS_PER_MS) : json_null());
    json_object_set_new(j, "count", json_integer((json_int_t)s->n));
    json_object_set_new(j, "ci95",
                        s->n_requests < BOOTSTRAP_REQUESTS_MIN ? json_null()
                                                               : distribution_intervals(s, values, seed));
    return j;
}

/* -- Concurrency -------------------------------------------------------------------------------------- */

void concurrency_of(const struct request_record *records, size_t n, struct concurrency *ret)
{
    *ret = (struct concurrency){
        .starts = xcalloc(n, sizeof(*ret->starts)),
        .ends = xcalloc(n, sizeof(*ret->ends)),
    };
    for (size_t i = 0; i < n; i++)
        if (records[i].sent_ns >= 0 && records[i].end_ns > records[i].sent_ns) {
            ret->starts[ret->n] = records[i].sent_ns;
            ret->ends[ret->n++] = records[i].end_ns;
        }
    sort_ns(ret->starts, ret->n);
    sort_ns(ret->ends, ret->n);
}

void concurrency_done(struct concurrency *c)
{
    free(c->starts);
    free(c->ends);
    *c = (struct concurrency){0};
}

size_t concurrency_peak(const struct concurrency *c)
{
    size_t peak = 0, ended = 0;

    for (size_t started = 0; started < c->n; started++) {
        while (c->ends[ended] <= c->starts[started])
            ended++;
        peak = MAX(peak, started + 1 - ended);
    }
    return peak;
}

/* How many of n sorted moments are not after now_ns. */
static size_t concurrency_count(const int64_t *moments, size_t n, int64_t now_ns)
{
    size_t from = 0;

    while (n > 0) {
        size_t half = n / 2;
        if (moments[from + half] <= now_ns) {
            from += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return from;
}

size_t concurrency_at(const struct concurrency *c, int64_t moment_ns)
{
    return concurrency_count(c->starts, c->n, moment_ns) - concurrency_count(c->ends, c->n, moment_ns);
}
