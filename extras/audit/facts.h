/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of an audit (audit.h) from the responses of profd. Pure. */
#pragma once

#include "base/json.h"

/* The figures of each prompt (docs/figures.md), with its text from the workload's prompts (NULL: synthetic
 * prompts, which are one line). The caller owns the result. */
json_t *facts_prompts(const json_t *run, const json_t *prompts);
/* Tokens per second of each successful warm request (GET /v1/runs/{run}/requests), as distributions:
 * tokens divided by end-to-end latency, with the standard deviation of the population. The caller owns the
 * result. */
json_t *facts_rates(const json_t *requests);
/* Of the run, the workers that profd knows, and, where it names one, the URL that was asked. */
json_t *facts_model(const json_t *run, const json_t *workers);
/* This machine (takes ownership), with the GPUs in the run, and whether the worker runs on it. */
json_t *facts_hardware(json_t *take_machine, const json_t *run);
/* Converts {"ttft": "200ms"} to {"ttft_ms": 200}. */
json_t *facts_goal(const json_t *goodput);
