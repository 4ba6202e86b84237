/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AIPerf's keys, as its docs/reference/json-export-schema.md describes profile_export_aiperf.json, and as its
 * docs/tutorials/working-with-profile-exports.md describes the records of profile_export.jsonl. Its "inter
 * token latency" is one value a request, profd's TPOT; profd's ITL is its "inter chunk latency".
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "client/runs/rows.h"
#include "client/runs/save_as.h"
#include "client/runs/save_as_internal.h"

#include <math.h>
#include <time.h>

#define SCHEMA_VERSION "1.1"
#define DATE_MAX       32

static const struct latency {
    const char *ours, *theirs;
} latencies[] = {{"ttft_ms", "time_to_first_token"},
                 {"tpot_ms", "inter_token_latency"},
                 {"itl_ms", "inter_chunk_latency"},
                 {"e2e_ms", "request_latency"}};

/* {name of both, fraction} */
static const struct percentile {
    const char *name;
    double fraction;
} percentiles[] = {{"p1", 0.01},  {"p5", 0.05},  {"p10", 0.10}, {"p25", 0.25}, {"p50", 0.50},
                   {"p75", 0.75}, {"p90", 0.90}, {"p95", 0.95}, {"p99", 0.99}};

/* What is one number of the run. */
static const struct scalar {
    const char *object, *member, *theirs, *unit;
} scalars[] = {
    {"throughput", "requests_per_s", "request_throughput", "requests/sec"},
    {"throughput", "output_tokens_per_s", "output_token_throughput", "tokens/sec"},
    {"goodput", "requests_per_s", "goodput", "requests/sec"},
    {"goodput", "good", "good_request_count", "requests"},
    {"requests", "success", "request_count", "requests"},
    {"tokens", "input", "total_isl", "tokens"},
    {"tokens", "output", "total_osl", "tokens"},
    {"tokens", "output", "total_output_tokens", "tokens"},
};

static double per_user(const json_t *row)
{
    return 1 / row_seconds(row, "tpot_ns");
}

static double tokens_of(const json_t *row, const char *member)
{
    int64_t tokens = json_get_int(row, member, -1);

    return tokens < 0 ? NAN : (double)tokens;
}

static double input_tokens(const json_t *row)
{
    return tokens_of(row, "input_tokens");
}

static double output_tokens(const json_t *row)
{
    return tokens_of(row, "output_tokens");
}

static double first_gap_ms(const json_t *row)
{
    _cleanup_json_ gaps = row_gaps(row);

    return json_array_size(gaps) > 0 ? json_number_value(json_array_get(gaps, 0)) / 1000 : NAN;
}

/* What is one number of each request. */
static const struct record {
    const char *theirs, *unit;
    double (*of)(const json_t *row); /* not finite: none */
} records[] = {
    {"input_sequence_length", "tokens", input_tokens},
    {"output_sequence_length", "tokens", output_tokens},
    {"output_token_count", "tokens", output_tokens},
    {"time_to_second_token", "ms", first_gap_ms},
    {"output_token_throughput_per_user", "tokens/sec/user", per_user},
};

static json_t *scalar_json(double value, const char *unit)
{
    return json_pack("{s: s, s: f}", "unit", unit, "avg", value);
}

static void put_scalars(json_t *j, const json_t *run)
{
    double errors = run_number(run, "requests", "error", 0) + run_number(run, "requests", "incomplete", 0);

    for (size_t i = 0; i < ARRAY_SIZE(scalars); i++) {
        double value = run_number(run, scalars[i].object, scalars[i].member, NAN);
        if (isfinite(value))
            json_object_set_new(j, scalars[i].theirs, scalar_json(value, scalars[i].unit));
    }
    json_object_set_new(j, "benchmark_duration", scalar_json(run_duration_s(run), "sec"));
    /* There where something failed only, as AIPerf has it. */
    if (errors > 0)
        json_object_set_new(j, "error_request_count", scalar_json(errors, "requests"));
}

static void copy_number(json_t *to, const char *theirs, const json_t *from, const char *ours)
{
    json_t *value = json_object_get(from, ours);

    if (json_is_number(value))
        json_object_set(to, theirs, value);
}

static json_t *latency_json(const json_t *from)
{
    json_t *j = json_pack("{s: s}", "unit", "ms");
    double mean = run_number(from, NULL, "mean", NAN), count = run_number(from, NULL, "count", NAN);

    copy_number(j, "avg", from, "mean");
    for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
        copy_number(j, percentiles[i].name, from, percentiles[i].name);
    copy_number(j, "min", from, "min");
    copy_number(j, "max", from, "max");
    copy_number(j, "std", from, "std");
    copy_number(j, "count", from, "count");
    if (isfinite(mean * count))
        json_object_set_new(j, "sum", json_real(mean * count));
    return j;
}

static void put_latencies(json_t *j, const json_t *run)
{
    for (size_t i = 0; i < ARRAY_SIZE(latencies); i++) {
        const json_t *from = run_value(run, "metrics", latencies[i].ours);
        if (run_number(from, NULL, "count", 0) > 0)
            json_object_set_new(j, latencies[i].theirs, latency_json(from));
    }
}

static int compare(const void *x, const void *y)
{
    const double *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

static double percentile_of(const double *sorted, size_t n, double fraction)
{
    double place = fraction * (double)(n - 1);
    size_t low = (size_t)place, high = MIN(low + 1, n - 1);

    return sorted[low] + (place - (double)low) * (sorted[high] - sorted[low]);
}

/* Sorts what it is given, n > 0. */
static json_t *record_json(double *values, size_t n, const char *unit)
{
    double sum = 0, squares = 0;
    json_t *j = json_pack("{s: s}", "unit", unit);

    qsort(values, n, sizeof(*values), compare);
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - sum / (double)n) * (values[i] - sum / (double)n);
    json_object_set_new(j, "avg", json_real(sum / (double)n));
    for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
        json_object_set_new(j, percentiles[i].name,
                            json_real(percentile_of(values, n, percentiles[i].fraction)));
    json_object_update_new(j,
                           json_pack("{s: f, s: f, s: f, s: I, s: f}", "min", values[0], "max", values[n - 1],
                                     "std", sqrt(squares / (double)n), "count", (json_int_t)n, "sum", sum));
    return j;
}

static void put_records(json_t *j, const json_t *rows)
{
    _cleanup_(freep) double *values = xcalloc(json_array_size(rows), sizeof(*values));

    for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
        size_t n = 0;
        for (size_t r = 0; r < json_array_size(rows); r++) {
            const json_t *row = json_array_get(rows, r);
            values[n] = row_is_warm(row) ? records[i].of(row) : NAN;
            n += isfinite(values[n]);
        }
        if (n > 0)
            json_object_set_new(j, records[i].theirs, record_json(values, n, records[i].unit));
    }
}

static void put_moment(json_t *j, const char *key, int64_t at_ns)
{
    char text[DATE_MAX];
    time_t seconds = (time_t)(at_ns / NS_PER_S);
    struct tm utc;

    if (at_ns <= 0)
        return;
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    json_put_str(j, key, text);
}

static json_t *errors_json(const json_t *run)
{
    const json_t *errors = json_object_get(run, "errors"), *error;
    json_t *list = json_array();
    size_t i;

    json_array_foreach(errors, i, error) {
        json_t *details = json_object();
        int64_t status = json_get_int(error, "status", 0);
        if (status > 0)
            json_put_int(details, "code", status);
        json_put_str(details, "message", json_get_str(error, "text"));
        json_array_append_new(list, json_pack("{s: o, s: I}", "error_details", details, "count",
                                              (json_int_t)json_get_int(error, "count", 0)));
    }
    return list;
}

/* -- Records, for profile_export.jsonl ------------------------------------------------------------------ */

static void put_metric(json_t *metrics, const char *name, double value, const char *unit)
{
    if (isfinite(value))
        json_object_set_new(metrics, name, json_pack("{s: f, s: s}", "value", value, "unit", unit));
}

static json_t *record_metrics(const json_t *row)
{
    json_t *metrics = json_object();
    _cleanup_json_ gaps = row_gaps(row);
    json_t *chunks = json_array(), *gap;
    size_t i;

    put_metric(metrics, "request_latency", row_seconds(row, "e2e_ns") * 1e3, "ms");
    put_metric(metrics, "time_to_first_token", row_seconds(row, "ttft_ns") * 1e3, "ms");
    put_metric(metrics, "inter_token_latency", row_seconds(row, "tpot_ns") * 1e3, "ms");
    for (i = 0; i < ARRAY_SIZE(records); i++)
        put_metric(metrics, records[i].theirs, records[i].of(row), records[i].unit);
    json_array_foreach(gaps, i, gap) {
        json_array_append_new(chunks, json_real(json_number_value(gap) / 1000));
    }
    if (json_array_size(chunks) > 0)
        json_object_set_new(metrics, "inter_chunk_latency",
                            json_pack("{s: O, s: s}", "value", chunks, "unit", "ms"));
    json_decref(chunks);
    return metrics;
}

/* Times count from the moment at which the request should have left, as all latencies of profd do. */
json_t *save_as_aiperf_record(const json_t *run, const json_t *row)
{
    bool failed = !row_has_outcome(row, "success");
    int64_t started_ns = json_get_int(run, "started_at", 0),
            intended_ns = json_get_int(row, "intended_ns", 0),
            end_ns = json_get_int(row, "end_ns", intended_ns), status = json_get_int(row, "status", 0);
    const char *target = json_get_str(row, "target"), *message = json_get_str(row, "error");
    _cleanup_(freep) char *id = xasprintf("r%lld-%lld", (long long)json_get_int(run, "run", 0),
                                          (long long)json_get_int(row, "number", 0));
    json_t *metadata = json_pack("{s: I, s: s, s: I, s: I, s: I, s: s, s: s, s: s, s: b}", "session_num",
                                 (json_int_t)json_get_int(row, "number", 0), "x_request_id", id, "turn_index",
                                 (json_int_t)0, "request_start_ns", (json_int_t)(started_ns + intended_ns),
                                 "request_end_ns", (json_int_t)(started_ns + end_ns), "worker_id",
                                 target ? target : "profd", "record_processor_id", "profd", "benchmark_phase",
                                 "profiling", "was_cancelled", row_has_outcome(row, "incomplete"));
    json_t *j = json_pack("{s: o, s: o, s: n}", "metadata", metadata, "metrics",
                          failed ? json_object() : record_metrics(row), "error");

    if (failed) {
        json_t *error = json_pack("{s: s, s: s}", "type", json_get_str(row, "outcome"), "message",
                                  message ? message : "no answer");
        if (status > 0)
            json_put_int(error, "code", status);
        json_object_set_new(j, "error", error);
    }
    return j;
}

json_t *save_as_aiperf(const json_t *run, const json_t *requests)
{
    json_t *j = json_pack("{s: s}", "schema_version", SCHEMA_VERSION);

    put_scalars(j, run);
    put_latencies(j, run);
    put_records(j, requests);
    json_object_set_new(j, "was_cancelled", json_boolean(streq(json_get_str(run, "state"), "cancelled")));
    json_object_set_new(j, "error_summary", errors_json(run));
    put_moment(j, "start_time", json_get_int(run, "started_at", 0));
    put_moment(j, "end_time", json_get_int(run, "ended_at", 0));
    return j;
}
