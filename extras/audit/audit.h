/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit of a model as it is served: what was measured, made into a document. Pure: facts in, blocks out.
 *
 * The facts are one JSON object, which `profctl audit --json` prints:
 *
 *     model          {name, engine, version, url, workers, model_type}
 *     hardware       hardware.h
 *     run            the main run, as GET /v1/runs/{run} has it
 *     prompts        those of the run, each with its text
 *     rates          {input,output,total}_tokens_per_s of single requests: {n, mean, std, min, p50, max}
 *     sweep          [{concurrency, run}], in order; absent where none was made
 *     price_per_hour, goal {ttft_ms, tpot_ms, e2e_ms}: absent where not given
 *     made_at        wall nanoseconds
 *
 * Nothing is said that does not follow from them.
 */
#pragma once

#include "base/json.h"
#include "client/views/document.h"

void audit_write(const json_t *facts, struct document *ret);
