/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vLLM's keys, as vllm/benchmarks/serve.py writes them: benchmark() makes the figures and the lists of
 * requests, main_async() what stands before them. Times of lists are seconds, and count from the moment of
 * sending there; of those in "queue_times" it is how late that was.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "client/runs/rows.h"
#include "client/runs/save_as_internal.h"

#include <math.h>
#include <time.h>

#define DATE_MAX 32
/* vLLM counts tokens second by second; a longer run has no such peak here. */
#define SECONDS_MAX 1000000

static const struct figure {
    const char *ours, *theirs;
} figures[] = {{"ttft_ms", "ttft"}, {"tpot_ms", "tpot"}, {"itl_ms", "itl"}, {"e2e_ms", "e2el"}};

static const struct statistic {
    const char *ours, *theirs;
} statistics[] = {{"mean", "mean"}, {"p50", "median"}, {"std", "std"}, {"p50", "p50"},
                  {"p90", "p90"},   {"p95", "p95"},    {"p99", "p99"}, {"p99.9", "p99.9"}};

static const struct backend {
    const char *api, *name;
} backends[] = {{"completions", "openai"}, {"chat", "openai-chat"}, {"generate", "sglang"}};

static const char *backend_of(const json_t *run)
{
    const char *api = json_get_str(json_object_get(run, "workload"), "api");

    for (size_t i = 0; i < ARRAY_SIZE(backends); i++)
        if (streq(backends[i].api, api))
            return backends[i].name;
    return "openai";
}

static json_t *date_of(const json_t *run)
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

static void put_setting(json_t *j, const json_t *run)
{
    const char *backend = backend_of(run);
    json_t *rate = run_value(run, "workload", "rate"), *model = json_object_get(run, "model");

    json_object_set_new(j, "date", date_of(run));
    json_put_str(j, "endpoint_type", backend);
    json_put_str(j, "backend", backend);
    json_object_set_new(j, "label", json_null());
    json_object_set_new(j, "model_id", or_null(model));
    json_object_set_new(j, "tokenizer_id", or_null(model));
    json_object_set_new(j, "request_rate",
                        json_is_number(rate) && json_number_value(rate) > 0 ? json_incref(rate)
                                                                            : json_string("inf"));
    json_object_set_new(j, "burstiness", json_real(run_number(run, "workload", "burstiness", 1)));
    json_object_set_new(j, "max_concurrency", or_null(run_value(run, "workload", "concurrency")));
}

static void put_counts(json_t *j, const json_t *run)
{
    json_int_t success = (json_int_t)run_number(run, "requests", "success", 0),
               failed = (json_int_t)(run_number(run, "requests", "incomplete", 0) +
                                     run_number(run, "requests", "error", 0));

    json_put_int(j, "num_prompts", success + failed);
    json_object_set_new(j, "duration", json_real(run_duration_s(run)));
    json_put_int(j, "completed", success);
    json_put_int(j, "failed", failed);
    json_object_set_new(j, "total_input_tokens", or_null(run_value(run, "tokens", "input")));
    json_object_set_new(j, "total_output_tokens", or_null(run_value(run, "tokens", "output")));
    json_object_set_new(j, "request_throughput", or_null(run_value(run, "throughput", "requests_per_s")));
    json_object_set_new(j, "request_goodput", or_null(run_value(run, "goodput", "requests_per_s")));
    json_object_set_new(j, "output_throughput", or_null(run_value(run, "throughput", "output_tokens_per_s")));
    json_object_set_new(j, "total_token_throughput",
                        or_null(run_value(run, "throughput", "total_tokens_per_s")));
    json_object_set_new(j, "max_concurrent_requests", or_null(json_object_get(run, "peak_concurrency")));
    /* Of speech only, and 0 without. */
    json_object_set_new(j, "rtfx", json_real(0));
}

static void put_figures(json_t *j, const json_t *run)
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

/* Between two moments of a row in seconds; 0 where one is missing, as vLLM has it. */
static json_t *between(const json_t *row, const char *from, const char *to)
{
    double duration = row_seconds(row, to) - row_seconds(row, from);

    return json_real(isfinite(duration) && row_seconds(row, to) >= 0 ? duration : 0);
}

static json_t *gaps_in_seconds(const json_t *row)
{
    _cleanup_json_ gaps = row_gaps(row);
    json_t *list = json_array();

    for (size_t i = 0; i < json_array_size(gaps); i++)
        json_array_append_new(list, json_real(json_number_value(json_array_get(gaps, i)) / 1e6));
    return list;
}

static void append(json_t *j, const char *key, json_t *value)
{
    json_t *list = json_object_get(j, key);

    if (!list) {
        list = json_array();
        json_object_set_new(j, key, list);
    }
    json_array_append_new(list, value);
}

static void put_row(json_t *j, const json_t *row)
{
    bool success = row_has_outcome(row, "success");
    const char *error = json_get_str(row, "error");

    append(j, "input_lens", json_integer(MAX(json_get_int(row, "input_tokens", 0), 0)));
    append(j, "output_lens", json_integer(success ? MAX(json_get_int(row, "output_tokens", 0), 0) : 0));
    append(j, "ttfts", between(row, "sent_ns", "first_ns"));
    append(j, "itls", gaps_in_seconds(row));
    append(j, "latencies", between(row, "sent_ns", "end_ns"));
    append(j, "start_times", json_real(fmax(row_seconds(row, "sent_ns"), 0)));
    append(j, "queue_times", json_real(fmax(row_seconds(row, "lateness_ns"), 0)));
    append(j, "errors", json_string(error && !success ? error : ""));
}

static void count_tokens(const json_t *row, uint32_t *seconds)
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
static double token_peak(const json_t *rows)
{
    _cleanup_(freep) uint32_t *seconds = xcalloc(SECONDS_MAX, sizeof(*seconds));
    uint32_t peak = 0;

    for (size_t i = 0; i < json_array_size(rows); i++)
        count_tokens(json_array_get(rows, i), seconds);
    for (size_t s = 0; s < SECONDS_MAX; s++)
        peak = MAX(peak, seconds[s]);
    return peak;
}

json_t *save_as_vllm(const json_t *run, const json_t *requests)
{
    json_t *j = json_object();

    put_setting(j, run);
    put_counts(j, run);
    put_figures(j, run);
    if (json_array_size(requests) == 0)
        return j;
    for (size_t i = 0; i < json_array_size(requests); i++)
        put_row(j, json_array_get(requests, i));
    json_object_set_new(j, "max_output_tokens_per_s", json_real(token_peak(requests)));
    return j;
}
