/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's own /metrics about a benchmark run: its histograms and counters before and after, next to the client's
 * figures, by the names of server_names.h. Parsing is pure over Prometheus text, which comes from a worker and may be
 * anything.
 *
 * Samples of one metric are summed over their labels, as PromQL's sum by (le) does.
 */
#pragma once

#include "daemon/load/server_names.h"
#include "daemon/load/workload.h"
#include <event2/event.h>

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
    double kv_cache_use;              /* 0 to 1, of the fullest engine; NAN unknown */
    double kv_cache_peak;             /* the highest so far */
};

struct server_metrics server_metrics_parse(const char *text, size_t size);
/* Raises m's peak of the cache by a scrape during the run. */
void server_metrics_see_cache(struct server_metrics *m, const char *text, size_t size);
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

/* -- Asking the workers of a run ---------------------------------------------------------------------- */

/*
 * The metrics of workers before and after the run, and for the peak of the cache every few seconds during it. A worker
 * without metrics has none; a run does not fail for it. Calls belong to the caller, which is to be freed first.
 */
#define SERVER_METRICS_WORKERS_MAX 64 /* of a larger fleet the first ones */

struct server_metrics_watch;

int server_metrics_new(struct event_base *base, struct caller *caller, const struct load_spec *spec,
                       struct server_metrics_watch **ret);
struct server_metrics_watch *server_metrics_free(struct server_metrics_watch *s);
/* done() once all have responded, never before it returns. */
void server_metrics_before(struct server_metrics_watch *s, void (*done)(void *arg), void *arg);
/* From now on until server_metrics_after(). */
void server_metrics_during(struct server_metrics_watch *s);
void server_metrics_after(struct server_metrics_watch *s, void (*done)(void *arg), void *arg);
/* {"workers": [{"url", and the members of server_metrics_difference()}]}; NULL where no worker has metrics. */
json_t *server_metrics_result(const struct server_metrics_watch *s);
