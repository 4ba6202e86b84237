/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run in words: what it is, how it stands, how it ended. From the JSON of /v1/runs/ID; the caller frees
 * what is returned. What it measured is run_figures.h's.
 */
#pragma once

#include "base/json.h"
#include "client/views/document.h"
#include "proto/names.h"

/* "r3" into buf (at least RUN_REF_MAX bytes), of a run or of anything that names one; "" where none is named.
 */
#define RUN_REF_MAX 24
char *run_ref(char *buf, const json_t *object);

bool run_is_over(const json_t *run);
/* Exit status of having waited for it. */
int run_exit_status(const json_t *run);
enum colour run_colour(const json_t *run);

/* "concurrency 24, 200 requests, 1,024 tokens in, 128 out": what a workload asks for, as it is sent or kept.
 */
char *run_load_text(const json_t *workload);
/* "Run r3 on 2 workers of Qwen3-8B: concurrency 24, ..." */
char *run_title(const json_t *run);
/* "loading · 120 of 200 sent · 24 in flight · 96 done · 3,210 tokens/s · TTFT p50 31.2 p99 88.0 ms ..." for the
 * live line of a benchmark run. live: NULL before there is any progress. */
char *run_progress(const json_t *run, const json_t *live);
/* "Run r3 is complete: 200 of 200 requests succeeded in 12.3s", and the reason where it is not. */
void run_add_outcome(struct document *d, const json_t *run);

/* A figure of any size in a few characters, into buf (at least 32 bytes): "0.031", "31.2", "1,234"; "-" for
 * what is not known. */
char *figure_text(char *buf, double value);
/* A percentile of a metric object ("p99" with its "count"), or another of its figures; NAN where the sample
 * does not support the percentile: p99 takes 100 values. */
double run_metric_figure(const json_t *metric, const char *name);
/* The same by its path in a run, "metrics/ttft_ms/p99", and any other figure of it. */
double run_supported_figure(const json_t *run, const char *path);
/* A number of an object by its names, "a/b/c"; NAN where there is none. */
double figure_at(const json_t *object, const char *path);
