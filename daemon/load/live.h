/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said of a run once a second, while it goes on: of the last requests only. The summary has it all.
 *
 * Tokens count as they come, each event of a stream as one; the end of its request says how many they were.
 */
#pragma once

#include "base/json.h"
#include "daemon/load/record.h"

#define LIVE_REQUESTS 1024 /* of which percentiles are told */
#define LIVE_LINES    5 /* over which tokens a second are a mean: those of one second swing with its events */

struct live_values {
    int64_t ns[LIVE_REQUESTS];
    size_t n; /* ever */
};

/* A zeroed one is ready. */
struct live {
    int64_t done, errors;
    int64_t tokens_seen; /* of the run; whoever reads answers adds to it */
    struct {
        int64_t elapsed_ns, tokens;
    } told[LIVE_LINES]; /* the last lines */
    size_t n_told;      /* ever */
    struct live_values ttft, e2e;
};

/* A request that ended, of whose tokens so many were seen. Its moments are of one clock, whichever it is. */
void live_add(struct live *l, const struct request_record *r, int64_t tokens_seen);
json_t *live_line(struct live *l, int64_t elapsed_ns);
