/* SPDX-License-Identifier: Apache-2.0 */
#include "base/run_compare.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/request_json.h"

#include <math.h>

/* Of more gaps every second, third, ... is used: their distribution is the same. */
#define GAPS_MAX 4000000

/* -- Figures --------------------------------------------------------------------------------- */

static const struct compared_latency {
    const char *metric,
        *member; /* of the run and of a request, in nanoseconds; NULL: the gaps between tokens */
} latencies[] = {
    {"ttft_ms", "ttft_ns"},
    {"itl_ms", NULL},
    {"tpot_ms", "tpot_ns"},
    {"e2e_ms", "e2e_ns"},
    {"send_lateness_ms", "lateness_ns"},
};

static const struct compared_point {
    const char *name;
    double fraction;
} points[] = {{"mean", FRACTION_MEAN}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}};

/* The quantity of a request that a throughput adds up. */
enum flow { FLOW_NONE, FLOW_REQUESTS, FLOW_INPUT, FLOW_OUTPUT, FLOW_TOKENS };

static const struct compared_single {
    const char *group, *metric, *path; /* in the run */
    const char *outcome;               /* a count of requests with it */
    enum flow flow;
    bool is_per_user; /* the mean of 1 / TPOT over warm requests */
} singles[] = {
    {"requests", "success", "requests/success", .outcome = "success"},
    {"requests", "incomplete", "requests/incomplete", .outcome = "incomplete"},
    {"requests", "error", "requests/error", .outcome = "error"},
    {"throughput", "requests_per_s", "throughput/requests_per_s", .flow = FLOW_REQUESTS},
    {"throughput", "input_tokens_per_s", "throughput/input_tokens_per_s", .flow = FLOW_INPUT},
    {"throughput", "output_tokens_per_s", "throughput/output_tokens_per_s", .flow = FLOW_OUTPUT},
    {"throughput", "total_tokens_per_s", "throughput/total_tokens_per_s", .flow = FLOW_TOKENS},
    {"throughput", "output_tokens_per_s_per_user", "throughput/output_tokens_per_s_per_user",
     .is_per_user = true},
    {"throughput", "goodput_share", "goodput/share"},
    {"throughput", "peak_concurrency", "peak_concurrency"},
};

/* -- A single run: its spread between blocks of requests ------------------------------------- */

struct values {
    struct timed_value *items;
    size_t n, n_requests;
};

static void values_add(struct values *v, double value, unsigned block)
{
    if (isfinite(value))
        v->items[v->n++] = (struct timed_value){value, block};
}

/* Of a warm request in milliseconds, or per second; NAN: none. */
static double row_value(const json_t *row, const char *member, bool is_rate)
{
    double seconds = row_is_warm(row) ? row_seconds(row, member) : NAN;

    return is_rate ? 1 / seconds : 1e3 * seconds;
}

/* Rows are in order of their intended times, and so are blocks. */
static struct values values_of(const json_t *rows, const char *member, bool is_rate)
{
    struct values v = {xcalloc(json_array_size(rows) + 1, sizeof(*v.items)), 0, 0};
    const json_t *row;
    size_t i, at = 0;

    json_array_foreach(rows, i, row)
        v.n_requests += isfinite(row_value(row, member, is_rate));
    json_array_foreach(rows, i, row)
        if (isfinite(row_value(row, member, is_rate)))
            values_add(&v, row_value(row, member, is_rate), block_of(at++, v.n_requests, COMPARE_BLOCKS));
    timed_values_sort(v.items, v.n);
    return v;
}

static size_t rows_count_gaps(const json_t *rows, size_t *ret_requests)
{
    const json_t *row;
    size_t i, n = 0;

    *ret_requests = 0;
    json_array_foreach(rows, i, row)
        if (row_is_warm(row)) {
            _cleanup_json_ gaps = row_gaps(row);
            n += json_array_size(gaps);
            *ret_requests += json_array_size(gaps) > 0;
        }
    return n;
}

static struct values values_of_gaps(const json_t *rows)
{
    size_t n_requests, n = rows_count_gaps(rows, &n_requests), stride = n / GAPS_MAX + 1, i, at = 0, seen = 0;
    struct values v = {xcalloc(n / stride + 2, sizeof(*v.items)), 0, n_requests};
    const json_t *row;

    json_array_foreach(rows, i, row)
        if (row_is_warm(row)) {
            _cleanup_json_ gaps = row_gaps(row);
            size_t n_gaps = json_array_size(gaps);
            for (size_t k = 0; k < n_gaps; k++)
                if (seen++ % stride == 0)
                    values_add(&v, json_number_value(json_array_get(gaps, k)) / 1e3,
                               block_of(at, n_requests, COMPARE_BLOCKS));
            at += n_gaps > 0;
        }
    timed_values_sort(v.items, v.n);
    return v;
}

/* The part of [from, to) that lies in a window. */
static double interval_overlap(double from, double to, double window_from, double window_to)
{
    double length = to - from;

    if (!(length > 0))
        return from >= window_from && from < window_to ? 1 : 0;
    return fmax(0, fmin(to, window_to) - fmax(from, window_from)) / length;
}

/* A request adds its quantity evenly while it is in flight. */
static void flow_add(const json_t *row, enum flow flow, double from, double part, struct ratio_sums *blocks)
{
    double input = json_get_number(row, "input_tokens", 0), output = json_get_number(row, "output_tokens", 0);
    const double quantities[] = {
        [FLOW_REQUESTS] = 1, [FLOW_INPUT] = input, [FLOW_OUTPUT] = output, [FLOW_TOKENS] = input + output};
    double sent = row_seconds(row, "intended_ns"), end = sent + row_seconds(row, "e2e_ns");

    if (!row_has_outcome(row, "success") || !isfinite(end))
        return;
    for (unsigned b = 0; b < COMPARE_BLOCKS; b++)
        blocks[b].above +=
            quantities[flow] * interval_overlap(sent, end, from + b * part, from + (b + 1) * part);
}

/* The rate in equal parts of the time in which requests are sent; afterwards, the load runs out. */
static struct estimate estimate_flow(const json_t *rows, enum flow flow)
{
    struct ratio_sums blocks[COMPARE_BLOCKS] = {{0}};
    double from = INFINITY, to = -INFINITY;
    const json_t *row;
    size_t i;

    json_array_foreach(rows, i, row) {
        double sent = row_seconds(row, "intended_ns");
        from = isfinite(sent) ? fmin(from, sent) : from;
        to = isfinite(sent) ? fmax(to, sent) : to;
    }
    double part = (to - from) / COMPARE_BLOCKS;
    if (!(part > 0))
        return ESTIMATE_UNKNOWN;
    for (unsigned b = 0; b < COMPARE_BLOCKS; b++)
        blocks[b].below = part;
    json_array_foreach(rows, i, row)
        flow_add(row, flow, from, part, blocks);
    return ratio_as_run(blocks, COMPARE_BLOCKS);
}

static struct estimate estimate_outcome(const json_t *rows, const char *outcome)
{
    struct ratio_sums blocks[COMPARE_BLOCKS] = {{0}};
    size_t n = json_array_size(rows), i;
    const json_t *row;

    json_array_foreach(rows, i, row) {
        unsigned b = block_of(i, n, COMPARE_BLOCKS);
        blocks[b].above += row_has_outcome(row, outcome);
        blocks[b].below += 1;
    }
    struct estimate e = ratio_as_run(blocks, COMPARE_BLOCKS);
    e.unit_sd *= (double)n;
    return e;
}

static struct estimate estimate_single(const json_t *rows, const struct compared_single *s,
                                       size_t *ret_requests)
{
    *ret_requests = json_array_size(rows);
    if (s->outcome)
        return estimate_outcome(rows, s->outcome);
    if (s->flow != FLOW_NONE)
        return estimate_flow(rows, s->flow);
    if (!s->is_per_user)
        return ESTIMATE_UNKNOWN;
    struct values v = values_of(rows, "tpot_ns", true);
    struct estimate e = values_as_run(v.items, v.n, COMPARE_BLOCKS, FRACTION_MEAN);
    *ret_requests = v.n_requests;
    free(v.items);
    return e;
}

/* -- Figures of runs ---------------------------------------------------------------------------------- */

/* The figures of all runs of a side, each a unit; the spread of a single run is estimated from its requests. */
struct side_figure {
    double *values;
    size_t n;
    struct estimate of_rows;
    size_t n_requests; /* of of_rows */
};

static struct estimate estimate_side(const struct side_figure *f)
{
    struct estimate e = estimate_of_units(f->values, f->n);

    if (f->n == 1) {
        e.unit_sd = sqrt(COMPARE_RUN_VARIANCE) * f->of_rows.unit_sd;
        e.df = f->of_rows.df;
    }
    return e;
}

static void figure_conclude(struct compared_figure *f)
{
    f->difference = estimate_contrast(&f->a, &f->b, 1);
    if (isfinite(f->difference.value) && f->difference.value != 0)
        f->runs_needed = estimate_units_needed(&f->a, &f->b, 1, f->difference.value);
    f->result = f->requests_min > 0            ? COMPARED_TOO_FEW
                : !isfinite(f->difference.low) ? COMPARED_NOT_TESTED
                : f->difference.low > 0        ? COMPARED_HIGHER
                : f->difference.high < 0       ? COMPARED_LOWER
                                               : COMPARED_UNCLEAR;
}

/* Compared with several runs, a single one is assumed to vary as they do, unless it drifts more. */
static void estimate_borrow_spread(struct estimate *single, const struct estimate *several)
{
    if (single->n == 1 && several->n > 1 && !(single->unit_sd > several->unit_sd))
        single->unit_sd = NAN;
}

static void comparison_add(struct runs_comparison *c, const char *group, const char *metric,
                           const char *figure, const struct side_figure *a, const struct side_figure *b)
{
    struct compared_figure *f = &c->figures[c->n];

    *f = (struct compared_figure){
        .group = group, .metric = metric, .figure = figure, .a = estimate_side(a), .b = estimate_side(b)};
    if (!isfinite(f->a.value) && !isfinite(f->b.value))
        return;
    bool knows_runs = f->a.n > 1 || f->b.n > 1;
    f->n_a = knows_runs ? f->a.n : a->n_requests;
    f->n_b = knows_runs ? f->b.n : b->n_requests;
    estimate_borrow_spread(&f->a, &f->b);
    estimate_borrow_spread(&f->b, &f->a);
    if (!knows_runs && ((isfinite(f->a.unit_sd) && a->n_requests < COMPARE_REQUESTS_MIN) ||
                        (isfinite(f->b.unit_sd) && b->n_requests < COMPARE_REQUESTS_MIN)))
        f->requests_min = COMPARE_REQUESTS_MIN;
    figure_conclude(f);
    c->n++;
}

/* A figure of all runs of a side that have it, by its path. The caller frees the values. */
static struct side_figure side_gather(const struct compared_side *side, const char *path)
{
    struct side_figure f = {.values = xcalloc(json_array_size(side->runs) + 1, sizeof(*f.values)),
                            .of_rows = ESTIMATE_UNKNOWN};
    const json_t *run;
    size_t i;

    json_array_foreach(side->runs, i, run) {
        f.values[f.n] = run_supported_figure(run, path);
        f.n += isfinite(f.values[f.n]);
    }
    return f;
}

static struct side_figure side_gather_single(const struct compared_side *side,
                                             const struct compared_single *s)
{
    struct side_figure f = side_gather(side, s->path);

    if (side->requests)
        f.of_rows = estimate_single(side->requests, s, &f.n_requests);
    return f;
}

static struct side_figure side_gather_latency(const struct compared_side *side, const struct values *v,
                                              const struct compared_latency *l,
                                              const struct compared_point *point)
{
    _cleanup_(freep) char *path = xasprintf("metrics/%s/%s", l->metric, point->name);
    struct side_figure f = side_gather(side, path);

    f.n_requests = v->n_requests;
    if (side->requests)
        f.of_rows = values_as_run(v->items, v->n, COMPARE_BLOCKS, point->fraction);
    return f;
}

static struct values latency_values(const struct compared_side *side, const struct compared_latency *l)
{
    if (!side->requests)
        return (struct values){0};
    return l->member ? values_of(side->requests, l->member, false) : values_of_gaps(side->requests);
}

static void compare_latency(const struct compared_side *a, const struct compared_side *b,
                            const struct compared_latency *l, struct runs_comparison *ret)
{
    struct values of_a = latency_values(a, l), of_b = latency_values(b, l);

    for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
        struct side_figure x = side_gather_latency(a, &of_a, l, &points[i]),
                           y = side_gather_latency(b, &of_b, l, &points[i]);
        comparison_add(ret, "latency", l->metric, points[i].name, &x, &y);
        free(x.values);
        free(y.values);
    }
    free(of_a.items);
    free(of_b.items);
}

/* -- Workloads ---------------------------------------------------------------------------------------- */

static void workload_note_difference(json_t *list, const char *member, const json_t *a, const json_t *b)
{
    if (a == b || json_equal(a, b))
        return;
    json_array_append_new(list, json_pack("{s: s, s: O?, s: O?}", "member", member, "a", a, "b", b));
}

static json_t *workload_json(json_t *run_a, json_t *run_b)
{
    json_t *list = json_array(), *a = json_object_get(run_a, "workload"),
           *b = json_object_get(run_b, "workload"), *value;
    const char *member;

    workload_note_difference(list, "model", json_object_get(run_a, "model"), json_object_get(run_b, "model"));
    json_object_foreach(a, member, value)
        workload_note_difference(list, member, value, json_object_get(b, member));
    json_object_foreach(b, member, value)
        if (!json_object_get(a, member))
            workload_note_difference(list, member, NULL, value);
    return list;
}

static json_t *numbers_json(const json_t *runs)
{
    json_t *list = json_array();
    const json_t *run;
    size_t i;

    json_array_foreach(runs, i, run)
        json_array_append(list, json_object_get(run, "run"));
    return list;
}

/* ----------------------------------------------------------------------------------------------------- */

void runs_compare(const struct compared_side *a, const struct compared_side *b, struct runs_comparison *ret)
{
    size_t most = ARRAY_SIZE(singles) + ARRAY_SIZE(latencies) * ARRAY_SIZE(points);

    *ret = (struct runs_comparison){
        .figures = xcalloc(most + 1, sizeof(*ret->figures)),
        .workload = workload_json(json_array_get(a->runs, 0), json_array_get(b->runs, 0)),
        .a = numbers_json(a->runs),
        .b = numbers_json(b->runs),
        .has_several = json_array_size(a->runs) > 1 || json_array_size(b->runs) > 1,
    };
    for (size_t i = 0; i < ARRAY_SIZE(singles); i++) {
        struct side_figure x = side_gather_single(a, &singles[i]), y = side_gather_single(b, &singles[i]);
        comparison_add(ret, singles[i].group, singles[i].metric, NULL, &x, &y);
        free(x.values);
        free(y.values);
    }
    for (size_t i = 0; i < ARRAY_SIZE(latencies); i++)
        compare_latency(a, b, &latencies[i], ret);
}

void runs_comparison_done(struct runs_comparison *c)
{
    free(c->figures);
    json_decref(c->workload);
    json_decref(c->a);
    json_decref(c->b);
    *c = (struct runs_comparison){0};
}

const struct compared_figure *runs_comparison_find(const struct runs_comparison *c, const char *name)
{
    size_t n = strcspn(name, ".");
    const char *figure = name[n] == '.' ? name + n + 1 : NULL;

    for (size_t i = 0; i < c->n; i++) {
        const struct compared_figure *f = &c->figures[i];
        /* "ttft" is "ttft_ms", too. */
        if (strncmp(f->metric, name, n) == 0 && (f->metric[n] == '\0' || streq(f->metric + n, "_ms")) &&
            streq(f->figure, figure))
            return f;
    }
    return NULL;
}

const char *compared_result_name(const struct compared_figure *f)
{
    static const struct {
        const char *of_latency, *other;
    } names[] = {
        [COMPARED_HIGHER] = {"slower", "higher"},
        [COMPARED_LOWER] = {"faster", "lower"},
        [COMPARED_UNCLEAR] = {"not distinguishable", "not distinguishable"},
        [COMPARED_TOO_FEW] = {"too few samples", "too few samples"},
        [COMPARED_NOT_TESTED] = {NULL, NULL},
    };

    return streq(f->group, "latency") ? names[f->result].of_latency : names[f->result].other;
}

static json_t *interval_json(double low, double high)
{
    return isfinite(low) && isfinite(high) ? json_pack("[f, f]", low, high) : json_null();
}

static json_t *figure_json(const struct compared_figure *f)
{
    double a = f->a.value, part = 100 / a;
    const struct contrast *d = &f->difference;

    return json_pack("{s: s, s: o, s: o, s: o, s: o, s: o, s: o, s: s?, s: o}",
                     f->figure ? "figure" : "metric", f->figure ? f->figure : f->metric, "a", json_number(a),
                     "b", json_number(f->b.value), "difference", json_number(d->value), "percent",
                     json_number(part * d->value), "ci95", interval_json(d->low, d->high), "percent_ci95",
                     interval_json(part * d->low, part * d->high), "result", compared_result_name(f),
                     "runs_needed", f->runs_needed ? json_integer((json_int_t)f->runs_needed) : json_null());
}

static json_t *latency_json(const struct compared_figure *first, size_t n)
{
    json_t *figures = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(figures, figure_json(&first[i]));
    return json_pack("{s: s, s: s?, s: o}", "metric", first->metric, "result", compared_result_name(first),
                     "figures", figures);
}

json_t *runs_comparison_json(const struct runs_comparison *c)
{
    json_t *groups = json_pack("{s: [], s: [], s: []}", "requests", "throughput", "latency");

    for (size_t i = 0, n; i < c->n; i += n) {
        const struct compared_figure *f = &c->figures[i];
        for (n = 1; f->figure && i + n < c->n && streq(c->figures[i + n].metric, f->metric);)
            n++;
        json_array_append_new(json_object_get(groups, f->group),
                              f->figure ? latency_json(f, n) : figure_json(f));
    }
    json_object_update_new(groups, json_pack("{s: O, s: O, s: s, s: O}", "a", c->a, "b", c->b, "unit",
                                             c->has_several ? "run" : "request", "workload", c->workload));
    return groups;
}
