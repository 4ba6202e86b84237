/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/save_as.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/request_json.h"
#include <errno.h>
#include <math.h>
#include <time.h>

/* The value at a path of two members, borrowed; object may be NULL. */
static json_t *run_value(const json_t *run, const char *object, const char *member)
{
    return json_object_get(object ? json_object_get(run, object) : run, member);
}

static double run_number(const json_t *run, const char *object, const char *member, double fallback)
{
    return json_get_number(object ? json_object_get(run, object) : run, member, fallback);
}

/* In seconds; by requests and throughput where the run has no duration. */
static double run_duration_s(const json_t *run)
{
    double rate = run_number(run, "throughput", "requests_per_s", 0),
           requests = run_number(run, "requests", "success", 0);

    return run_number(run, NULL, "duration_s", rate > 0 ? requests / rate : 0);
}

/*
 * -- AIPerf --
 *
 * Keys as in its docs/reference/json-export-schema.md (profile_export_aiperf.json) and
 * docs/tutorials/working-with-profile-exports.md (records of profile_export.jsonl). Its "inter token latency" is one
 * value a request, profd's TPOT; profd's ITL is its "inter chunk latency".
 */

#define SCHEMA_VERSION "1.1"
#define DATE_MAX       32
/* vLLM counts tokens second by second; a longer run has no such peak here. */
#define SECONDS_MAX 1000000

static const struct aiperf_latency {
    const char *ours, *theirs;
} latencies[] = {{"ttft_ms", "time_to_first_token"},
                 {"tpot_ms", "inter_token_latency"},
                 {"itl_ms", "inter_chunk_latency"},
                 {"e2e_ms", "request_latency"}};

static const struct aiperf_percentile {
    const char *name;
    double fraction;
} percentiles[] = {{"p1", 0.01},  {"p5", 0.05},  {"p10", 0.10}, {"p25", 0.25}, {"p50", 0.50},
                   {"p75", 0.75}, {"p90", 0.90}, {"p95", 0.95}, {"p99", 0.99}};

/* Figures of the run. */
static const struct aiperf_scalar {
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

static double tokens_per_s_per_user(const json_t *row)
{
    return 1 / row_seconds(row, "tpot_ns");
}

static double input_tokens(const json_t *row)
{
    return json_get_number(row, "input_tokens", NAN);
}

static double output_tokens(const json_t *row)
{
    return json_get_number(row, "output_tokens", NAN);
}

static double first_gap_ms(const json_t *row)
{
    _cleanup_json_ gaps = row_gaps(row);

    return json_array_size(gaps) > 0 ? json_number_value(json_array_get(gaps, 0)) / 1000 : NAN;
}

/* Figures of each request. */
static const struct aiperf_record {
    const char *theirs, *unit;
    double (*of)(const json_t *row); /* not finite: none */
} records[] = {
    {"input_sequence_length", "tokens", input_tokens},
    {"output_sequence_length", "tokens", output_tokens},
    {"output_token_count", "tokens", output_tokens},
    {"time_to_second_token", "ms", first_gap_ms},
    {"output_token_throughput_per_user", "tokens/sec/user", tokens_per_s_per_user},
};

static json_t *aiperf_scalar_json(double value, const char *unit)
{
    return json_pack("{s: s, s: f}", "unit", unit, "avg", value);
}

static void aiperf_set_scalars(json_t *j, const json_t *run)
{
    double errors = run_number(run, "requests", "error", 0) + run_number(run, "requests", "incomplete", 0);

    for (size_t i = 0; i < ARRAY_SIZE(scalars); i++) {
        double value = run_number(run, scalars[i].object, scalars[i].member, NAN);
        if (isfinite(value))
            json_object_set_new(j, scalars[i].theirs, aiperf_scalar_json(value, scalars[i].unit));
    }
    json_object_set_new(j, "benchmark_duration", aiperf_scalar_json(run_duration_s(run), "sec"));
    /* Only of runs with errors, as in AIPerf. */
    if (errors > 0)
        json_object_set_new(j, "error_request_count", aiperf_scalar_json(errors, "requests"));
}

static json_t *aiperf_latency_json(const json_t *from)
{
    static const struct {
        const char *theirs, *ours;
    } copies[] = {{"avg", "mean"}, {"p1", "p1"},   {"p5", "p5"},   {"p10", "p10"},    {"p25", "p25"},
                  {"p50", "p50"},  {"p75", "p75"}, {"p90", "p90"}, {"p95", "p95"},    {"p99", "p99"},
                  {"min", "min"},  {"max", "max"}, {"std", "std"}, {"count", "count"}};
    json_t *j = json_pack("{s: s}", "unit", "ms");
    double sum = run_number(from, NULL, "mean", NAN) * run_number(from, NULL, "count", NAN);

    for (size_t i = 0; i < ARRAY_SIZE(copies); i++) {
        json_t *value = json_object_get(from, copies[i].ours);
        if (json_is_number(value))
            json_object_set(j, copies[i].theirs, value);
    }
    if (isfinite(sum))
        json_object_set_new(j, "sum", json_real(sum));
    return j;
}

static void aiperf_set_latencies(json_t *j, const json_t *run)
{
    for (size_t i = 0; i < ARRAY_SIZE(latencies); i++) {
        const json_t *from = run_value(run, "metrics", latencies[i].ours);
        if (run_number(from, NULL, "count", 0) > 0)
            json_object_set_new(j, latencies[i].theirs, aiperf_latency_json(from));
    }
}

static int compare_doubles(const void *x, const void *y)
{
    const double *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

static double percentile_at(const double *sorted, size_t n, double fraction)
{
    double position = fraction * (double)(n - 1);
    size_t low = (size_t)position, high = MIN(low + 1, n - 1);

    return sorted[low] + (position - (double)low) * (sorted[high] - sorted[low]);
}

/* Sorts the values, n > 0. */
static json_t *aiperf_record_json(double *values, size_t n, const char *unit)
{
    double sum = 0, squares = 0;
    json_t *j = json_pack("{s: s}", "unit", unit);

    qsort(values, n, sizeof(*values), compare_doubles);
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - sum / (double)n) * (values[i] - sum / (double)n);
    json_object_set_new(j, "avg", json_real(sum / (double)n));
    for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
        json_object_set_new(j, percentiles[i].name,
                            json_real(percentile_at(values, n, percentiles[i].fraction)));
    json_object_update_new(j,
                           json_pack("{s: f, s: f, s: f, s: I, s: f}", "min", values[0], "max", values[n - 1],
                                     "std", sqrt(squares / (double)n), "count", (json_int_t)n, "sum", sum));
    return j;
}

static void aiperf_set_records(json_t *j, const json_t *rows)
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
            json_object_set_new(j, records[i].theirs, aiperf_record_json(values, n, records[i].unit));
    }
}

static void aiperf_set_time(json_t *j, const char *key, int64_t at_ns)
{
    char text[DATE_MAX];
    time_t seconds = (time_t)(at_ns / NS_PER_S);
    struct tm utc;

    if (at_ns <= 0)
        return;
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    json_put_str(j, key, text);
}

static json_t *aiperf_errors(const json_t *run)
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

static void aiperf_set_metric(json_t *metrics, const char *name, double value, const char *unit)
{
    if (isfinite(value))
        json_object_set_new(metrics, name, json_pack("{s: f, s: s}", "value", value, "unit", unit));
}

static json_t *aiperf_record_metrics(const json_t *row)
{
    json_t *metrics = json_object();
    _cleanup_json_ gaps = row_gaps(row);
    json_t *chunks = json_array(), *gap;
    size_t i;

    aiperf_set_metric(metrics, "request_latency", row_seconds(row, "e2e_ns") * 1e3, "ms");
    aiperf_set_metric(metrics, "time_to_first_token", row_seconds(row, "ttft_ns") * 1e3, "ms");
    aiperf_set_metric(metrics, "inter_token_latency", row_seconds(row, "tpot_ns") * 1e3, "ms");
    for (i = 0; i < ARRAY_SIZE(records); i++)
        aiperf_set_metric(metrics, records[i].theirs, records[i].of(row), records[i].unit);
    json_array_foreach(gaps, i, gap) {
        json_array_append_new(chunks, json_real(json_number_value(gap) / 1000));
    }
    if (json_array_size(chunks) > 0)
        json_object_set_new(metrics, "inter_chunk_latency",
                            json_pack("{s: O, s: s}", "value", chunks, "unit", "ms"));
    json_decref(chunks);
    return metrics;
}

/* Times count from the moment at which the request was due, as all latencies of profd do. */
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
                          failed ? json_object() : aiperf_record_metrics(row), "error");

    if (failed) {
        json_t *error = json_pack("{s: s, s: s}", "type", json_get_str(row, "outcome"), "message",
                                  message ? message : "no response");
        if (status > 0)
            json_put_int(error, "code", status);
        json_object_set_new(j, "error", error);
    }
    return j;
}

static json_t *save_as_aiperf(const json_t *run, const json_t *requests)
{
    json_t *j = json_pack("{s: s}", "schema_version", SCHEMA_VERSION);

    aiperf_set_scalars(j, run);
    aiperf_set_latencies(j, run);
    aiperf_set_records(j, requests);
    json_object_set_new(j, "was_cancelled", json_boolean(streq(json_get_str(run, "state"), "cancelled")));
    json_object_set_new(j, "error_summary", aiperf_errors(run));
    aiperf_set_time(j, "start_time", json_get_int(run, "started_at", 0));
    aiperf_set_time(j, "end_time", json_get_int(run, "ended_at", 0));
    return j;
}

/*
 * -- vLLM --
 *
 * Keys as vllm/benchmarks/serve.py writes them: benchmark() makes the figures and the lists of requests, main_async()
 * the members before them. Times of lists are seconds from the moment of sending; "queue_times" are the lateness of
 * sending.
 */

static const struct vllm_figure {
    const char *ours, *theirs;
} figures[] = {{"ttft_ms", "ttft"}, {"tpot_ms", "tpot"}, {"itl_ms", "itl"}, {"e2e_ms", "e2el"}};

static const struct vllm_statistic {
    const char *ours, *theirs;
} statistics[] = {{"mean", "mean"}, {"p50", "median"}, {"std", "std"}, {"p50", "p50"},
                  {"p90", "p90"},   {"p95", "p95"},    {"p99", "p99"}, {"p99.9", "p99.9"}};

static const struct vllm_backend {
    const char *api, *name;
} backends[] = {{"completions", "openai"}, {"chat", "openai-chat"}, {"generate", "sglang"}};

static const char *vllm_backend_of(const json_t *run)
{
    const char *api = json_get_str(json_object_get(run, "workload"), "api");

    for (size_t i = 0; i < ARRAY_SIZE(backends); i++)
        if (streq(backends[i].api, api))
            return backends[i].name;
    return "openai";
}

static json_t *vllm_date(const json_t *run)
{
    char text[DATE_MAX];
    time_t seconds = (time_t)(json_get_int(run, "started_at", 0) / NS_PER_S);
    struct tm local;

    strftime(text, sizeof(text), "%Y%m%d-%H%M%S", localtime_r(&seconds, &local));
    return json_string(text);
}

static json_t *or_null(json_t *value)
{
    return value ? json_incref(value) : json_null();
}

/* Members that are copied, or null. */
static const struct {
    const char *theirs, *object, *ours;
} vllm_copies[] = {
    {"model_id", NULL, "model"},
    {"tokenizer_id", NULL, "model"},
    {"max_concurrency", "workload", "concurrency"},
    {"total_input_tokens", "tokens", "input"},
    {"total_output_tokens", "tokens", "output"},
    {"request_throughput", "throughput", "requests_per_s"},
    {"request_goodput", "goodput", "requests_per_s"},
    {"output_throughput", "throughput", "output_tokens_per_s"},
    {"total_token_throughput", "throughput", "total_tokens_per_s"},
    {"max_concurrent_requests", NULL, "peak_concurrency"},
};

static void vllm_set_run(json_t *j, const json_t *run)
{
    const char *backend = vllm_backend_of(run);
    double rate = run_number(run, "workload", "rate", 0);
    json_int_t success = (json_int_t)run_number(run, "requests", "success", 0),
               failed = (json_int_t)(run_number(run, "requests", "incomplete", 0) +
                                     run_number(run, "requests", "error", 0));

    for (size_t i = 0; i < ARRAY_SIZE(vllm_copies); i++)
        json_object_set_new(j, vllm_copies[i].theirs,
                            or_null(run_value(run, vllm_copies[i].object, vllm_copies[i].ours)));
    json_object_set_new(j, "date", vllm_date(run));
    json_put_str(j, "endpoint_type", backend);
    json_put_str(j, "backend", backend);
    json_object_set_new(j, "label", json_null());
    json_object_set_new(j, "request_rate",
                        rate > 0 ? json_incref(run_value(run, "workload", "rate")) : json_string("inf"));
    json_object_set_new(j, "burstiness", json_real(run_number(run, "workload", "burstiness", 1)));
    json_put_int(j, "num_prompts", success + failed);
    json_object_set_new(j, "duration", json_real(run_duration_s(run)));
    json_put_int(j, "completed", success);
    json_put_int(j, "failed", failed);
    /* Only for speech. */
    json_object_set_new(j, "rtfx", json_real(0));
}

static void vllm_set_figures(json_t *j, const json_t *run)
{
    char key[64];

    for (size_t f = 0; f < ARRAY_SIZE(figures); f++) {
        const json_t *of = run_value(run, "metrics", figures[f].ours);
        for (size_t s = 0; s < ARRAY_SIZE(statistics); s++) {
            snprintf(key, sizeof(key), "%s_%s_ms", statistics[s].theirs, figures[f].theirs);
            json_object_set_new(j, key, or_null(json_object_get(of, statistics[s].ours)));
        }
    }
}

/* Seconds between two moments of a row; 0 where one is missing, as in vLLM. */
static json_t *vllm_seconds_between(const json_t *row, const char *from, const char *to)
{
    double duration = row_seconds(row, to) - row_seconds(row, from);

    return json_real(isfinite(duration) && row_seconds(row, to) >= 0 ? duration : 0);
}

static json_t *vllm_gaps(const json_t *row)
{
    _cleanup_json_ gaps = row_gaps(row);
    json_t *list = json_array();

    for (size_t i = 0; i < json_array_size(gaps); i++)
        json_array_append_new(list, json_real(json_number_value(json_array_get(gaps, i)) / 1e6));
    return list;
}

static void vllm_append(json_t *j, const char *key, json_t *value)
{
    json_t *list = json_object_get(j, key);

    if (!list) {
        list = json_array();
        json_object_set_new(j, key, list);
    }
    json_array_append_new(list, value);
}

static void vllm_add_row(json_t *j, const json_t *row)
{
    bool success = row_has_outcome(row, "success");
    const char *error = json_get_str(row, "error");

    vllm_append(j, "input_lens", json_integer(MAX(json_get_int(row, "input_tokens", 0), 0)));
    vllm_append(j, "output_lens", json_integer(success ? MAX(json_get_int(row, "output_tokens", 0), 0) : 0));
    vllm_append(j, "ttfts", vllm_seconds_between(row, "sent_ns", "first_ns"));
    vllm_append(j, "itls", vllm_gaps(row));
    vllm_append(j, "latencies", vllm_seconds_between(row, "sent_ns", "end_ns"));
    vllm_append(j, "start_times", json_real(fmax(row_seconds(row, "sent_ns"), 0)));
    vllm_append(j, "queue_times", json_real(fmax(row_seconds(row, "lateness_ns"), 0)));
    vllm_append(j, "errors", json_string(error && !success ? error : ""));
}

static void vllm_count_tokens(const json_t *row, uint32_t *seconds)
{
    _cleanup_json_ gaps = row_gaps(row);
    double at = row_seconds(row, "first_ns");

    if (!row_has_outcome(row, "success") || !isfinite(at) || at < 0)
        return;
    for (size_t i = 0; at < SECONDS_MAX; i++) {
        seconds[(size_t)at]++;
        if (i == json_array_size(gaps))
            break;
        at += fmax(json_number_value(json_array_get(gaps, i)) / 1e6, 0);
    }
}

/* The most tokens of one second. */
static double vllm_token_peak(const json_t *rows)
{
    _cleanup_(freep) uint32_t *seconds = xcalloc(SECONDS_MAX, sizeof(*seconds));
    uint32_t peak = 0;

    for (size_t i = 0; i < json_array_size(rows); i++)
        vllm_count_tokens(json_array_get(rows, i), seconds);
    for (size_t s = 0; s < SECONDS_MAX; s++)
        peak = MAX(peak, seconds[s]);
    return peak;
}

static json_t *save_as_vllm(const json_t *run, const json_t *requests)
{
    json_t *j = json_object();

    vllm_set_run(j, run);
    vllm_set_figures(j, run);
    if (json_array_size(requests) == 0)
        return j;
    for (size_t i = 0; i < json_array_size(requests); i++)
        vllm_add_row(j, json_array_get(requests, i));
    json_object_set_new(j, "max_output_tokens_per_s", json_real(vllm_token_peak(requests)));
    return j;
}

/* -- The formats --------------------------------------------------------------------------------------- */

const char *const save_as_formats[] = {"vllm-bench", "aiperf", NULL};

static json_t *(*const writers[ARRAY_SIZE(save_as_formats) - 1])(const json_t *, const json_t *) = {
    save_as_vllm,
    save_as_aiperf,
};

json_t *save_as(const char *format, const json_t *run, const json_t *requests, struct problem *p)
{
    size_t i = 0;

    while (save_as_formats[i] && !streq(save_as_formats[i], format))
        i++;
    if (!save_as_formats[i]) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "a run cannot be saved as %s", format);
        problem_remedy(p, "Formats are vllm-bench and aiperf.");
        return NULL;
    }
    if (!json_is_object(json_object_get(run, "metrics"))) {
        problem_set(p, -ENODATA, PROBLEM_CONFLICT, "run %lld has no figures to save",
                    (long long)json_get_int(run, "run", 0));
        problem_remedy(p, "Wait until it has ended; a run that failed before its first request has none.");
        return NULL;
    }
    return writers[i](run, requests);
}
