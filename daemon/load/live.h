/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a run once a second, while it goes on: of the last requests only. The summary has it all.
 */
#pragma once

#include "base/json.h"
#include "daemon/load/record.h"

#define LIVE_REQUESTS 1024 /* of which percentiles are told */

struct live {
    int64_t done, errors;
    int64_t output_tokens, told_ns; /* since the last line, and when that was */
    int64_t ttft_ns[LIVE_REQUESTS], e2e_ns[LIVE_REQUESTS];
    size_t n; /* ever */
};

/* The record's moments are of one clock, whichever it is. */
void live_add(struct live *l, const struct request_record *r);
json_t *live_line(struct live *l, int64_t elapsed_ns);
