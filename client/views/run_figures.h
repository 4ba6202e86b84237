/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measurements of a run, for people: a table of latencies, then a field for each other figure. From the JSON of
 * /v1/runs/ID (docs/figures.md).
 */
#pragma once

#include "base/json.h"
#include "client/views/document.h"

void run_add_figures(struct document *d, const json_t *run, bool with_heading);

/* Metrics of requests in the order of tables: "ttft_ms" and the name for people. */
struct run_metric {
    const char *key, *name;
};
extern const struct run_metric run_metrics[];
extern const size_t n_run_metrics;
/* "TTFT" of "ttft_ms"; the key if it is unknown. */
const char *run_metric_name(const char *key);
