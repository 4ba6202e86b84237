/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that took far longer than the others, and why, as far as it is seen from outside. Pure.
 *
 * Far is by Iglewicz and Hoaglin's modified z-score (base/statistics.h), upwards only, and at least
 * OUTLIER_SHARE of the median more, since where most are equal every difference is far.
 */
#pragma once

#include "base/json.h"
#include "daemon/load/concurrency.h"
#include "daemon/load/sample.h"

#define OUTLIERS_MAX  20
#define OUTLIER_SHARE 0.25

/* The worst OUTLIERS_MAX of all figures: [{"index", "target", "figure", "value", "median", "reason"}], in
 * milliseconds, the farthest (in medians) first. `samples` by figure, of the same requests. */
json_t *outliers_json(const struct sample samples[static _FIGURE_MAX], const struct concurrency *c);
