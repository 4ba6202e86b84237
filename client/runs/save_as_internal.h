/* SPDX-License-Identifier: Apache-2.0 */
/* What the formats of save_as.h share. */
#pragma once

#include "base/json.h"

json_t *save_as_vllm(const json_t *run, const json_t *requests);
json_t *save_as_aiperf(const json_t *run, const json_t *requests);

/* The value that a path of two members leads to, borrowed; NULL where there is none. */
json_t *run_value(const json_t *run, const char *object, const char *member);
/* The same as a number, `fallback` where it is none. */
double run_number(const json_t *run, const char *object, const char *member, double fallback);
/* In seconds; by requests and throughput where the run does not say. */
double run_duration_s(const json_t *run);
