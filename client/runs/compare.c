/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/compare.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/statistics.h"
#include "client/runs/rows.h"

#include <math.h>

static const char *const outcomes[] = {"success", "incomplete", "error"};

static const struct path {
    const char *object, *member; /* NULL: the run's own */
} throughputs[] = {
    {"throughput", "requests_per_s"},
    {"throughput", "input_tokens_per_s"},
    {"throughput", "output_tokens_per_s"},
    {"throughput", "total_tokens_per_s"},
    {"throughput", "output_tokens_per_s_per_user"},
    {"goodput", "share"},
    {NULL, "peak_concurrency"},
};

static double mean_gap(const json_t *row)
{
    _cleanup_json_ gaps = row_gaps(row);
    size_t n = json_array_size(gaps);
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += json_number_value(json_array_get(gaps, i));
    return n > 0 ? sum / (double)n * NS_PER_US / NS_PER_S : NAN;
}

static double ttft(const json_t *row)
{
    return row_seconds(row, "ttft_ns");
}

static double tpot(const json_t *row)
{
    return row_seconds(row, "tpot_ns");
}

static double e2e(const json_t *row)
{
    return row_seconds(row, "e2e_ns");
}

static double lateness(const json_t *row)
{
    return row_seconds(row, "lateness_ns");
}

static const struct latency {
    const char *metric;
    double (*of)(const json_t *row); /* in seconds, NAN none */
} latencies[] = {
    {"ttft_ms", ttft}, {"itl_ms", mean_gap},           {"tpot_ms", tpot},
    {"e2e_ms", e2e},   {"send_lateness_ms", lateness},
};

static const char *const figures[] = {"mean", "p50", "p90", "p99", "max"};

static json_t *pair_json(const char *kind, const char *name, const json_t *a, const json_t *b)
{
    double x = json_get_number(a, name, NAN), y = json_get_number(b, name, NAN);

    return json_pack("{s: s, s: o, s: o, s: o, s: o}", kind, name, "a", json_number(x), "b", json_number(y),
                     "difference", json_number(y - x), "percent", json_number(100 * (y - x) / x));
}

static json_t *requests_json(const json_t *a, const json_t *b)
{
    json_t *list = json_array();

    for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++)
        json_array_append_new(list, pair_json("metric", outcomes[i], json_object_get(a, "requests"),
                                              json_object_get(b, "requests")));
    return list;
}

static const json_t *at_object(const json_t *run, const char *object)
{
    return object ? json_object_get(run, object) : run;
}

static json_t *throughput_json(const json_t *a, const json_t *b)
{
    json_t *list = json_array();

    for (size_t i = 0; i < ARRAY_SIZE(throughputs); i++) {
        const struct path *p = &throughputs[i];
        json_t *pair = pair_json("metric", p->member, at_object(a, p->object), at_object(b, p->object));
        if (streq(p->object, "goodput"))
            json_object_set_new(pair, "metric", json_string("goodput_share"));
        json_array_append_new(list, pair);
    }
    return list;
}

struct values {
    int64_t *sorted;
    size_t n;
};

static struct values values_of(const json_t *rows, const struct latency *l)
{
    struct values v = {xcalloc(json_array_size(rows), sizeof(*v.sorted)), 0};
    const json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        double seconds = row_is_warm(row) ? l->of(row) : NAN;
        if (isfinite(seconds) && fabs(seconds) < (double)INT32_MAX)
            v.sorted[v.n++] = (int64_t)(seconds * NS_PER_S);
    }
    sort_ns(v.sorted, v.n);
    return v;
}

static const char *verdict_on(double p, const struct values *a, const struct values *b)
{
    int64_t before = percentile(a->sorted, a->n, 50), after = percentile(b->sorted, b->n, 50);

    if (p >= COMPARE_LEVEL || before == after)
        return "same";
    return after > before ? "slower" : "faster";
}

static void put_verdict(json_t *j, const json_t *rows_a, const json_t *rows_b, const struct latency *l)
{
    struct values a = values_of(rows_a, l), b = values_of(rows_b, l);
    bool any = a.n > 0 && b.n > 0;
    double p = p_of_difference(a.sorted, a.n, b.sorted, b.n);

    json_object_set_new(j, "p", any ? json_real(p) : json_null());
    json_object_set_new(j, "significant", json_boolean(any && p < COMPARE_LEVEL));
    json_object_set_new(j, "verdict", any ? json_string(verdict_on(p, &a, &b)) : json_null());
    free(a.sorted);
    free(b.sorted);
}

static json_t *latency_json(const json_t *run_a, const json_t *rows_a, const json_t *run_b,
                            const json_t *rows_b)
{
    json_t *list = json_array();

    for (size_t i = 0; i < ARRAY_SIZE(latencies); i++) {
        const char *metric = latencies[i].metric;
        const json_t *a = json_object_get(json_object_get(run_a, "metrics"), metric),
                     *b = json_object_get(json_object_get(run_b, "metrics"), metric);
        json_t *pairs = json_array();
        for (size_t f = 0; f < ARRAY_SIZE(figures); f++)
            json_array_append_new(pairs, pair_json("figure", figures[f], a, b));
        json_t *j = json_pack("{s: s, s: o}", "metric", metric, "figures", pairs);
        put_verdict(j, rows_a, rows_b, &latencies[i]);
        json_array_append_new(list, j);
    }
    return list;
}

static void note_difference(json_t *list, const char *member, const json_t *a, const json_t *b)
{
    if (json_equal(a, b))
        return;
    json_array_append_new(list, json_pack("{s: s, s: O?, s: O?}", "member", member, "a", a, "b", b));
}

static json_t *workload_json(json_t *run_a, json_t *run_b)
{
    json_t *list = json_array(), *a = json_object_get(run_a, "workload"),
           *b = json_object_get(run_b, "workload"), *value;
    const char *member;

    note_difference(list, "model", json_object_get(run_a, "model"), json_object_get(run_b, "model"));
    json_object_foreach(a, member, value) note_difference(list, member, value, json_object_get(b, member));
    json_object_foreach(b, member, value) if (!json_object_get(a, member))
        note_difference(list, member, NULL, value);
    return list;
}

json_t *runs_compare(const json_t *run_a, const json_t *requests_a, const json_t *run_b,
                     const json_t *requests_b)
{
    return json_pack("{s: I, s: I, s: o, s: o, s: o, s: o}", "a", (json_int_t)json_get_int(run_a, "run", 0),
                     "b", (json_int_t)json_get_int(run_b, "run", 0), "workload",
                     workload_json((json_t *)run_a, (json_t *)run_b), "requests", requests_json(run_a, run_b),
                     "throughput", throughput_json(run_a, run_b), "latency",
                     latency_json(run_a, requests_a, run_b, requests_b));
}
