/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Key findings, each with its figure and a remedy; and limitations: what the audit did not test, which readers would
 * otherwise assume.
 */
#include "extras/audit/audit.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
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

/* Values below which a limitation is reported. */
#define REQUESTS_FOR_P99 1000
#define LONG_PROMPT      2048 /* tokens */
#define LONG_ANSWER      512
#define LONG_RUN_NS      (10 * 60 * NS_PER_S)

static void finding_failures(const struct audit_view *v, struct document *d)
{
    int64_t errors = audit_requests(v->run, "error"), incomplete = audit_requests(v->run, "incomplete"),
            all = audit_requests_all(v->run);
    const char *text = json_get_str(json_array_get(json_object_get(v->run, "errors"), 0), "text");

    if (errors > 0)
        document_item(d,
                      "%" PRId64 " of %" PRId64
                      " requests failed, most often: %s. Latencies are of successful requests only.",
                      errors, all, text ? text : "without a reason");
    if (incomplete > 0)
        document_item(
            d,
            "%" PRId64 " of %" PRId64
            " responses were incomplete. Raise the request timeout, or look for a server that restarts.",
            incomplete, all);
}

static void finding_cold_start(const struct audit_view *v, struct document *d)
{
    double warm = audit_figure(v->run, "metrics/e2e_ms/p50"), cold = audit_figure(v->run, "cold/e2e_ms/mean");

    if (cold > COLD_RATIO * warm)
        document_item(d,
                      "The first request took %.1f ms, %.1f times the median of %.1f ms. Send a few requests "
                      "to a worker before it gets traffic.",
                      cold, cold / warm, warm);
}

static void finding_tail(const struct audit_view *v, struct document *d)
{
    double p50 = audit_figure(v->run, "metrics/e2e_ms/p50"), p99 = audit_figure(v->run, "metrics/e2e_ms/p99");

    if (p99 > TAIL_RATIO * p50)
        document_item(d,
                      "One request in a hundred takes %.1f ms and more, %.1f times the median of %.1f ms. "
                      "Compare the slowest (profctl show r%" PRId64
                      " --requests) with what the server did at that time.",
                      p99, p99 / p50, p50, json_get_int(v->run, "run", 0));
}

static void finding_stalls(const struct audit_view *v, struct document *d)
{
    double p50 = audit_figure(v->run, "metrics/itl_ms/p50"), p99 = audit_figure(v->run, "metrics/itl_ms/p99");

    if (p50 > 0 && p99 > STALL_RATIO * p50)
        document_item(d,
                      "The median gap between two tokens is %.1f ms, but one gap in a hundred is %.1f ms and "
                      "more. Prefill of other requests may delay decoding: try chunked prefill, or a smaller "
                      "chunk.",
                      p50, p99);
}

static void finding_first_token(const struct audit_view *v, struct document *d)
{
    double first = audit_figure(v->run, "metrics/ttft_ms/p50"),
           all = audit_figure(v->run, "metrics/e2e_ms/p50");

    if (all > 0 && first / all > FIRST_SHARE && audit_figure(v->run, "metrics/itl_ms/count") > 0)
        document_item(
            d,
            "The first token arrives after %.1f ms, %.0f %% of a request's %.1f ms: optimize prefill "
            "or queueing, not decoding.",
            first, 100 * first / all, all);
}

static void finding_drift(const struct audit_view *v, struct document *d)
{
    static const struct {
        const char *metric, *name;
    } metrics[] = {{"ttft_ms", "Time to first token"}, {"tpot_ms", "Time per token"}, {"e2e_ms", "Latency"}};

    for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
        const json_t *one = json_object_get(json_object_get(v->run, "drift"), metrics[i].metric);
        if (json_get_bool(one, "significant", false))
            document_item(d,
                          "%s went from %.1f to %.1f ms during the run (p = %.2g): look for a leak, a cache "
                          "that fills, or clocks that are throttled.",
                          metrics[i].name, json_get_number(one, "first", 0), json_get_number(one, "last", 0),
                          json_get_number(one, "p", 0));
    }
}

static void finding_knee(const struct audit_view *v, struct document *d)
{
    if (v->knee < 0 || (size_t)v->knee + 1 == v->n_points)
        return;
    const struct audit_point *knee = &v->points[v->knee], *last = &v->points[v->n_points - 1];
    document_item(d,
                  "Beyond concurrency %.0f, throughput changes by %+.0f %% (%.1f to %.1f tokens/s), and the "
                  "median request takes %+.0f %%. Let a load balancer send no more than that to one worker.",
                  knee->concurrency, 100 * (last->tokens_per_s / knee->tokens_per_s - 1), knee->tokens_per_s,
                  last->tokens_per_s, 100 * (last->e2e_p50_ms / knee->e2e_p50_ms - 1));
}

static void finding_batching(const struct audit_view *v, struct document *d)
{
    double best = 0, alone = v->n_points > 0 ? v->points[0].tokens_per_s : 0;

    for (size_t i = 0; i < v->n_points; i++)
        best = MAX(best, v->points[i].tokens_per_s);
    if (v->n_points < 2 || v->points[0].concurrency != 1 || alone <= 0)
        return;
    if (best < (1 + KNEE_GAIN) * alone)
        document_item(d,
                      "Higher concurrency gives no more throughput: %.1f tokens/s at concurrency 1, %.1f at "
                      "best. The server handles requests one after another, or is limited by its CPU.",
                      alone, best);
    else
        document_item(
            d, "Batching is effective: %.1f tokens/s at concurrency 1, %.1f at best, %.1f times as much.",
            alone, best, best / alone);
}

static void finding_memory(const struct audit_view *v, struct document *d)
{
    size_t i;
    json_t *worker;

    json_array_foreach((json_t *)audit_at(v->run, "memory/workers"), i, worker) {
        const json_t *rss = json_object_get(worker, "rss_bytes");
        int64_t before = json_get_int(rss, "baseline", 0), grown = json_get_int(rss, "end", 0) - before;
        char a[UNIT_TEXT_MAX], b[UNIT_TEXT_MAX];
        if (before > 0 && (double)grown > GROWTH_SHARE * (double)before)
            document_item(d,
                          "The memory of %s grew from %s by %s. Repeat the run: if it grows again, it is a "
                          "leak and not a cache.",
                          json_get_str(worker, "url"), format_size(a, before), format_size(b, grown));
    }
}

static void finding_lateness(const struct audit_view *v, struct document *d)
{
    double late = audit_figure(v->run, "metrics/send_lateness_ms/p99");

    if (late > LATE_MS && late > LATE_SHARE * audit_figure(v->run, "metrics/e2e_ms/p50"))
        document_item(d,
                      "Requests left up to %.1f ms late (p99): this machine could not send faster, and "
                      "latencies include that wait. Send from another machine.",
                      late);
}

static void finding_correlation(const struct audit_view *v, struct document *d)
{
    double n = audit_figure(v->run, "correlation/input_tokens_ttft_n"),
           rank = audit_figure(v->run, "correlation/input_tokens_ttft_rank");

    if (n >= CORRELATED_REQUESTS && rank >= CORRELATED)
        document_item(
            d,
            "Requests with longer inputs had later first tokens (Spearman's rho %.2f, %.0f "
            "requests). That is a correlation, not a cause: measure lengths one by one with profctl "
            "bench --sweep isl=128,512,2048.",
            rank, n);
}

static void finding_uneven_speed(const struct audit_view *v, struct document *d)
{
    const json_t *rate = audit_at(v->facts, "rates/output_tokens_per_s");
    double n = json_get_number(rate, "n", 0), mean = json_get_number(rate, "mean", 0),
           std = json_get_number(rate, "std", 0);

    if (n >= UNEVEN_REQUESTS && std > UNEVEN_SHARE * mean)
        document_item(
            d,
            "Output speed differs from request to request: %.1f tokens/s with a standard deviation "
            "of %.1f (%.0f %%), %.0f requests. Send one prompt many times (--repeat) to separate the "
            "effect of the prompts from the server's.",
            mean, std, 100 * std / mean, n);
}

static void finding_outliers(const struct audit_view *v, struct document *d)
{
    const json_t *list = json_object_get(v->run, "outliers"), *worst = json_array_get(list, 0);
    const char *reason = json_get_str(worst, "reason");
    double value = json_get_number(worst, "value", 0), median = json_get_number(worst, "median", NAN);
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(list); i++) { /* a request may have several figures in the list */
        int64_t index = json_get_int(json_array_get(list, i), "index", -1);
        size_t k = 0;
        while (k < i && json_get_int(json_array_get(list, k), "index", -1) != index)
            k++;
        n += k == i;
    }
    if (n > 0 && value / median >= OUTLIER_TIMES)
        document_item(d,
                      "%zu of %" PRId64 " requests are outliers; the worst, request %" PRId64
                      ", %.1f ms against %.1f (%s). Section Outliers lists them.",
                      n, audit_requests(v->run, "success"), json_get_int(worst, "index", 0), value, median,
                      reason ? reason : "no known reason");
}

static void finding_missed_goal(const struct audit_view *v, struct document *d)
{
    const char *metric;
    json_t *limit;

    json_object_foreach(json_object_get(v->facts, "goal"), metric, limit) {
        _cleanup_(freep) char *path = xasprintf("metrics/%s/p99", metric);
        double p99 = audit_figure(v->run, path);
        if (p99 > json_number_value(limit))
            document_item(
                d,
                "The goal %s <= %g is already missed at the load of the main run: p99 is %.1f ms. A "
                "larger load does not help; optimize the server first.",
                metric, json_number_value(limit), p99);
    }
}

/* In order of importance. */
static void (*const findings[])(const struct audit_view *v, struct document *d) = {
    finding_failures, finding_missed_goal,  finding_cold_start, finding_tail,        finding_outliers,
    finding_stalls,   finding_first_token,  finding_drift,      finding_knee,        finding_batching,
    finding_memory,   finding_uneven_speed, finding_lateness,   finding_correlation,
};

void audit_findings(const struct audit_view *v, struct document *d)
{
    size_t before = d->n;

    for (size_t i = 0; i < ARRAY_SIZE(findings); i++)
        findings[i](v, d);
    if (d->n == before)
        document_text(d, "No findings: no failed request, no long tail, no drift.");
}

/* -- What was not tested ------------------------------------------------------------------------------ */

/* The largest value of all prompts; NAN without values. */
static double audit_largest(const struct audit_view *v, const char *key)
{
    size_t i;
    json_t *prompt;
    double most = NAN;

    json_array_foreach(json_object_get(v->facts, "prompts"), i, prompt)
        most = fmax(most, json_get_number(prompt, key, NAN));
    return most;
}

static void limit_concurrency(const struct audit_view *v, struct document *d)
{
    const json_t *workload = json_object_get(v->run, "workload");
    const char *arrival = json_get_str(workload, "arrival");

    if (v->n_points == 0)
        document_item(d, "Concurrency above %" PRId64 ".",
                      json_get_int(v->run, "peak_concurrency", json_get_int(workload, "concurrency", 1)));
    else
        document_item(d, "Concurrency above %.0f.", v->points[v->n_points - 1].concurrency);
    /* Only an open loop has a rate. */
    if (arrival ? streq(arrival, "closed") : !json_is_number(json_object_get(workload, "rate")))
        document_item(
            d, "Bursts: each request waited for an earlier one, unlike those of many users (see --rate).");
}

static void limit_machines(const struct audit_view *v, struct document *d)
{
    const json_t *hardware = json_object_get(v->facts, "hardware");
    const char *note = json_get_str(hardware, "gpu_note");

    if (json_get_int(json_object_get(v->facts, "model"), "workers", 1) <= 1)
        document_item(d, "More than one worker: routing, several nodes and failover were not measured.");
    if (!json_get_bool(hardware, "of_worker", false))
        document_item(d, "The worker's machine: it is another one, and its hardware is not known here.");
    else if (json_array_size(json_object_get(hardware, "gpus")) == 0)
        document_item(d, "A GPU: none was found (%s).", note ? note : "no known reason");
}

static void limit_requests(const struct audit_view *v, struct document *d)
{
    double input = audit_largest(v, "input_tokens"), output = audit_largest(v, "output_tokens");
    int64_t n = audit_requests(v->run, "success"),
            ns = json_get_int(v->run, "ended_at", 0) - json_get_int(v->run, "started_at", 0);
    const char *source = json_string_value(audit_at(v->run, "tokens/output_source"));
    char text[UNIT_TEXT_MAX];

    if (input < LONG_PROMPT)
        document_item(d, "Long prompts: the longest had %.0f tokens.", input);
    if (output < LONG_ANSWER)
        document_item(d, "Long responses: the longest had %.0f tokens.", output);
    if (n < REQUESTS_FOR_P99)
        document_item(d, "Rare latencies: p99 is based on %" PRId64 " requests.", n);
    if (ns < LONG_RUN_NS)
        document_item(d, "Long runs: this one took %s, which shows no slow leak and no throttling.",
                      format_duration(text, MAX(ns, 0)));
    if (source && !streq(source, "usage") && !streq(source, "tokenized"))
        document_item(d, "Exact token counts: the server reported none, they are from %s.",
                      streq(source, "chunks") ? "the events of its stream" : "the length of the text");
}

void audit_limitations(const struct audit_view *v, struct document *d)
{
    limit_concurrency(v, d);
    limit_machines(v, d);
    limit_requests(v, d);
    if (!json_object_get(v->facts, "price_per_hour"))
        document_item(d, "Cost: no price was given (--price-per-hour).");
    document_item(d, "Quality: responses were not evaluated.");
}
