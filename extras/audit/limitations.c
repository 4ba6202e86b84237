/* SPDX-License-Identifier: Apache-2.0 */
/* Limitations: lists what the audit did not test, which readers would otherwise take for granted. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "extras/audit/parts.h"
#include <inttypes.h>
#include <math.h>

#define REQUESTS_FOR_P99 1000
#define LONG_PROMPT      2048 /* tokens */
#define LONG_ANSWER      512
#define LONG_RUN_NS      (10 * 60 * NS_PER_S)

static double largest(const json_t *facts, const char *key)
{
    size_t i;
    json_t *prompt;
    double most = NAN;

    json_array_foreach(json_object_get(facts, "prompts"), i, prompt) {
        const json_t *v = json_object_get(prompt, key);
        if (json_is_number(v) && !(json_number_value(v) <= most))
            most = json_number_value(v);
    }
    return most;
}

static void concurrency(const json_t *facts, struct document *d)
{
    const json_t *run = json_object_get(facts, "run"), *workload = json_object_get(run, "workload");
    _cleanup_(curve_done) struct curve c = {0};

    curve_read(facts, &c);
    if (c.n == 0)
        document_item(d, "Concurrency: never more than %" PRId64 " at a time.",
                      json_get_int(run, "peak_concurrency", json_get_int(workload, "concurrency", 1)));
    else
        document_item(d, "Concurrency above %.0f.", c.concurrency[c.n - 1]);
}

static void arrival(const json_t *facts, struct document *d)
{
    const json_t *workload = json_object_get(json_object_get(facts, "run"), "workload");
    const char *how = json_get_str(workload, "arrival");

    /* Only an open loop has a rate. */
    if (how ? streq(how, "closed") : !json_is_number(json_object_get(workload, "rate")))
        document_item(
            d, "Bursts: each request waited for one before it, as no crowd of users does (--rate sends so).");
}

static void machines(const json_t *facts, struct document *d)
{
    if (json_get_int(json_object_get(facts, "model"), "workers", 1) <= 1)
        document_item(d, "More than one worker: nothing is said of routing, of several nodes, of failover.");
}

static void hardware(const json_t *facts, struct document *d)
{
    const json_t *h = json_object_get(facts, "hardware");

    if (!json_get_bool(h, "of_worker", false))
        document_item(d, "The worker's machine: it is another one, and its hardware is not known here.");
    else if (json_array_size(json_object_get(h, "gpus")) == 0)
        document_item(d, "A GPU: none was seen (%s).",
                      json_get_str(h, "gpu_note") ? json_get_str(h, "gpu_note") : "no reason known");
}

static void lengths(const json_t *facts, struct document *d)
{
    double input = largest(facts, "input_tokens"), output = largest(facts, "output_tokens");

    if (input < LONG_PROMPT)
        document_item(d, "Long prompts: the longest had %.0f tokens.", input);
    if (output < LONG_ANSWER)
        document_item(d, "Long answers: the longest had %.0f tokens.", output);
}

static void samples(const json_t *facts, struct document *d)
{
    int64_t n = run_requests(json_object_get(facts, "run"), "success");

    if (n < REQUESTS_FOR_P99)
        document_item(d, "Rare latencies: p99 rests on %" PRId64 " requests.", n);
}

static void time_of_run(const json_t *facts, struct document *d)
{
    const json_t *run = json_object_get(facts, "run");
    int64_t ns = json_get_int(run, "ended_at", 0) - json_get_int(run, "started_at", 0);
    char text[UNIT_TEXT_MAX];

    if (ns < LONG_RUN_NS)
        document_item(d, "Long runs: this one took %s, which shows no slow leak and no throttling.",
                      format_duration(text, MAX(ns, 0)));
}

static void tokens(const json_t *facts, struct document *d)
{
    const char *source =
        json_get_str(json_object_get(json_object_get(facts, "run"), "tokens"), "output_source");

    if (source && !streq(source, "usage") && !streq(source, "tokenized"))
        document_item(d, "Exact token counts: the server gave none, they are from %s.",
                      streq(source, "chunks") ? "the events of its stream" : "the length of the text");
}

static void cost(const json_t *facts, struct document *d)
{
    if (!json_object_get(facts, "price_per_hour"))
        document_item(d, "Cost: no price was given (--price-per-hour).");
}

static void quality(const json_t *facts, struct document *d)
{
    document_item(d, "Quality: no answer was judged.");
}

static void (*const rules[])(const json_t *facts, struct document *d) = {
    concurrency, arrival, machines, hardware, lengths, samples, time_of_run, tokens, cost, quality,
};

void audit_limitations(const json_t *facts, struct document *d)
{
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        rules[i](facts, d);
}
