/* SPDX-License-Identifier: Apache-2.0 */
/* What each of the workload's prompts cost, for workloads that name their prompts. Pure. */
#pragma once

#include "base/json.h"
#include "daemon/load/record.h"

#define BY_PROMPT_MAX 1000

/*
 * [{"prompt", "requests", "ttft_ms", "tpot_ms", "e2e_ms": {"mean", "min", "max"}, "input_tokens",
 * "output_tokens": means, "rss_bytes", "gpu_bytes": {"peak", "difference"}}] of the first n_prompts, at most
 * BY_PROMPT_MAX; figures are of warm requests that succeeded, null without any.
 *
 * Memory is that of all workers and GPUs while a request of the prompt was under way, whatever else was: the
 * looks of `timeline` (sampler_result(); NULL: none) between its sending and its end, against the first look.
 * Null where no look fell into any. started_ns is the moment on the timeline's clock from which records
 * count.
 */
json_t *by_prompt_json(const struct request_record *records, size_t n, size_t n_prompts, const json_t *memory,
                       int64_t started_ns);
