/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of a request of a benchmark run, a row of the view `requests`; tolerant of missing members. Pure. */
#pragma once

#include "base/json.h"

/* Whether it succeeded and was not the first to its worker: these count in a run's metrics. */
bool row_is_warm(const json_t *row);
bool row_has_outcome(const json_t *row, const char *outcome);
/* A duration in seconds; NAN: none. */
double row_seconds(const json_t *row, const char *member);
/* Its gaps in microseconds as an array, which the caller owns; they are text in the catalog. NULL: none. */
json_t *row_gaps(const json_t *row);
