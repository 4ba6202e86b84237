/* SPDX-License-Identifier: Apache-2.0 */
/* Two runs side by side: how far each figure moved, and whether chance explains it. Pure. */
#pragma once

#include "base/json.h"

/* A difference that is less improbable than this is none. */
#define COMPARE_LEVEL 0.01

/*
 * Runs as profd gives them, with the rows of their requests (NULL: none at hand). The caller's:
 *     a, b         their numbers
 *     workload     [{member, a, b}]: how what was sent differs; empty where runs compare like with like
 *     requests     [{metric, a, b, difference, percent}]: how many had each outcome
 *     throughput   the same, of throughput, goodput and peak concurrency
 *     latency      [{metric, p, significant, verdict, figures: [{figure, a, b, difference, percent}]}]: p by
 *                  Mann and Whitney's test over requests (base/statistics.h), null without rows; the verdict
 *                  on b is "slower", "faster" or "same"
 * Gaps of one request are no independent values, so its mean gap stands for them. `difference` is b - a, and
 * null where either is.
 */
json_t *runs_compare(const json_t *run_a, const json_t *requests_a, const json_t *run_b,
                     const json_t *requests_b);
