/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of benchmark runs and their requests, as JSON of the API or rows of the view `requests`; tolerant of missing members.
 * Pure. */
#pragma once

#include "base/json.h"

/* Whether it succeeded and was not the first to its worker: these count in a run's metrics. */
bool row_is_warm(const json_t *row);
bool row_has_outcome(const json_t *row, const char *outcome);
/* A duration in seconds; NAN: none. */
double row_seconds(const json_t *row, const char *member);
/* Its gaps in microseconds as an array, which the caller owns; they are text in the catalog. NULL: none. */
json_t *row_gaps(const json_t *row);

/* A percentile of a metric object ("p99" with its "count"), or another of its figures; NAN: the sample is too small for
 * the percentile, as p99 needs 100 values. */
double run_metric_figure(const json_t *metric, const char *name);
/* The same by its path in a run, "metrics/ttft_ms/p99", and any other figure of it. */
double run_supported_figure(const json_t *run, const char *path);
/* A number of an object by its path, "a/b/c"; NAN: none. */
double figure_at(const json_t *object, const char *path);
