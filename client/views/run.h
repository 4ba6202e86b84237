/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A benchmark run in words: its load, its progress and its outcome, from the JSON of /v1/runs/ID. The caller frees
 * results. Its measurements are in run_figures.h.
 */
#pragma once

#include "base/json.h"
#include "base/request_json.h"
#include "client/views/document.h"
#include "proto/names.h"

/* "r3" into buf (at least RUN_REF_MAX bytes), from an object with the member run; "" without one. */
#define RUN_REF_MAX 24
char *run_ref(char *buf, const json_t *object);

bool run_is_over(const json_t *run);
/* Exit status of having waited for it. */
int run_exit_status(const json_t *run);
enum colour run_colour(const json_t *run);

/* "concurrency 24, 200 requests, 1,024 tokens in, 128 out": the load of a workload. */
char *run_load_text(const json_t *workload);
/* "Run r3 on 2 workers of Qwen3-8B: concurrency 24, ..." */
char *run_title(const json_t *run);
/* "loading · 120 of 200 sent · 24 in flight · 96 done · 3,210 tokens/s · TTFT p50 31.2 p99 88.0 ms ..." for the
 * live line of a benchmark run. live: NULL before there is any progress. */
char *run_progress(const json_t *run, const json_t *live);
/* "Run r3 is complete: 200 of 200 requests succeeded, in 12.3s", and the reason if it is not complete. */
void run_add_outcome(struct document *d, const json_t *run);

/* A figure of any size in a few characters, into buf (at least 32 bytes): "0.031", "31.2", "1,234"; "-": unknown. */
char *figure_text(char *buf, double value);
