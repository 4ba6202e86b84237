/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/statistics.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/statistics.h"
#include "daemon/load/random.h"
#include <math.h>

/* All gaps are counted by their upper 16 bits; those that share them with a wanted rank, by the lower 16. */
#define HALF_BITS   16
#define HALF_VALUES (1u << HALF_BITS)
#define RANKS_MAX   32 /* that are read in one pass */

static int compare_doubles(const void *x, const void *y)
{
    const double *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

/* -- Figures -- */

static const char *const figure_names[_FIGURE_MAX] = {
    [FIGURE_TTFT] = "ttft_ms",
    [FIGURE_ITL] = "itl_ms",
    [FIGURE_TPOT] = "tpot_ms",
    [FIGURE_E2E] = "e2e_ms",
    [FIGURE_LATENESS] = "send_lateness_ms",
};

const char *load_figure_name(enum load_figure f)
{
    return figure_names[f];
}

bool load_figure_of(enum load_figure f, const struct request_record *r, int64_t *ret)
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

void sample_of(enum load_figure f, const struct request_record *records, size_t n,
               bool (*belongs)(const struct request_record *r), struct sample *ret)
{
    struct sample s = {.figure = f};

    s.requests = xcalloc(n, sizeof(*s.requests));
    if (f != FIGURE_ITL)
        s.values = xcalloc(n, sizeof(*s.values));
    for (size_t i = 0; i < n; i++) {
        const struct request_record *r = &records[i];
        if (!belongs(r) ||
            (f == FIGURE_ITL ? r->n_gaps == 0 : !load_figure_of(f, r, &s.values[s.n_requests])))
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
} distribution_points[] = {
    {"min", 0, false},    {"p1", 0.01, false}, {"p5", 0.05, false},     {"p10", 0.10, false},
    {"p25", 0.25, false}, {"p50", 0.50, true}, {"p75", 0.75, false},    {"p90", 0.90, false},
    {"p95", 0.95, false}, {"p99", 0.99, true}, {"p99.9", 0.999, false}, {"max", 1, false},
};
#define DISTRIBUTION_POINTS ARRAY_SIZE(distribution_points)

_Static_assert(2 * DISTRIBUTION_POINTS <= RANKS_MAX, "all points are read in one pass");

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

static json_t *distribution_interval_json(double low, double high)
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
    return distribution_interval_json(fmin(at[0], value), fmax(at[1], value));
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
    json_object_set_new(j, "mean", distribution_interval_json(mean.low, mean.high));
    for (size_t i = 0; i < DISTRIBUTION_POINTS; i++)
        if (distribution_points[i].has_interval)
            json_object_set_new(j, distribution_points[i].name,
                                distribution_percentile_interval(s, distribution_points[i].fraction,
                                                                 values[i], ratios, seed));
    return j;
}

json_t *distribution_json(const struct sample *s, uint64_t seed)
{
    double fractions[DISTRIBUTION_POINTS], values[DISTRIBUTION_POINTS], sum = 0, squares = 0;
    json_t *j = json_object();

    for (size_t i = 0; i < s->n_requests; i++)
        sum += sample_part(s, i, 0, 0).sum;
    double mean = sum / (double)s->n;
    for (size_t i = 0; i < s->n_requests; i++)
        squares += sample_part(s, i, mean, 0).squares;
    for (size_t i = 0; i < DISTRIBUTION_POINTS; i++)
        fractions[i] = distribution_points[i].fraction;
    if (s->n > 0)
        sample_values_at(s, fractions, DISTRIBUTION_POINTS, values);
    json_object_set_new(j, "mean", json_number(mean / NS_PER_MS));
    json_object_set_new(j, "std", json_number(sqrt(squares / (double)s->n) / NS_PER_MS));
    for (size_t i = 0; i < DISTRIBUTION_POINTS; i++)
        json_object_set_new(j, distribution_points[i].name,
                            s->n > 0 ? json_real(values[i] / NS_PER_MS) : json_null());
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

size_t moments_before(const int64_t *moments, size_t stride, size_t n, int64_t at_ns)
{
    size_t from = 0;

    while (n > 0) {
        size_t half = n / 2;
        if (*(const int64_t *)((const char *)moments + (from + half) * stride) < at_ns) {
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
    size_t size = sizeof(*c->starts);
    return moments_before(c->starts, size, c->n, moment_ns + 1) -
           moments_before(c->ends, size, c->n, moment_ns + 1);
}

/* -- Correlation -------------------------------------------------------------------------------------- */

static double correlation_mean(const double *values, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum / (double)n;
}

double correlation(const double *x, const double *y, size_t n)
{
    double xx = 0, yy = 0, xy = 0;

    if (n < CORRELATION_MIN)
        return NAN;
    double x_mean = correlation_mean(x, n), y_mean = correlation_mean(y, n);
    for (size_t i = 0; i < n; i++) {
        xx += (x[i] - x_mean) * (x[i] - x_mean);
        yy += (y[i] - y_mean) * (y[i] - y_mean);
        xy += (x[i] - x_mean) * (y[i] - y_mean);
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

struct indexed_value {
    double value; /* first: sorted by compare_doubles() */
    size_t index;
};

static double *correlation_ranks(const double *values, size_t n)
{
    _cleanup_(freep) struct indexed_value *sorted = xcalloc(n, sizeof(*sorted));
    double *ranks = xcalloc(n, sizeof(*ranks));

    for (size_t i = 0; i < n; i++)
        sorted[i] = (struct indexed_value){values[i], i};
    qsort(sorted, n, sizeof(*sorted), compare_doubles);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && sorted[to].value == sorted[from].value;)
            to++;
        for (size_t i = from; i < to; i++)
            ranks[sorted[i].index] = (double)(from + to - 1) / 2;
    }
    return ranks;
}

double rank_correlation(const double *x, const double *y, size_t n)
{
    if (n < CORRELATION_MIN)
        return NAN;
    _cleanup_(freep) double *x_ranks = correlation_ranks(x, n);
    _cleanup_(freep) double *y_ranks = correlation_ranks(y, n);
    return correlation(x_ranks, y_ranks, n);
}

/* -- Trend -------------------------------------------------------------------------------------------- */

static struct moment_value trend_window(const struct moment_value *values, size_t n)
{
    _cleanup_(freep) double *only = xcalloc(n, sizeof(*only));

    for (size_t i = 0; i < n; i++)
        only[i] = values[i].value;
    return (struct moment_value){values[n / 2].at_ns, sample_median(only, n)};
}

/* Probability of a Kendall sum of s; ties reduce the variance by t (t - 1) (2 t + 5) of each t equal values. */
static double trend_p(const struct moment_value *windows, size_t n, double s)
{
    double values[TREND_WINDOWS_MAX] = {0}, ties = 0, count = (double)n;

    for (size_t i = 0; i < n; i++)
        values[i] = windows[i].value;
    qsort(values, n, sizeof(*values), compare_doubles);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && values[to] == values[from];)
            to++;
        double t = (double)(to - from);
        ties += t * (t - 1) * (2 * t + 5);
    }
    double variance = (count * (count - 1) * (2 * count + 5) - ties) / 18;
    return variance <= 0 || s == 0 ? 1 : erfc((fabs(s) - 1) / sqrt(variance) / sqrt(2));
}

bool trend_of(const struct moment_value *values, size_t n, struct trend *ret)
{
    struct moment_value w[TREND_WINDOWS_MAX];
    double slopes[TREND_WINDOWS_MAX * (TREND_WINDOWS_MAX - 1) / 2] = {0}, s = 0;
    size_t windows = MIN(n, TREND_WINDOWS_MAX), n_slopes = 0;

    if (n < TREND_VALUES_MIN)
        return false;
    for (size_t i = 0; i < windows; i++) {
        size_t from = i * n / windows, to = (i + 1) * n / windows;
        w[i] = trend_window(values + from, to - from);
    }
    for (size_t i = 0; i < windows; i++)
        for (size_t k = i + 1; k < windows; k++) {
            s += (w[k].value > w[i].value) - (w[k].value < w[i].value);
            if (w[k].at_ns > w[i].at_ns)
                slopes[n_slopes++] =
                    (w[k].value - w[i].value) / ((double)(w[k].at_ns - w[i].at_ns) / NS_PER_S);
        }
    *ret = (struct trend){
        .windows = windows,
        .tau = s / ((double)windows * (double)(windows - 1) / 2),
        .p = trend_p(w, windows, s),
        .slope_per_s = n_slopes > 0 ? sample_median(slopes, n_slopes) : 0,
        .first = w[0].value,
        .last = w[windows - 1].value,
    };
    return true;
}

/* -- Confidence intervals ----------------------------------------------------------------------------- */

struct interval95 bootstrap_ratio(const struct ratio *requests, size_t n, uint64_t seed)
{
    struct ratio units[BOOTSTRAP_UNITS_MAX];
    double results[BOOTSTRAP_DRAWS];
    size_t n_units = MIN(n, BOOTSTRAP_UNITS_MAX), tail = BOOTSTRAP_DRAWS * 25 / 1000;
    struct random random = {seed};

    for (size_t u = 0; u < n_units; u++) {
        units[u] = (struct ratio){0};
        for (size_t i = u * n / n_units; i < (u + 1) * n / n_units; i++) {
            units[u].above += requests[i].above;
            units[u].below += requests[i].below;
        }
    }
    for (size_t d = 0; d < BOOTSTRAP_DRAWS; d++) {
        struct ratio sum = {0};
        for (size_t u = 0; u < n_units; u++) {
            const struct ratio *drawn = &units[(random_next(&random) >> 32) * n_units >> 32];
            sum.above += drawn->above;
            sum.below += drawn->below;
        }
        results[d] = sum.below > 0 ? sum.above / sum.below : 0;
    }
    qsort(results, BOOTSTRAP_DRAWS, sizeof(*results), compare_doubles);
    return (struct interval95){results[tail], results[BOOTSTRAP_DRAWS - 1 - tail]};
}

/* -- Series ------------------------------------------------------------------------------------------- */

void series_add(struct series *s, int64_t value)
{
    if (value < 0)
        return;
    if (s->n++ == 0)
        s->baseline = s->low = s->peak = value;
    s->low = MIN(s->low, value);
    s->peak = MAX(s->peak, value);
    s->end = value;
    s->sum += (double)value;
    double distance = (double)value - s->mean;
    s->mean += distance / (double)s->n;
    s->squares += distance * ((double)value - s->mean);
}

json_t *series_json(const struct series *s)
{
    if (s->n == 0)
        return json_null();
    return json_pack("{s: I, s: I, s: I, s: I, s: I, s: f, s: f, s: I}", "n", (json_int_t)s->n, "baseline",
                     (json_int_t)s->baseline, "peak", (json_int_t)s->peak, "difference",
                     (json_int_t)(s->peak - s->baseline), "low", (json_int_t)s->low, "mean",
                     s->sum / (double)s->n, "std", sqrt(s->squares / (double)s->n), "end",
                     (json_int_t)s->end);
}
