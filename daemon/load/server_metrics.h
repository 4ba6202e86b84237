/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker's own /metrics say of a run: its histograms before and after, set beside the client's
 * figures. Pure over Prometheus text, which is a worker's and may be anything; vLLM's and SGLang's names.
 *
 * Samples of one metric are summed over their labels, as PromQL's sum by (le) does.
 */
#pragma once

#include "base/json.h"

#define SERVER_BUCKETS_MAX 64

struct server_histogram {
    size_t n;
    struct server_bucket {
        double bound, count; /* how many did not exceed the bound; the last bound may be infinite */
    } buckets[SERVER_BUCKETS_MAX];
    double sum, count;
    bool is_known;
};

enum { SERVER_HISTOGRAMS = 5, SERVER_COUNTERS = 5 };

/* Plain data: a copy is a copy. */
struct server_metrics {
    struct server_histogram histograms[SERVER_HISTOGRAMS];
    double counters[SERVER_COUNTERS]; /* NAN unknown */
    double kv_cache_use;              /* 0 to 1, of the fullest engine; NAN unknown */
    double kv_cache_peak;             /* the highest that was merged into this */
};

struct server_metrics server_metrics_parse(const char *text, size_t size);
/* For whoever looks at a worker during the run: what it says of the cache raises m's peak. */
void server_metrics_see_cache(struct server_metrics *m, const char *text, size_t size);
/*
 * What came between two looks, `after` with the peak:
 *     ttft_ms, itl_ms, tpot_ms, e2e_ms, queue_ms    {"mean", "p50", "p99", "count"}, null where the worker
 *                  has none or none came; percentiles as PromQL's histogram_quantile() interpolates
 *     prompt_tokens, generation_tokens, preemptions, prefix_cache_queries, prefix_cache_hits    null unknown
 *     kv_cache_use    {"before", "after", "peak"}, shares of 1; null unknown
 * NULL where the worker says nothing of all that, or started anew between the two.
 */
json_t *server_metrics_difference(const struct server_metrics *before, const struct server_metrics *after);
