/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is unusual about the workers of a fleet while somebody looks at it: facts with thresholds, and no guess at causes.
 *
 * Pure: a history is plain data, fed with one sample of its worker at a time, by monotonic times. What has to hold for a
 * while is decided over samples, so a worker whose figures are missing is never odd because of them.
 */
#pragma once

#include "base/clock.h"
#include "base/json.h"
#include "proto/names.h"

/* Waiting requests are averaged over windows; they grow while each window has more than the one before. */
#define ODD_WAITING_WINDOW_NS (10 * NS_PER_S)
#define ODD_WAITING_GROWS_NS  (60 * NS_PER_S)
#define ODD_WAITING_GROWTH    4 /* requests, from the first window to the last */
#define ODD_KV_USE            0.95
/* Above the median of the workers of its role, in as many samples one after the other that have one. */
#define ODD_TTFT_FACTOR  2
#define ODD_TTFT_SAMPLES 3
#define ODD_TTFT_PEERS   3               /* workers of the role with a TTFT, itself included */
#define ODD_TTFT_AGE_NS  (10 * NS_PER_S) /* an older one is not compared */

enum odd_kind {
    ODD_DOWN,
    ODD_UNPROFILABLE,
    ODD_WAITING,
    ODD_KV,
    ODD_TTFT,
    _ODD_KIND_MAX,
};
/* "down", "unprofilable", "waiting-grows", "kv-full", "ttft-high" */
const char *odd_kind_name(enum odd_kind kind);

/* Of one worker at one moment; NAN where not known. */
struct odd_sample {
    int64_t at_ns, at; /* the same moment, monotonic and wall */
    bool down, unprofilable;
    double waiting, kv_use, ttft_s;
};

struct odd_window {
    int64_t begin_ns; /* 0: none */
    double sum;
    unsigned n;
};

/* A zeroed one is of a worker without samples. */
struct odd_history {
    enum role role;
    struct odd_sample last;
    int64_t since_at[_ODD_KIND_MAX]; /* wall; 0: it does not hold */
    struct odd_window window;
    int64_t growing_ns; /* the begin of the first of the windows that grow; 0: none is complete */
    double growing_from, growing_to;
    double ttft_s, ttft_median_s; /* the last known ones */
    int64_t ttft_at_ns;
    unsigned ttft_above; /* samples */
    bool ttft_new;       /* not compared yet */
};

void odd_see(struct odd_history *h, const struct odd_sample *sample);
/* After the samples of all workers: compares those of a role with each other. */
void odd_compare(struct odd_history *const *all, size_t n, int64_t now_ns);
/* What holds of a worker: {"worker", "kind", "what", "since_at"} for each, added to the list. detail is why it is down or
 * cannot be profiled. */
void odd_add_json(const struct odd_history *h, const char *url, const char *detail, const char *remedy,
                  json_t *list);
