/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The summary of a benchmark run: the records of all its requests in, one object out (docs/figures.md explains how
 * each figure is computed, and by which method). Pure.
 *
 * Success, incomplete and error are separate populations: figures are of successful requests. The first request to
 * each worker is cold, and has figures of its own. The cost grows with requests and gaps, a few passes over each;
 * gaps are not copied.
 */
#pragma once

#include "daemon/load/statistics.h"
#include "daemon/load/workload.h"

/* All borrowed. */
struct summary_input {
    const struct request_record *records; /* by index */
    size_t n;
    const struct workload *workload;
    int64_t started_ns, ended_ns; /* of CLOCK_MONOTONIC; records count from started_ns */
    json_t *memory, *server;      /* sampler_result(), server_metrics_difference(); may be NULL */
};

json_t *summary_make(const struct summary_input *in);

#define SUMMARY_PROMPTS_MAX     1000
#define SUMMARY_ERROR_KINDS_MAX 32
#define OUTLIERS_MAX            20 /* of all figures together */

/* [{"text", "count", "outcome", "status"}], the most frequent first; beyond SUMMARY_ERROR_KINDS_MAX kinds the rest
 * is one line. */
json_t *errors_json(const struct request_record *records, size_t n);
