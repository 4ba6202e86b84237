/* SPDX-License-Identifier: Apache-2.0 */
/* A sample as an object of the summary. Pure. */
#pragma once

#include "base/json.h"
#include "daemon/load/sample.h"

/* {"mean", "std", "min", "p1" ... "p99.9", "max", "count", "ci95"}, in milliseconds. Percentiles are linear
 * between neighbours (Hyndman and Fan's definition 7, numpy's default), std is that of the population, both
 * as vLLM's bench computes them; ci95 is null of few requests. Of none, only "count" is no null. */
json_t *distribution_json(const struct sample *s, uint64_t seed);
