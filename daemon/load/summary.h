/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run says as a whole: the records of all its requests in, one object out (docs/figures.md says how
 * each figure is computed, and after whom). Pure.
 *
 * Success, incomplete and error are separate populations: figures are of what succeeded. The first request to
 * each worker is cold, and stands apart. Cost grows with requests and gaps, a few passes over each; gaps are
 * not copied.
 */
#pragma once

#include "base/json.h"
#include "daemon/load/record.h"
#include "daemon/load/workload.h"

/* Borrowed, all of it. */
struct summary_input {
    const struct request_record *records; /* by index */
    size_t n;
    const struct workload *workload;
    /* Of CLOCK_MONOTONIC; records count from the first. */
    int64_t started_ns, ended_ns;
    json_t *memory, *server; /* of sampler_result(), server_metrics_difference(); may be NULL */
};

json_t *summary_make(const struct summary_input *in);
