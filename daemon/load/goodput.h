/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that met every goal that the workload names: what of the throughput is of use (DistServe, 2024;
 * vLLM's bench computes the same). Pure. */
#pragma once

#include "base/json.h"
#include "daemon/load/record.h"
#include "daemon/load/workload.h"

/* {"requests_per_s", "share", "good", "goals": {"ttft_ms": {"goal", "share"}}}: shares are of all n requests,
 * since one that failed served nobody. An answer of one token has no TPOT, and meets any; what has no other
 * figure misses it. NULL without goals. */
json_t *goodput_json(const struct request_record *records, size_t n, const struct workload_goal *goal,
                     double duration_s);
