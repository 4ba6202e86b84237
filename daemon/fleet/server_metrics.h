/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's own /metrics: its histograms, counters and gauges by the names of server_names.h, and the difference of two
 * scrapes. Pure over Prometheus text, which comes from a worker and may be anything.
 *
 * Samples of one metric are summed over their labels, as PromQL's sum by (le) does.
 */
#pragma once

#include "base/json.h"
#include "daemon/fleet/server_names.h"

#define SERVER_BUCKETS_MAX 64

struct server_histogram {
    size_t n;
    struct server_bucket {
        double bound, count; /* observations up to the bound; the last bound may be infinite */
    } buckets[SERVER_BUCKETS_MAX];
    double sum, count;
    bool is_known;
};

/* Plain data: a copy is a copy. */
struct server_metrics {
    /* whose page it was; NULL: of nobody that is known, nothing else is */
    const struct server_source *source;
    struct server_histogram histograms[SERVER_HISTOGRAMS];
    double counters[SERVER_COUNTERS]; /* NAN unknown */
    double gauges[SERVER_GAUGES];     /* of all engines together; NAN unknown */
    double kv_cache_use;              /* 0 to 1, of the fullest engine; NAN unknown */
    double kv_cache_peak;             /* the highest so far */
};

struct server_metrics server_metrics_parse(const char *text, size_t size);
/* Raises m's peak of the cache by a scrape during the run. */
void server_metrics_see_cache(struct server_metrics *m, const char *text, size_t size);
/* In seconds, of the observations between two scrapes; NAN where there were none, or it is not known what there was. */
double server_histogram_quantile_of(const struct server_histogram *before,
                                    const struct server_histogram *after, double q);
/*
 * The difference of two scrapes, `after` with the peak:
 *     source       whose metrics these are: "vllm", "sglang", ..., "dynamo-frontend", "smg"
 *     ttft_ms, itl_ms, tpot_ms, e2e_ms, queue_ms    {"mean", "p50", "p99", "count"}, null where the worker
 *                  has no such histogram or no observation; percentiles as PromQL's histogram_quantile() interpolates
 *     prompt_tokens, generation_tokens, preemptions, prefix_cache_queries, prefix_cache_hits    null unknown
 *     kv_cache_use    {"before", "after", "peak"}, shares of 1; null unknown
 * NULL where the worker has none of these metrics, or restarted in between.
 */
json_t *server_metrics_difference(const struct server_metrics *before, const struct server_metrics *after);
