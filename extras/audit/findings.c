/* SPDX-License-Identifier: Apache-2.0 */
/* Key findings: each names its figure and a remedy. */
#include "base/alloc.h"
#include "base/units.h"
#include "extras/audit/parts.h"
#include <inttypes.h>
#include <math.h>

/* Multiple of the median from which a finding is reported. */
#define COLD_RATIO    2.0
#define TAIL_RATIO    3.0
#define STALL_RATIO   5.0
#define FIRST_SHARE   0.5 /* of a request's time, until its first token */
#define LATE_MS       10.0
#define LATE_SHARE    0.05 /* of the median latency */
#define GROWTH_SHARE  0.1  /* of memory */
#define KNEE_GAIN     0.1  /* of throughput, beyond the knee */
#define OUTLIER_TIMES 2.0  /* the median: a few milliseconds above it are irrelevant */
#define UNEVEN_SHARE  0.3  /* of the mean speed */
/* With fewer requests, spread and correlation are not meaningful. */
#define UNEVEN_REQUESTS     10
#define CORRELATED_REQUESTS 20
#define CORRELATED          0.7 /* Spearman's rho; half of the ranks' variance */

static void failures(const json_t *facts, struct document *d)
{
    const json_t *run = json_object_get(facts, "run"),
                 *worst = json_array_get(json_object_get(run, "errors"), 0);
    int64_t errors = run_requests(run, "error"), incomplete = run_requests(run, "incomplete");
    const char *text = json_get_str(worst, "text");

    if (errors > 0)
        document_item(d,
                      "%" PRId64 " of %" PRId64
                      " requests failed, most often: %s. Latencies count successful ones alone.",
                      errors, run_requests_all(run), text ? text : "without a reason");
    if (incomplete > 0)
        document_item(d,
                      "%" PRId64 " of %" PRId64
                      " answers were cut. Raise the request's timeout, or look for a server "
                      "that restarts.",
                      incomplete, run_requests_all(run));
}

static void cold_start(const json_t *facts, struct document *d)
{
    const json_t *run = json_object_get(facts, "run");
    double warm = run_figure(run, "e2e_ms", "p50"),
           cold = json_number_value(
               json_object_get(json_object_get(json_object_get(run, "cold"), "e2e_ms"), "mean"));

    if (cold > COLD_RATIO * warm)
        document_item(
            d,
            "The first request took %.1f ms, %.1f times the median of %.1f ms. Send a few requests to a "
            "worker before it gets traffic.",
            cold, cold / warm, warm);
}

static void tail(const json_t *facts, struct document *d)
{
    const json_t *run = json_object_get(facts, "run");
    double p50 = run_figure(run, "e2e_ms", "p50"), p99 = run_figure(run, "e2e_ms", "p99");

    if (p99 > TAIL_RATIO * p50)
        document_item(
            d,
            "One request in a hundred takes %.1f ms and more, %.1f times the median of %.1f ms. Compare the "
            "slowest (profctl show r%" PRId64 " --requests) with what the server did then.",
            p99, p99 / p50, p50, json_get_int(run, "run", 0));
}

static void stalls(const json_t *facts, struct document *d)
{
    const json_t *run = json_object_get(facts, "run");
    double p50 = run_figure(run, "itl_ms", "p50"), p99 = run_figure(run, "itl_ms", "p99");

    if (p50 > 0 && p99 > STALL_RATIO * p50)
        document_item(
            d,
            "Between two tokens lie %.1f ms, but one gap in a hundred is %.1f ms and more. Prefill of other "
            "requests may hold decoding up: try chunked prefill, or a smaller chunk.",
            p50, p99);
}

static void first_token(const json_t *facts, struct document *d)
{
    const json_t *run = json_object_get(facts, "run");
    double first = run_figure(run, "ttft_ms", "p50"), all = run_figure(run, "e2e_ms", "p50");

    if (all > 0 && first / all > FIRST_SHARE && run_figure(run, "itl_ms", "count") > 0)
        document_item(d,
                      "The first token comes after %.1f ms, %.0f %% of a request's %.1f ms: prefill or "
                      "waiting is what to "
                      "look at, not decoding.",
                      first, 100 * first / all, all);
}

static void drift(const json_t *facts, struct document *d)
{
    static const struct {
        const char *metric, *name;
    } looked_at[] = {
        {"ttft_ms", "Time to first token"}, {"tpot_ms", "Time per token"}, {"e2e_ms", "Latency"}};
    const json_t *all = json_object_get(json_object_get(facts, "run"), "drift");

    for (size_t i = 0; i < ARRAY_SIZE(looked_at); i++) {
        const json_t *one = json_object_get(all, looked_at[i].metric);
        if (!json_get_bool(one, "significant", false))
            continue;
        document_item(
            d,
            "%s went from %.1f to %.1f ms in the course of the run (p = %.2g): look for a leak, a cache that "
            "fills, or clocks that are throttled.",
            looked_at[i].name, json_number_value(json_object_get(one, "first")),
            json_number_value(json_object_get(one, "last")), json_number_value(json_object_get(one, "p")));
    }
}

static void knee(const json_t *facts, struct document *d)
{
    _cleanup_(curve_done) struct curve c = {0};

    curve_read(facts, &c);
    ssize_t at = curve_knee(&c);
    if (at < 0 || (size_t)at + 1 == c.n)
        return;
    double gain = c.tokens_per_s[c.n - 1] / c.tokens_per_s[at] - 1,
           slower = c.e2e_p50_ms[c.n - 1] / c.e2e_p50_ms[at] - 1;
    document_item(d,
                  "Beyond %.0f requests at a time throughput changes by %+.0f %% (%.1f to %.1f tokens/s), "
                  "and the median "
                  "request takes %+.0f %%. Let a load balancer send no more than that to one worker.",
                  c.concurrency[at], 100 * gain, c.tokens_per_s[at], c.tokens_per_s[c.n - 1], 100 * slower);
}

static void batching(const json_t *facts, struct document *d)
{
    _cleanup_(curve_done) struct curve c = {0};
    double best = 0;

    curve_read(facts, &c);
    for (size_t i = 0; i < c.n; i++)
        best = MAX(best, c.tokens_per_s[i]);
    if (c.n < 2 || c.concurrency[0] != 1 || c.tokens_per_s[0] <= 0)
        return;
    if (best < (1 + KNEE_GAIN) * c.tokens_per_s[0])
        document_item(
            d,
            "More requests at a time do not give more tokens: %.1f tokens/s alone, %.1f at best. The server "
            "serves one after another, or is bound by its processor.",
            c.tokens_per_s[0], best);
    else
        document_item(
            d, "Batching pays: %.1f tokens/s for one request at a time, %.1f at best, %.1f times as much.",
            c.tokens_per_s[0], best, best / c.tokens_per_s[0]);
}

static void memory(const json_t *facts, struct document *d)
{
    size_t i;
    json_t *worker;

    json_array_foreach(json_object_get(json_object_get(json_object_get(facts, "run"), "memory"), "workers"),
                       i, worker) {
        const json_t *rss = json_object_get(worker, "rss_bytes");
        int64_t before = json_get_int(rss, "baseline", 0), grown = json_get_int(rss, "end", 0) - before;
        char a[UNIT_TEXT_MAX], b[UNIT_TEXT_MAX];
        if (before > 0 && (double)grown > GROWTH_SHARE * (double)before)
            document_item(
                d,
                "The memory of %s grew from %s by %s. Repeat the run: if it grows again, it is a leak and no "
                "cache.",
                json_get_str(worker, "url"), format_size(a, before), format_size(b, grown));
    }
}

static void lateness(const json_t *facts, struct document *d)
{
    const json_t *run = json_object_get(facts, "run");
    double late = run_figure(run, "send_lateness_ms", "p99"), e2e = run_figure(run, "e2e_ms", "p50");

    if (late > LATE_MS && late > LATE_SHARE * e2e)
        document_item(
            d,
            "Requests left up to %.1f ms late (p99): this machine could not send faster, and latencies hold "
            "that wait. Send from another one.",
            late);
}

/* A measured relation, and how to test it: not a cause. */
static void correlation(const json_t *facts, struct document *d)
{
    const json_t *c = json_object_get(json_object_get(facts, "run"), "correlation");
    double n = json_get_number(c, "input_tokens_ttft_n", 0),
           rank = json_get_number(c, "input_tokens_ttft_rank", 0);

    if (n >= CORRELATED_REQUESTS && rank >= CORRELATED)
        document_item(d,
                      "Requests with longer inputs had later first tokens (Spearman's rho %.2f, %.0f "
                      "requests). That is a correlation, no "
                      "cause: measure lengths one by one with profctl bench --sweep isl=128,512,2048.",
                      rank, n);
}

static void uneven_speed(const json_t *facts, struct document *d)
{
    const json_t *rate = json_object_get(json_object_get(facts, "rates"), "output_tokens_per_s");
    double n = json_get_number(rate, "n", 0), mean = json_get_number(rate, "mean", 0),
           std = json_get_number(rate, "std", 0);

    if (n >= UNEVEN_REQUESTS && std > UNEVEN_SHARE * mean)
        document_item(
            d,
            "Output speed differs from request to request: %.1f tokens/s with a standard deviation "
            "of %.1f (%.0f %%), %.0f requests. "
            "Send one prompt many times (--repeat) to separate the effect of the prompts from the server's.",
            mean, std, 100 * std / mean, n);
}

/* The number of requests, not the number of their figures. */
static size_t outlying_requests(const json_t *outliers)
{
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(outliers); i++) {
        int64_t index = json_get_int(json_array_get(outliers, i), "index", -1);
        bool is_known = false;
        for (size_t k = 0; k < i; k++)
            is_known |= json_get_int(json_array_get(outliers, k), "index", -1) == index;
        n += !is_known;
    }
    return n;
}

static void outliers(const json_t *facts, struct document *d)
{
    const json_t *run = json_object_get(facts, "run"), *list = json_object_get(run, "outliers"),
                 *worst = json_array_get(list, 0);
    const char *reason = json_get_str(worst, "reason");
    size_t n = outlying_requests(list);
    double times = json_get_number(worst, "value", 0) / json_get_number(worst, "median", NAN);

    if (n > 0 && times >= OUTLIER_TIMES)
        document_item(d,
                      "%zu of %" PRId64 " requests are outliers; the worst, request %" PRId64
                      ", %.1f ms against %.1f (%s). Section Outliers lists them.",
                      n, run_requests(run, "success"), json_get_int(worst, "index", 0),
                      json_get_number(worst, "value", NAN), json_get_number(worst, "median", NAN),
                      reason ? reason : "no reason is known");
}

static void missed_goal(const json_t *facts, struct document *d)
{
    const json_t *run = json_object_get(facts, "run");
    const char *metric;
    json_t *limit;

    json_object_foreach(json_object_get(facts, "goal"), metric, limit) {
        double p99 = run_figure(run, metric, "p99");
        if (p99 > json_number_value(limit))
            document_item(d,
                          "The goal %s <= %g is missed at the load of the main run already: p99 is %.1f ms. "
                          "A larger load "
                          "does not help; look at the server first.",
                          metric, json_number_value(limit), p99);
    }
}

/* In order of importance. */
static void (*const rules[])(const json_t *facts, struct document *d) = {
    failures, missed_goal, cold_start, tail,   outliers,     stalls,   first_token,
    drift,    knee,        batching,   memory, uneven_speed, lateness, correlation,
};

void audit_findings(const json_t *facts, struct document *d)
{
    size_t before = d->n;

    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        rules[i](facts, d);
    if (d->n == before)
        document_text(d, "Nothing stands out: no failed request, no long tail, no drift.");
}
