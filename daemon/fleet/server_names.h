/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What servers call the figures of their own metrics: one table of engines and routers, and the path of each engine's
 * page. Pure.
 */
#pragma once

#include "base/metrics.h"

enum server_histogram_name {
    SERVER_TTFT,
    SERVER_ITL,
    SERVER_TPOT,
    SERVER_E2E,
    SERVER_QUEUE,
    SERVER_HISTOGRAMS,
};
enum server_counter_name {
    SERVER_PROMPT_TOKENS,
    SERVER_GENERATION_TOKENS,
    SERVER_PREEMPTIONS,
    SERVER_CACHE_QUERIES,
    SERVER_CACHE_HITS,
    SERVER_COUNTERS,
};
enum server_gauge_name {
    SERVER_RUNNING, /* requests */
    SERVER_WAITING,
    SERVER_GAUGES,
};

#define SERVER_NAMES_MAX 3

/* Names below the prefix of their server, without "_bucket" and its like. Of several, the first one that a page has
 * counts: newer versions come first. NULL after the last. */
struct server_names {
    const char *histograms[SERVER_HISTOGRAMS][SERVER_NAMES_MAX]; /* seconds */
    const char *counters[SERVER_COUNTERS][SERVER_NAMES_MAX];
    const char *gauges[SERVER_GAUGES][SERVER_NAMES_MAX];
    const char *cache[SERVER_NAMES_MAX]; /* used share of the KV cache, 0 to 1 */
};

struct server_source {
    const char *name;   /* an engine's word in proto/names.h; a router's own name */
    const char *prefix; /* of all its metrics: a page with it is a page of this server */
    const struct server_names *names;
};

/* The members of a result, in the order of the names. */
extern const char *const server_histogram_keys[SERVER_HISTOGRAMS],
    *const server_counter_keys[SERVER_COUNTERS];

/* The first server of the table that has a metric on the page; NULL for a page of a server that is not known. */
const struct server_source *server_source_of(struct prometheus_text page);
/* The path that answers whether an engine is alive, without work for it; NULL: none that is known. */
const char *server_health_path(const char *engine);
/* The path of an engine's page; engine is its word, NULL unknown. */
const char *server_metrics_path(const char *engine);
