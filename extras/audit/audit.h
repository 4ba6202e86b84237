/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit of a served model: makes a document from the measurements. Pure: facts in, blocks out.
 *
 * The facts are one JSON object, which `profctl audit --json` prints:
 *
 *     model          {name, engine, version, url, workers, model_type}
 *     hardware       hardware.h
 *     run            the main run, as returned by GET /v1/runs/{run}
 *     prompts        those of the run, each with its text
 *     rates          {input,output,total}_tokens_per_s of single requests: {n, mean, std, min, p50, max}
 *     sweep          [{concurrency, run}], in order; absent without a sweep
 *     price_per_hour, goal {ttft_ms, tpot_ms, e2e_ms}: absent if not given
 *     made_at        wall nanoseconds
 *
 * The document contains only statements that follow from these facts.
 */
#pragma once

#include "base/json.h"
#include "client/views/document.h"

void audit_write(const json_t *facts, struct document *ret);
