/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker of a fleet that somebody looks at: what the last discovery knew of it, and the figures of its own metrics,
 * asked every few seconds.
 *
 * The owner decides when it is asked. Two calls at most are in flight, each to an endpoint that only reads: health, where
 * the engine has an answer without work, and the metrics. A worker that is slow to answer keeps its last figures until its
 * calls end by their deadline.
 */
#pragma once

#include "daemon/fleet/fleet.h"
#include "daemon/fleet/odd.h"
#include "daemon/fleet/server_metrics.h"

/* Of one call. A worker that computes a long step may take seconds. */
#define WATCHED_TIMEOUT_NS (10 * NS_PER_S)
/* A longer page has no figures that could be trusted. */
#define WATCHED_PAGE_MAX (1 << 20)
/* Rates of a shorter time are noise. */
#define WATCHED_INTERVAL_MIN_NS (NS_PER_S / 2)

/* NAN: not known. */
struct watched_figures {
    double running, waiting, kv_use, ttft_p50_s, tokens_per_s;
};

/* What rates are computed against. */
struct watched_scrape {
    int64_t at_ns; /* monotonic; 0: none */
    double tokens;
    struct server_histogram ttft;
};

struct watched_worker {
    struct caller *caller;
    char *url, *host, *version, *model;
    enum engine engine;
    enum role role;
    bool profilable, listed;
    bool has_server;                /* else it is a process that registered for Kineto, which nobody asks */
    char *reason, *remedy;          /* why it cannot be profiled */
    char *metrics_url, *health_url; /* health_url NULL: none */
    struct call_credentials credentials;
    uint64_t account;

    struct call *metrics_call, *health_call;
    char *failure;   /* why it is down; NULL: it is not */
    char *note;      /* why there are no figures although it answers; NULL */
    bool returned;   /* it was down and answers again: the owner may identify it anew, and resets this */
    int64_t left_ns; /* monotonic: since when no list has it; 0: it is listed */
    struct watched_figures figures;
    bool has_new_ttft; /* since watched_worker_see() */
    struct watched_scrape base;
    struct odd_history odd;

    void (*settled)(void *arg); /* all calls in flight have ended */
    void *arg;
};

struct watched_worker *watched_worker_new(struct caller *caller, void (*settled)(void *arg), void *arg);
struct watched_worker *watched_worker_free(struct watched_worker *w);
DEFINE_CLEANUP(struct watched_worker *, watched_worker_free)
/* What a discovery found. Of a worker that does not answer at this moment the engine stays that was known before. */
void watched_worker_take(struct watched_worker *w, const struct worker *found,
                         const struct fleet_settings *settings, const char *fleet_name);
/* Asks it, unless it is being asked. True where settled() will come, never before this returns. */
bool watched_worker_ask(struct watched_worker *w, int64_t connect_timeout_ns);
bool watched_worker_is_down(const struct watched_worker *w);
/* Feeds its history of what is odd; now by both clocks. */
void watched_worker_see(struct watched_worker *w, int64_t now_ns, int64_t now_at);
json_t *watched_worker_to_json(const struct watched_worker *w);
