/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of an audit (audit.h) out of what profd answers. Pure. */
#pragma once

#include "base/json.h"

/* What each prompt had (docs/figures.md), with its text of the workload's prompts (NULL: synthetic, which are
 * one line). The caller's. */
json_t *facts_prompts(const json_t *run, const json_t *prompts);
/* Tokens a second of each request that succeeded warm (GET /v1/runs/{run}/requests), as distributions: tokens
 * by end-to-end latency, the deviation that of the population. The caller's. */
json_t *facts_rates(const json_t *requests);
/* Of the run, the workers that profd knows, and, where it names one, the URL that was asked. */
json_t *facts_model(const json_t *run, const json_t *workers);
/* This machine (takes it), with the GPUs that the run saw, and whether it is the worker's. */
json_t *facts_hardware(json_t *take_machine, const json_t *run);
/* {"ttft": "200ms"} as {"ttft_ms": 200}. */
json_t *facts_goal(const json_t *goodput);
