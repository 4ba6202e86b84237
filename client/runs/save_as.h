/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A benchmark run in the JSON of other load generators, for programs that read theirs. Pure.
 *
 *     vllm-bench    what `vllm bench serve --save-result --save-detailed` writes (vllm/benchmarks/serve.py)
 *     aiperf        profile_export_aiperf.json, schema 1.1 (docs/reference/json-export-schema.md of AIPerf)
 *
 * Where a tool computes a figure differently from profd, its key gets the closest figure (docs/figures.md); what
 * profd does not know is absent, or null where readers expect the key.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"

/* The formats' names, NULL at the end. */
extern const char *const save_as_formats[];

/* Of a run and the rows of its requests (NULL or empty: without lists of requests). The caller's; NULL
 * with a problem where the format is unknown or the run has no figures. */
json_t *save_as(const char *format, const json_t *run, const json_t *requests, struct problem *p);

/* A request of profile_export.jsonl, the caller's: one line for each row, which AIPerf's plotter reads. */
json_t *save_as_aiperf_record(const json_t *run, const json_t *row);
